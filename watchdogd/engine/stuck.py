"""Processes that survive SIGKILL, since they wait in the kernel: which, since when, and where."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

import psutil

_PATH_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Stuck:
    """Process that was killed and is still there.

    `key` is what it was to do; `since` when it was left behind (seconds since the epoch); `born` tells it
    from another of its id; `place` is the path that it waits for, where that can be seen.
    """

    key: str
    pid: int
    since: float
    born: float
    place: str = ""

    @classmethod
    def of(cls, key: str, pid: int, since: float) -> Stuck | None:
        """Return the process as it is now; None where it is gone."""
        born = _born(pid)
        return None if born is None else cls(key, pid, since, born, place_of(pid))

    @property
    def lives(self) -> bool:
        """Return whether it is still there."""
        return _born(self.pid) == self.born


def _born(pid: int) -> float | None:
    """Return when a process began; None where it is gone, or waits for nothing but being taken in."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def place_of(pid: int) -> str:
    """Return the path in the system call that a process is in, or empty. Touches no path itself.

    /proc/PID/syscall holds the call's number and arguments (proc(5)): a pointer to a path, or a descriptor.
    """
    try:
        with open(f"/proc/{pid}/syscall") as file:
            arguments = [int(word, 16) for word in file.read().split()[1:4]]
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            found = next(filter(None, (_text_at(memory.fileno(), address) for address in arguments)), "")
        return found or os.readlink(f"/proc/{pid}/fd/{arguments[0]}")
    except (OSError, ValueError, IndexError):
        return ""


def _text_at(memory: int, address: int) -> str:
    """Read an absolute path at an address of the process, or empty."""
    if not 0 < address < 2**63:
        return ""
    with contextlib.suppress(OSError):
        for length in (_PATH_LIMIT, 256):  # the page behind it may be no memory
            text, _, rest = os.pread(memory, length, address).partition(b"\0")
            if text.startswith(b"/") and len(rest) < length:
                return text.decode("utf-8", "backslashreplace")
    return ""
