"""Shell script that asks one node's GPU tools, and the parser of its output."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import amd_smi, kernel_log, nvidia_smi, rocm_smi
from watchdogd.parsers.gpu.kernel_log import DriverEvent
from watchdogd.parsers.gpu.models import Readout, merged
from watchdogd.parsers.gpu.nvidia_smi_csv import FIELDS
from watchdogd.system.number import whole
from watchdogd.system.text import split_lines

SCRIPT = r"""
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/opt/rocm/bin
seconds=$1
echo "@@ node ${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}"
ask() {
    echo "@@ run $*"
    said=$({ timeout -k 1 "$seconds" "$@" 2>&1; printf '\n@@ exit %s\n' $?; } |
        { head -c 4000000; tail -c 99; })
    code=${said##*@@ exit }
    printf '%s\n' "$said"
}
has() { command -v "$1" >/dev/null 2>&1; }
hung() { [ "$code" = 124 ] || [ "$code" = 137 ]; }
told() { case $code:$said in 0:*GPU*|0:*gpu*|0:*card*) return 0 ;; esac; return 1; }
failed() { ! told && ! hung; }
if has nvidia-smi || has amd-smi || has rocm-smi; then
    script='log() { dmesg --time-format iso 2>/dev/null | grep -E "$1" | tail -n "$2"; }; '
    script="$script"'log "NVRM.*($1)|amdgpu.*($3)" 60; log "NVRM.*($2)" 20'
    ask sh -c "$script" log "$3" "$4" "$5"
fi
if has nvidia-smi; then
    ask nvidia-smi -q
    failed && ask nvidia-smi --query-gpu="$2" --format=csv
    failed && ask nvidia-smi
fi
amd=no
if has amd-smi; then
    ask amd-smi metric --json
    failed && ask amd-smi monitor
    told && amd=yes && ask amd-smi static --json
fi
if has rocm-smi && [ $amd = no ]; then
    ask rocm-smi --showuniqueid --showproductname --showbus --showuse --showmeminfo vram --showtemp \
        --showpower --showmaxpower --showperflevel --json
    failed && ask rocm-smi
    hung || ask rocm-smi --showrasinfo
fi
echo "@@ end"
"""
"""Arguments: seconds for each tool, the fields for nvidia-smi's --query-gpu, and the patterns for the kernel
log, two of NVIDIA's driver and one of AMD's. The log comes first, since a tool may hang because of what it
reports. A tool that fails in one format is asked for a simpler one; one that hangs is not asked again. Needs
sh, grep and coreutils."""
ARGUMENTS = (",".join(FIELDS), *kernel_log.NVIDIA_MARKS, kernel_log.AMD_MARKS)
_FRAME = re.compile(r"@@ (node|run|exit|end)\b ?(.*)")
_HUNG = frozenset({124, 137})
_ADVICE = (
    ("version mismatch", "its driver was upgraded: reboot the node, or load the new module"),
    ("initialize nvml: unknown error", "a container that lost its devices: start it again"),
    ("permission|required groups", "give the user access to the GPU's devices"),
    ("no module named|cannot open shared object|command not found", "install it anew"),
)
_READERS = {"nvidia-smi": nvidia_smi, "amd-smi": amd_smi, "rocm-smi": rocm_smi}


@dataclass(frozen=True, slots=True)
class GpuNode:
    """The GPUs of one node. `trouble` says why they are not known; else `readout` has them.

    `tool_missing`: it has no tool that could say so.
    """

    name: str
    readout: Readout = field(default_factory=Readout)
    trouble: str = ""
    events: tuple[DriverEvent, ...] = ()
    tool_missing: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer in the script's output: the command, its output, its exit code (None: it still ran)."""

    asked: str
    text: str
    code: int | None

    @property
    def tool(self) -> str:
        return self.asked.partition(" ")[0]


def argv(seconds_each: float) -> tuple[str, ...]:
    return ("sh", "-c", SCRIPT, "watchdogd-probe", f"{seconds_each:g}", *ARGUMENTS)


def read(text: str) -> GpuNode:
    """Return the node's GPUs; if several tools are installed, the first that lists GPUs counts."""
    name, answers = _answers(text)
    events = tuple(
        event for answer in answers if answer.tool == "sh" for event in kernel_log.read(answer.text)
    )
    troubles: list[str] = []
    missing = ""
    for tool in _READERS:
        readout, trouble = _tool([answer for answer in answers if answer.tool == tool])
        if readout.gpus:
            return GpuNode(name, readout, events=events)
        missing = missing or readout.absent
        troubles += [trouble] if trouble else []
    if none := not troubles and not missing:
        troubles.append("there is no nvidia-smi, amd-smi or rocm-smi on its PATH")
    return GpuNode(name, Readout(absent=missing), "; ".join(troubles), events, none)


def _answers(text: str) -> tuple[str, list[_Answer]]:
    """Return the node's name and the answers of all tools."""
    name, asked, kept, answers = "", "", [], []
    for line in split_lines(text):
        match = _FRAME.match(line)
        if not match:
            kept.append(line)
            continue
        word, rest = match.groups()
        if word == "node":
            name = rest.strip()
        elif word == "run":
            asked, kept = rest, []
        elif word == "exit":
            answers.append(_Answer(asked, "\n".join(kept), whole(rest)))
            asked = ""
    if asked:
        answers.append(_Answer(asked, "\n".join(kept), None))
    return name, answers


def _tool(answers: Sequence[_Answer]) -> tuple[Readout, str]:
    """Merge the answers of one tool; also return the first reason why it gave none, or empty."""
    found, troubles = Readout(), []
    for answer in answers:
        if answer.code is None or answer.code in _HUNG:
            troubles.append(f"{answer.tool} hangs: `{answer.asked[:60]}` did not answer in time")
            continue
        try:
            readout = _read(answer)
        except UnreadableError as error:
            troubles.append(f"{error}; {_advice(str(error), answer.tool)}")
        else:
            found = merged(found, readout) if found != Readout() else readout
    return found, "" if found.gpus or not troubles else troubles[0]


def _advice(trouble: str, tool: str) -> str:
    """Return what to do if a tool lists no GPUs."""
    known = (words for said, words in _ADVICE if re.search(said, trouble, re.IGNORECASE))
    return next(known, f"run {tool} there by hand")


def _read(answer: _Answer) -> Readout:
    if answer.tool == "nvidia-smi":
        return nvidia_smi.read(answer.text, FIELDS if "--query-gpu" in answer.asked else ())
    return amd_smi.read(answer.text) if answer.tool == "amd-smi" else rocm_smi.read(answer.text)
