"""External commands: a deadline, the C locale, bounded output, and an unambiguous answer.

An Answer distinguishes "it said no" (`exit_code` not 0) from "it did not answer" (`silent`: hung, missing,
not executable). A command that survives its kill (stuck in the kernel) is left behind, never waited for.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Event
from typing import IO

from watchdogd.system import startup
from watchdogd.system.text import split_lines

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes kept of each stream; 64 MiB is the squeue of some 200,000 jobs."""
_SLURM_TOOLS = ("SLURM", "SLURMD", "SBATCH", "SRUN", "SALLOC", "SQUEUE", "SACCT", "SINFO", "SCANCEL")
_SLURM_PREFIXES = tuple(f"{tool}_" for tool in _SLURM_TOOLS)
_GRACE = 0.5
_NAP, _LONGEST_NAP = 0.0005, 0.05
_NEVER = Event()
"""Used to sleep: `time.sleep` fails where a tool such as libfaketime sets the clock."""


class Failure(Enum):
    UNSTARTED = "it could not be started"
    LATE = "it did not end in time"
    FLOOD = "it printed more than can be kept"
    ENDED = "watchdogd ended before it"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of a command; `exit_code` is None where it did not answer.

    Then `failure` says why, `why` in words (`did not answer within 5 s`), and `errno` is set where it could
    not be started.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    output: str
    errors: str
    seconds: float
    why: str = ""
    truncated: bool = False
    failure: Failure | None = None
    errno: int | None = None

    @property
    def trouble(self) -> str:
        """Return why it did not answer, in one line that names it; empty where it did."""
        return f"{self.argv[0]} {self.why}" if self.why else ""

    @property
    def said(self) -> str:
        """Return the last line of stderr, or else of stdout, on a failure; may be empty.

        GPFS's last line only refers to the one before.
        """
        said = split_lines(self.errors.strip() or self.output.strip())
        lines = [line for line in said if "Examine previous error messages" not in line] or said
        return lines[-1].strip() if lines else ""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def silent(self) -> bool:
        """Return whether it did not answer, so that nothing is known."""
        return self.exit_code is None

    def complaint(self, name: str = "") -> str:
        """Return why it failed in one line: what it said, or its exit code.

        The prefix `name: ` is removed, as is Slurm's `slurm_load_jobs: `.
        """
        said = _OF_SLURM.sub("", self.said.removeprefix(f"{name}: ") if name else self.said)
        return self.trouble or said or f"{self.argv[0]} ended with exit code {self.exit_code}"


_OF_SLURM = re.compile(r"^(?:(?:s[a-z]+): error: )?(?:slurm_load_\w+(?: error)?: )?")
"""Prefix of Slurm's tools before the reason."""

_withheld: set[str] = set()
"""Environment variables with secrets: no command gets them unless they are passed explicitly."""

_left: dict[int, subprocess.Popen[bytes]] = {}
"""Commands of which processes survived their kill, by process group."""


def abandoned() -> tuple[int, ...]:
    """Return the ids of processes of commands that survived their kill and hang in the kernel."""
    if not _left:
        return ()
    found = {group: group_processes(group) for group in _left}
    for group, pids in found.items():
        _left[group].poll()
        if not pids:
            del _left[group]
    return tuple(pid for pids in found.values() for pid in pids)


def group_processes(group: int) -> tuple[int, ...]:
    """Return the living processes of a process group. Reads /proc only where the kernel knows some."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return ()
    except PermissionError:
        pass
    return tuple(pid for name in os.listdir("/proc") if name.isdigit() and _is_in(group, pid := int(name)))


def _is_in(group: int, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, _parent, its_group = file.read().rpartition(b")")[2].split()[:3]
    except OSError:
        return False
    return int(its_group) == group and state not in (b"Z", b"X")


def kill_group(process: subprocess.Popen[bytes], grace: float) -> tuple[int, ...]:
    """Kill a process with its group; return those that are left after `grace` seconds."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        if process.poll() is not None:
            return ()  # the usual end: it was reaped, and left no others
        os.kill(process.pid, signal.SIGKILL)  # it has changed its group
    except PermissionError:
        pass
    until = time.monotonic() + grace
    wait(process, grace)
    while (alive := group_processes(process.pid)) and time.monotonic() < until:
        _NEVER.wait(0.02)
    return alive


def withhold(variables: Iterable[str]) -> None:
    """Remove these variables, which hold secrets, from all results of `environment` from now on."""
    _withheld.update(variables)


def environment(
    extra: Mapping[str, str] | None = None, *, without: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Return this process's environment for commands: C locale, no inherited SLURM_* except SLURM_CONF.

    Inherited ones make squeue's answer empty with exit 0, and srun hang (tested with 22.05). Withheld
    variables and those of `without` are left out; `extra` is added.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if (key == "SLURM_CONF" or not key.startswith(_SLURM_PREFIXES))
        and key not in without
        and key not in _withheld
    }
    return {**kept, "LC_ALL": "C", **(extra or {})}


def ask(
    argv: Sequence[str],
    *,
    deadline: float,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    umask: int | None = None,
    output_limit: int | None = None,
    ending: Event = _NEVER,
) -> Answer:
    """Run `argv` without a shell, for at most `deadline` seconds, and return its answer.

    Never raises because of the command. Its process group is killed at the deadline, when `ending` is set
    (watchdogd ends), or when it prints more than OUTPUT_LIMIT, since a truncated list says nothing. With its
    own `output_limit` it goes on, and the rest is dropped. `umask`: default is this process's.
    """
    begin = time.monotonic()
    words = tuple(argv)
    try:
        child = _start(words, env if env is not None else environment(), cwd, umask, fed=bool(stdin))
    except OSError as error:
        why = startup.shortage_of(error) or getattr(error, "strerror", "") or str(error)
        why = f"{cwd}: {why}" if cwd and getattr(error, "filename", None) == cwd else why
        seconds, number = time.monotonic() - begin, getattr(error, "errno", None)
        return Answer(
            words, None, "", "", seconds, f"cannot be run: {why}", failure=Failure.UNSTARTED, errno=number
        )
    try:
        streams, truncated = _read(child, stdin.encode(), begin + deadline, output_limit, ending)
        flooded = truncated and output_limit is None
        answered = not flooded and _ended(child, begin + deadline, ending)
    finally:
        _end_group(child)
        for pipe in filter(None, (child.stdin, child.stdout, child.stderr)):
            pipe.close()
    code = child.returncode if answered else None
    failure, why = (None, "") if answered else _failure(deadline, ended=ending.is_set(), flooded=flooded)
    output, errors = (stream.decode("utf-8", "backslashreplace") for stream in streams)
    return Answer(words, code, output, errors, time.monotonic() - begin, why, truncated, failure)


def _start(
    words: tuple[str, ...], env: Mapping[str, str], cwd: str | None, umask: int | None, *, fed: bool
) -> subprocess.Popen[bytes]:
    """Start it in its own process group. OSError."""
    child = subprocess.Popen(
        words,
        stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=env,
        cwd=cwd,
        umask=-1 if umask is None else umask,
        process_group=0,
    )
    if child.stdin:
        os.set_blocking(child.stdin.fileno(), False)
    return child


def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for its end, `seconds` at most."""
    until, nap = time.monotonic() + seconds, _NAP
    while process.poll() is None and (left := until - time.monotonic()) > 0:
        _NEVER.wait(min(nap, left))
        nap = min(2 * nap, _LONGEST_NAP)


def _failure(deadline: float, *, ended: bool, flooded: bool) -> tuple[Failure, str]:
    """Return why a started command did not answer, also in words."""
    if flooded:
        return Failure.FLOOD, f"printed more than {OUTPUT_LIMIT >> 20} MiB and was ended"
    if ended:
        return Failure.ENDED, "was killed, since watchdogd ended"
    return Failure.LATE, f"did not answer within {deadline:g} s"


def _read(
    child: subprocess.Popen[bytes], stdin: bytes, until: float, own_limit: int | None, ending: Event
) -> tuple[tuple[bytearray, bytearray], bool]:
    """Read both streams up to a limit, until the process closes them, ends, or is late.

    Without its own limit, reading ends when the general one is exceeded.
    """
    limit = OUTPUT_LIMIT if own_limit is None else own_limit
    output, errors = bytearray(), bytearray()
    listening = {_number(child.stdout): output, _number(child.stderr): errors}
    fed = _number(child.stdin)
    truncated = ended = False
    poller = select.poll()  # a selector costs as much again as all the system calls
    for end in listening:
        poller.register(end, select.POLLIN)
    if stdin:
        poller.register(fed, select.POLLOUT)
    while (listening or stdin) and (left := until - time.monotonic()) > 0 and not ending.is_set():
        ready = poller.poll(0 if ended else min(left, 0.2) * 1000)
        for end, _ in ready:
            if child.stdin and end == fed:
                stdin = _feed(child.stdin, poller, stdin)
            elif chunk := os.read(end, 65536):
                kept = listening[end]
                truncated = truncated or len(kept) + len(chunk) > limit
                kept += chunk[: limit - len(kept)]
            else:
                poller.unregister(end)
                del listening[end]
        if (truncated and own_limit is None) or (ended and not ready):
            break  # or a grandchild holds the pipes open: all of the command's own output is here
        if not ready:
            ended = child.poll() is not None  # look once more for last output
    return (output, errors), truncated


def _number(pipe: IO[bytes] | None) -> int:
    """Return a pipe's file descriptor; -1 where there is none."""
    return pipe.fileno() if pipe else -1


def _feed(pipe: IO[bytes], poller: select.poll, stdin: bytes) -> bytes:
    """Write as much of `stdin` as the pipe accepts; return the rest."""
    try:
        stdin = stdin[os.write(pipe.fileno(), stdin[:65536]) :]
    except BrokenPipeError:
        stdin = b""
    if not stdin:
        poller.unregister(pipe)
        pipe.close()
    return stdin


def _ended(child: subprocess.Popen[bytes], until: float, ending: Event) -> bool:
    """Return whether the process ended in time; it may have closed its streams long before."""
    while child.poll() is None:
        left = until - time.monotonic()
        wait(child, min(max(left, 0.05), 0.2))
        if left <= 0 or ending.is_set():
            break
    return child.returncode is not None


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Kill the rest of the command and its children; a stuck one is left behind."""
    if kill_group(child, _GRACE):
        _left[child.pid] = child
