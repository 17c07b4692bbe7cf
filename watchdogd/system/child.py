"""A process with pipes, started at the least cost; `command` alone starts any.

`posix_spawn` shares our memory until the program begins, and C, not Python, makes its arguments ready. It
knows neither umask nor folder to start in: where one is wanted, a shell sets it and goes there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import time
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping, Sequence

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_THERE = ("/bin/sh", "-c", 'cd -- "$0" && exec "$@"')
_MASKED = ("/bin/sh", "-c", 'umask "$0" && exec "$@"')
_NAP, _LONGEST = 0.0005, 0.05


class Child:
    """A process in a group of its own, and our ends of its pipes: `output`, `errors` and, where fed, `input`.

    `returncode` as subprocess has it: None while it runs, negative where a signal ended it.
    """

    __slots__ = ("errors", "input", "output", "pid", "returncode")

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None = None,
        *,
        umask: int | None = None,
        fed: bool = False,
    ) -> None:
        """Start it. Its environment is `env`, but its program is looked for on our own PATH. OSError where it
        cannot be started; with a `cwd` or an `umask`, the shell for that then ends with 126 or 127."""
        ends: list[int] = []
        try:
            for _ in range(3 if fed else 2):
                ends += map(_above_standard, os.pipe())
            said = tuple(words) if umask is None else (*_MASKED, f"{umask:04o}", *words)
            said = (*_THERE, cwd, *said) if cwd else said
            self.pid = os.posix_spawnp(
                said[0],
                said,
                env,
                file_actions=_wiring(ends),
                setpgroup=0,
                setsigdef=_IGNORED_BY_PYTHON,
            )
        except BaseException:  # whatever it was, it is raised again: no pipe stays open
            _close(ends)
            raise
        self.returncode: int | None = None
        self.output, self.errors, self.input = ends[0], ends[2], -1
        _close([ends[1], ends[3]])
        if fed:
            os.close(ends[4])
            self.input = ends[5]
            os.set_blocking(self.input, False)

    def poll(self) -> int | None:
        """Its return code, None while it runs."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # who started us ignores SIGCHLD: it ended, and nobody knows how
                self.returncode = 0
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def rest(self, seconds: float) -> None:
        """Sleep until it ends, so many seconds at most; not at all where the kernel cannot tell of its end
        (before Linux 5.3)."""
        try:
            end = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            poller = select.poll()
            poller.register(end, select.POLLIN)
            poller.poll(seconds * 1000)
        finally:
            os.close(end)

    def full(self) -> None:
        """It is fed no more."""
        os.close(self.input)
        self.input = -1

    def close(self) -> None:
        """Close our ends."""
        _close(end for end in (self.output, self.errors, self.input) if end >= 0)


def wait(process: Child | subprocess.Popen[bytes], seconds: float) -> None:
    """Until it ends, but so many seconds at most."""
    until, nap = time.monotonic() + seconds, _NAP
    while process.poll() is None and (left := until - time.monotonic()) > 0:
        time.sleep(min(nap, left))
        nap = min(2 * nap, _LONGEST)


def _wiring(ends: Sequence[int]) -> list[tuple[Any, ...]]:
    """What becomes of a new process's files: the pipes its standard ones, none of ours."""
    if len(ends) > 4:
        first: tuple[Any, ...] = (os.POSIX_SPAWN_DUP2, ends[4], 0)
    else:
        first = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return [first, (os.POSIX_SPAWN_DUP2, ends[1], 1), (os.POSIX_SPAWN_DUP2, ends[3], 2), *_inherited()]


@cache
def _inherited() -> tuple[tuple[int, int], ...]:
    """What this process was started with beside the standard files is not for others. Asked once: Python lets
    them inherit nothing that it opens itself. Files above a limit that was lowered since they were opened
    cannot be closed so: a spawn that should would fail."""
    found, limit = [], resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one through which we look
            if 2 < int(name) < limit and os.get_inheritable(int(name)):
                found.append((os.POSIX_SPAWN_CLOSE, int(name)))
    return tuple(found)


def _above_standard(end: int) -> int:
    """An end whose number is none of the standard files', which we may have been started without."""
    if end > 2:
        return end
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(end)
    return moved


def _close(ends: Iterable[int]) -> None:
    for end in ends:
        os.close(end)
