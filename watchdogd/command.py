"""The one door to outside commands: a deadline, the C locale, bounded output, and an honest answer.

An Answer tells "it said no" (`exit_code` not 0) from "it did not answer" (`silent`: hung, missing, not
executable). A command that ignores its kill (stuck in the kernel) is left behind, never waited for.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes kept of each stream; 64 MiB is a squeue of some 200,000 jobs."""
_SLURM_PREFIXES = (
    "SLURM_",
    "SLURMD_",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "SQUEUE_",
    "SACCT_",
    "SINFO_",
    "SCANCEL_",
)
_GRACE = 0.5


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said. `exit_code` is None where it did not answer; then `trouble` is one line why."""

    argv: tuple[str, ...]
    exit_code: int | None
    output: str
    errors: str
    seconds: float
    trouble: str = ""
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """It answered, and said yes."""
        return self.exit_code == 0

    @property
    def silent(self) -> bool:
        """It did not answer: nothing is known."""
        return self.exit_code is None

    def complaint(self) -> str:
        """One line of why it failed: its last line of stderr, else of stdout, else its exit code."""
        if self.trouble:
            return self.trouble
        lines = (self.errors.strip() or self.output.strip()).splitlines()
        return lines[-1].strip() if lines else f"{self.argv[0]} ended with exit code {self.exit_code}"


_withheld: set[str] = set()
"""Environment variables that hold secrets: no command gets them, unless it is handed them by name."""

_left: set[int] = set()
"""Process groups of commands of which something survived its kill."""


def abandoned() -> tuple[int, ...]:
    """The ids of processes of our commands that survived their kill: they wait in the kernel."""
    found = {group: members(group) for group in _left}
    _left.intersection_update(group for group, pids in found.items() if pids)
    return tuple(pid for pids in found.values() for pid in pids)


def members(group: int) -> tuple[int, ...]:
    """The processes of a process group that are alive. Reads /proc only where the kernel knows some."""
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
    """Kill a process with its group; returns those that are there still after `grace` seconds."""
    until = time.monotonic() + grace
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(grace)
    while (alive := members(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    return alive


def withhold(variables: Iterable[str]) -> None:
    """From now on these variables, which hold secrets, stay out of what `environment` gives."""
    _withheld.update(variables)


def environment(
    extra: Mapping[str, str] | None = None, *, without: frozenset[str] = frozenset()
) -> dict[str, str]:
    """This process's environment as tools get it: C locale, no inherited SLURM_*... but SLURM_CONF.

    Inherited ones make squeue answer empty with exit 0 and srun hang (measured on Slurm 22.05).
    Withheld variables and those of `without` are left out; `extra` comes on top.
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
    output_limit: int = OUTPUT_LIMIT,
    ending: Event | None = None,
) -> Answer:
    """Run `argv` without a shell, at most `deadline` seconds, and return what it said.

    Never raises for what the command does. Its whole process group is killed at the deadline, or as soon as
    `ending` is set: watchdogd ends.
    """
    begin = time.monotonic()
    words = tuple(argv)
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env) if env is not None else environment(),
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        trouble = f"{words[0]} cannot be run: {error.strerror or error}"
        return Answer(words, None, "", "", time.monotonic() - begin, trouble)
    try:
        over = ending or Event()
        streams, truncated = _read(process, stdin.encode(), begin + deadline, output_limit, over)
        answered = _ended(process, begin + deadline, over)
    finally:
        _end_group(process)
    code = process.returncode if answered else None
    why = "was killed, since watchdogd ended" if over.is_set() else f"did not answer within {deadline:g} s"
    trouble = "" if answered else f"{words[0]} {why}"
    output, errors = (stream.decode("utf-8", "backslashreplace") for stream in streams)
    return Answer(words, code, output, errors, time.monotonic() - begin, trouble, truncated)


def _read(
    process: subprocess.Popen[bytes], stdin: bytes, until: float, limit: int, ending: Event
) -> tuple[tuple[bytes, bytes], bool]:
    """Both streams up to `limit` bytes each, until the process closes them, ends, or its time is over."""
    kept = {"out": bytearray(), "err": bytearray()}
    truncated = False
    with selectors.PollSelector() as selector:  # epoll would cost a file and five more calls
        for stream, key in ((process.stdout, "out"), (process.stderr, "err")):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, key)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, "in")
        while selector.get_map() and (left := until - time.monotonic()) > 0 and not ending.is_set():
            ready = selector.select(min(left, 0.2))
            for event, _ in ready:
                if event.data == "in":
                    stdin = _feed(selector, process, stdin)
                    continue
                chunk = os.read(event.fd, 65536)
                if not chunk:
                    selector.unregister(event.fileobj)
                    continue
                room = limit - len(kept[event.data])
                kept[event.data] += chunk[:room]
                truncated = truncated or len(chunk) > room
            if not ready and process.poll() is not None:
                break  # a grandchild holds the pipes open: what the command itself said is all here
    return (bytes(kept["out"]), bytes(kept["err"])), truncated


def _feed(selector: selectors.BaseSelector, process: subprocess.Popen[bytes], stdin: bytes) -> bytes:
    """Write what the pipe takes of `stdin`; returns what is left."""
    pipe = process.stdin
    assert pipe is not None
    try:
        stdin = stdin[os.write(pipe.fileno(), stdin[:65536]) :]
    except BrokenPipeError:
        stdin = b""
    if not stdin:
        selector.unregister(pipe)
        pipe.close()
    return stdin


def _ended(process: subprocess.Popen[bytes], until: float, ending: Event) -> bool:
    """Whether the process itself ended in time; it may have closed its streams long before."""
    while process.returncode is None:
        left = until - time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(max(left, 0.05), 0.2))
        if left <= 0 or ending.is_set():
            break
    return process.returncode is not None


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command and its children, and close our ends; a stuck one is left behind."""
    if kill_group(process, _GRACE):
        _left.add(process.pid)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
