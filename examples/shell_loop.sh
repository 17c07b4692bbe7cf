#!/usr/bin/env bash
# A loop of short commands under the switches, in a shell and with no Python: epochs of a program that saves after each.
#
# examples/shell_loop.sh EPOCHS COMMAND...    COMMAND is run as: COMMAND... EPOCH, and saves before it ends.
#
# The switches lie in home, where `watchdogd kill-switch` always sets them, whatever config.toml says; set RUN. In a job script
# with #SBATCH --signal=B:USR1@300 the loop also ends, after the epoch it is in, when the time limit comes near.
set -euo pipefail

RUN=${RUN:-shell-loop}
SWITCHES=${WATCHDOGD_HOME:-$HOME/.watchdogd}/switches
KILL=${KILL:-$SWITCHES/$RUN.kill}
SAVE=${SAVE:-$SWITCHES/$RUN.save}
FINISHED=$SWITCHES/$RUN.finished

asked=""
trap 'asked="signal USR1"' USR1
trap 'asked="signal TERM"' TERM

stop_wanted() {
    if [ -e "$KILL" ]; then asked="kill switch: $(head -n 1 "$KILL")"; fi
    [ -n "$asked" ]
}

# The exit code of a child, however many trapped signals come in between.
code_of() {
    local code=0
    wait "$1" || code=$?
    while kill -0 "$1" 2>/dev/null; do
        wait "$1" || true
    done
    if [ "$code" -gt 128 ]; then wait "$1" && code=0 || code=$?; fi
    return "$code"
}

epochs=$1
shift
if [ -e "$FINISHED" ]; then echo "$RUN is marked finished: nothing to do"; exit 0; fi
for ((epoch = 1; epoch <= epochs; epoch++)); do
    if stop_wanted; then echo "stopped before epoch $epoch: $asked"; exit 0; fi
    "$@" "$epoch" & # in the background, so that a signal is noted while the epoch ends in peace
    code_of $! || exit $?
    rm -f -- "$SAVE" # every epoch ends with a checkpoint, so a wish for one is met here
done
(set -o noclobber; : >"$FINISHED") || [ -e "$FINISHED" ]
echo "done: $epochs epochs"
