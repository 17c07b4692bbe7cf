"""guard --run RUN -- CMD: run a program that cannot be changed under the switches of its run.

Signals are received by waiting for them, not by handlers, and CMD is started without a fork of ours: it keeps
every open file (PMI's socket under srun), the terminal, and the signal mask with which guard was started.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from argparse import REMAINDER

from watchdogd.cli.output import seconds
from watchdogd.errors import UsageError
from watchdogd.system.number import count
from watchdogd.system.umask import Lent, users
from watchdogd.training import Guard

TYPE_CHECKING = False  # without importing typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator, Mapping

PASSED_ON = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
        signal.SIGCONT,
        signal.SIGWINCH,
    }
)
_FROM_KERNEL = 0x80
"""si_code of a signal from the terminal, which goes to its whole foreground, so CMD has it too
(sigaction(2))."""
_LOOK = 0.5
_SAVE_TIME = 10.0
"""Seconds for which a save switch stays set, so that the guards of all ranks see it."""
_NOT_FOUND, _NOT_EXECUTABLE, _SIGNALLED = 127, 126, 128  # as shells do


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.usage = "watchdogd guard --run RUN [options] -- CMD ..."
    parser.add_argument("--run", required=True, dest="name", metavar="RUN", help="whose switches count")
    parser.add_argument(
        "--signal", default="USR1", metavar="SIG", help="asks CMD to save and exit (default: USR1)"
    )
    parser.add_argument(
        "--grace", default="60s", metavar="DURATION", help="after it CMD gets SIGTERM (default: 60s)"
    )
    parser.add_argument(
        "--kill-after", metavar="DURATION", help="so long after SIGTERM, SIGKILL; left out: never"
    )
    parser.add_argument(
        "--save-signal", metavar="SIG", help="asks CMD to save and go on, for the save switch; left out: none"
    )
    parser.add_argument("--time-left", metavar="DURATION", help="ask so long before the job's end, too")
    parser.add_argument(
        "--exit-after", metavar="DURATION", help="ask so long after guard began: where no end is told"
    )
    parser.add_argument(
        "--memory-free", metavar="AMOUNT", help="ask when less is left: 5%%, 20GiB (default: as configured)"
    )
    parser.add_argument(
        "command", nargs=REMAINDER, metavar="-- CMD ...", help="the program, and its own options"
    )


def run(args: argparse.Namespace) -> int:
    """Return CMD's exit code, 128 plus the number of the signal that ended it, or 0 if it was not started."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("guard: say what to run: watchdogd guard --run RUN -- CMD ...")
    plan = SignalPlan(args)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})
    guard = _guard(args)
    try:
        guard.exit_if_stopped()
        return _supervise(guard, command, plan, before)
    finally:
        guard.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class SignalPlan:
    """Signals that CMD gets, and when (seconds). Raise UsageError if an option cannot be read."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.ask = _signal(args.signal)
        self.save = _signal(args.save_signal) if args.save_signal else None
        self.steps = [(0.0, self.ask)]
        grace = seconds(args, "--grace")
        if self.ask != signal.SIGTERM:
            self.steps.append((grace, signal.SIGTERM))
        if args.kill_after is not None:
            last = self.steps[-1][0]
            self.steps.append((last + seconds(args, "--kill-after"), signal.SIGKILL))


class Stop:
    """The signals still to be sent once CMD is to stop; a stop is never taken back."""

    def __init__(self, plan: SignalPlan) -> None:
        self._steps = list(plan.steps)
        self._begun: float | None = None

    def begin(self, now: float) -> bool:
        """Begin to stop CMD; return True the first time."""
        first = self._begun is None
        self._begun = now if first else self._begun
        return first

    def due(self, now: float) -> list[signal.Signals]:
        """Return the signals to send to CMD now."""
        found = []
        while self._begun is not None and self._steps and now >= self._begun + self._steps[0][0]:
            found.append(self._steps.pop(0)[1])
        return found


def _supervise(guard: Guard, command: list[str], plan: SignalPlan, mask: Collection[int]) -> int:
    """Start CMD and wait until it has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, there is no exit code
    pid = _start(command, mask)
    if pid < 0:
        return -pid
    stop, saver = Stop(plan), Saver(guard, plan.save)
    while True:
        _pass_on(pid)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else _SIGNALLED - code
        now, wish = time.monotonic(), guard.poll()
        if wish.stop and stop.begin(now):
            _say(f"{guard.run}: {wish.reason}: {plan.ask.name} to '{command[0]}'")
        for number in stop.due(now):
            if number != plan.ask:
                _say(f"{guard.run}: '{command[0]}' goes on: {number.name}")
            _send(pid, number)
        if saver.wanted(wish.save and not wish.stop, now) and plan.save is not None:
            _send(pid, plan.save)


def _pass_on(pid: int) -> None:
    """Wait up to half a second for a signal and pass it on to CMD, unless CMD got it already."""
    received = signal.sigtimedwait({*PASSED_ON, signal.SIGCHLD}, _LOOK)
    if received is None or received.si_signo == signal.SIGCHLD or received.si_code == _FROM_KERNEL:
        return
    _send(pid, received.si_signo)


def _send(pid: int, number: int) -> None:
    """Send a signal to CMD, or to the processes under it.

    CMD may have ended, but only this process reaps it, so its id is not reused.
    """

    for each in recipients(pid, number):
        try:
            os.kill(each, number)
        except ProcessLookupError:
            pass  # a process under CMD has ended meanwhile
        except PermissionError:
            _say(f"{signal.Signals(number).name} is not allowed: CMD runs as another user")


class Saver:
    """The save switch: each time it is set, one signal is sent and the switch is removed."""

    def __init__(self, guard: Guard, number: signal.Signals | None) -> None:
        self._guard = guard
        self._number = number
        self._since: float | None = None
        self._complained = False

    def wanted(self, is_set: bool, now: float) -> bool:
        """Return True if CMD is to save now."""
        if not is_set:
            self._since = None
        elif self._number is None:
            self._complain()
        elif self._since is None:
            self._since = now
            return True
        elif now - self._since >= _SAVE_TIME:
            self._guard.saved()
            self._since = None
        return False

    def _complain(self) -> None:
        if not self._complained:
            self._complained = True
            _say(
                f"{self._guard.run}: the save switch is set, but no --save-signal says how to ask for a save"
            )


def _start(command: list[str], mask: Collection[int]) -> int:
    """Return CMD's process id, or its negative exit code if it cannot be started."""
    ignored_by_python = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        with Lent(users()):
            return os.posix_spawnp(
                command[0], command, os.environ, setsigmask=mask, setsigdef=ignored_by_python
            )
    except OSError as error:
        _say(f"'{command[0]}' cannot be run: {error.strerror or error}")
        return -(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _guard(args: argparse.Namespace) -> Guard:
    """Return a Guard that handles no signals and writes no heartbeats, which would say nothing about CMD."""
    try:
        return Guard(
            args.name,
            home=args.home,
            memory_free=args.memory_free,
            time_left=args.time_left,
            exit_after=args.exit_after,
            signals=False,
            heartbeat=False,
        )
    except ValueError as error:
        raise UsageError(f"guard: {error}") from None


def _signal(text: str) -> signal.Signals:
    """Parse a signal: USR1, SIGUSR1 or 10."""
    try:
        if (number := count(text)) is not None:
            return signal.Signals(number)
        return signal.Signals["SIG" + text.upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        raise UsageError(f"guard: there is no signal '{text}': write USR1, TERM or INT") from None


def _say(text: str) -> None:
    print(f"watchdogd: {text}", file=sys.stderr, flush=True)


HARMLESS = frozenset({signal.SIGCONT, signal.SIGWINCH})
"""Signals that end nobody who does not handle them (signal(7))."""


def recipients(pid: int, number: int) -> list[int]:
    """Return the process itself if it survives the signal, else the nearest below that handle it.

    A launcher or shell that does not handle SIGUSR1 would die of it and leave its ranks running alone.
    If none does, return all of them, the program first, since its exit code then names the signal: they end
    together, and none is orphaned. But return none if one of them ignores the signal and would go on alone.
    """
    if number in HARMLESS or takes(pid, number):
        return [pid]
    below = _below()
    if found := [*_nearest(pid, number, below)]:
        return found
    everybody = [pid, *_descendants(pid, below)]
    return [] if any(_set(each, "Ign", number) for each in everybody) else everybody


def takes(pid: int, number: int) -> bool:
    """Return True if a process handles a signal, or blocks it to wait for it (proc(5): SigCgt, SigBlk).

    True if that cannot be read: then nobody else is to get it instead.
    """
    return _set(pid, "(?:Cgt|Blk)", number) is not False


def _set(pid: int, masks: str, number: int) -> bool | None:
    """Return True if a signal is in one of a process's masks; None if they cannot be read."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            found = re.findall(rf"^Sig{masks}:\s*(\w+)", file.read(), re.MULTILINE)
    except OSError:
        return None
    return any(int(mask, 16) >> (number - 1) & 1 for mask in found)


def _nearest(pid: int, number: int, below: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield the nearest that handle it, not the processes below those: they pass on what these need."""
    for child in below.get(pid, ()):
        if takes(child, number):
            yield child
        else:
            yield from _nearest(child, number, below)


def _descendants(pid: int, below: Mapping[int, list[int]]) -> Iterator[int]:
    for child in below.get(pid, ()):
        yield child
        yield from _descendants(child, below)


def _below() -> dict[int, list[int]]:
    """Map each process of this machine to its children (proc(5))."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has just ended
        found.setdefault(parent, []).append(int(name))
    return found
