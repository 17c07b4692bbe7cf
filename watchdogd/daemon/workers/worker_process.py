"""One worker process as the daemon sees it: its calls, deadline, start and death."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field

import psutil

from watchdogd.daemon.workers.worker_protocol import Call, Wire
from watchdogd.system import command, startup, umask

IMPATIENCE = 1.0
"""Seconds that calls may wait behind another before they go to a further worker."""
STARTING = 15.0
"""Seconds for a new process to report that it is ready; deadlines count from then."""


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """Process with its socket and its unanswered calls, oldest first.

    since     when its current call began, or its last one was answered (monotonic)
    fresh     it has not reported yet that it is ready
    recalled  it was asked to return the calls behind the current one
    """

    process: subprocess.Popen[bytes]
    wire: Wire
    alone: bool
    lane: str
    calls: deque[Call] = field(default_factory=deque)
    since: float = 0.0
    fresh: bool = True
    recalled: bool = False

    @property
    def until(self) -> float:
        """Return the deadline of the current call, or of the start (monotonic)."""
        return self.since + (STARTING if self.fresh else self.calls[0].timeout)

    def slow(self, now: float) -> bool:
        return bool(self.calls) and now - self.since > IMPATIENCE

    @property
    def holds_up(self) -> bool:
        """Return whether calls wait behind the current one that can be recalled."""
        return len(self.calls) > 1 and not self.fresh and not self.recalled

    def tools(self) -> list[psutil.Process]:
        """Return the processes that it started, in other sessions too."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def death(self) -> str:
        """Describe how the process died, at its start or in a call."""
        code = self.process.returncode
        why = f"its process ended with exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                why = f"killed by {signal.Signals(-code).name}"
        early = f"could not be started: {why} (is memory short, or Python damaged?)"
        return early if self.fresh else f"crashed: {why}"


def start(*, alone: bool, lane: str) -> WorkerProcess:
    """Start a process. OSError where that is impossible."""
    ours, theirs = socket.socketpair()
    arguments = [str(theirs.fileno()), f"{umask.own():04o}", *(["alone"] if alone else [])]
    users = umask.users()
    with theirs:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "watchdogd.daemon.workers.worker_main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=command.environment(),
                start_new_session=True,
                umask=-1 if users is None else users,
            )
        except OSError:
            ours.close()
            raise
    return WorkerProcess(process, Wire(ours), alone, lane)


def kill_all(tools: list[psutil.Process]) -> tuple[int, ...]:
    """Kill processes; return the ids of survivors."""
    for tool in tools:
        with contextlib.suppress(psutil.Error):
            tool.kill()
    return tuple(tool.pid for tool in psutil.wait_procs(tools, 0.5)[1]) if tools else ()


def no_start(error: OSError) -> str:
    """Return why no worker could be started, with the fix."""
    why = startup.shortage_of(error)
    if not why:
        gone = f"{sys.executable} is gone: was Python replaced? watchdogd restart"
        why = gone if error.errno == errno.ENOENT else error.strerror or str(error)
    return f"could not be started: {why}"
