"""One worker process as the daemon sees it: its calls and their deadline, its start, and how it died."""

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
"""Seconds that calls may wait behind another before they are given to a further worker."""
STARTING = 15.0
"""Seconds that a new process may take until it says that it is ready; deadlines count from then on."""


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """A process with its socket, and the calls that it has not answered yet, oldest first.

    since     when its present call was begun, or its last one answered (monotonic)
    fresh     it has not said yet that it is ready
    recalled  it was asked for the calls that wait behind the present one
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
        """Return by when the current call must be answered, or the process be ready (monotonic)."""
        return self.since + (STARTING if self.fresh else self.calls[0].timeout)

    def slow(self, now: float) -> bool:
        return bool(self.calls) and now - self.since > IMPATIENCE

    @property
    def holds_up(self) -> bool:
        """Return whether calls wait behind the current one and can be recalled."""
        return len(self.calls) > 1 and not self.fresh and not self.recalled

    def tools(self) -> list[psutil.Process]:
        """List the processes that it started, in other sessions too: nobody would wait for them any more."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.Error:
            return []

    def death(self) -> str:
        """Return how it died: before it was ready, or in its call."""
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
    """Kill them; return the ids of survivors."""
    for tool in tools:
        with contextlib.suppress(psutil.Error):
            tool.kill()
    return tuple(tool.pid for tool in psutil.wait_procs(tools, 0.5)[1]) if tools else ()


def no_start(error: OSError) -> str:
    """Return why no process could be started for a check, and the fix."""
    why = startup.shortage_of(error)
    if not why:
        gone = f"{sys.executable} is gone: was Python replaced? watchdogd restart"
        why = gone if error.errno == errno.ENOENT else error.strerror or str(error)
    return f"could not be started: {why}"
