"""The worker processes: warm ones that many checks share, and one of its own for each foreign call.

Each call has a deadline. A worker that passes it is killed with all its children; one that cannot be killed
(stuck in the kernel) is left behind, counted, and its call is not started again until it is gone. Nothing
here ever waits for a worker to die.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from watchdogd import command
from watchdogd.engine.call import Reply

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from watchdogd.engine.call import Call

AHEAD = 16
"""Calls, and bytes of them, that a warm worker has waiting in its socket: what that holds for sure."""
AHEAD_BYTES = 32_768
IMPATIENCE = 1.0
"""Seconds that a call may wait behind another before a further worker is started."""
STARTING = 15.0
"""Seconds that a new process may take until it says that it is ready; deadlines count from then on."""


@dataclass(slots=True)
class _Worker:
    """One process with its socket, and the calls that it has not answered yet, oldest first."""

    process: subprocess.Popen[bytes]
    connection: Connection
    alone: bool
    calls: deque[tuple[Call, int]] = field(default_factory=deque)
    since: float = 0.0
    fresh: bool = True

    @property
    def until(self) -> float:
        """When the call that it works on has to be answered (monotonic); before that it has to be ready."""
        return self.since + (STARTING if self.fresh else self.calls[0][0].timeout)

    def takes(self, size: int) -> bool:
        """Whether a call of `size` bytes can be sent without waiting for the worker."""
        if not self.calls:
            return True
        return len(self.calls) < AHEAD and sum(sent for _, sent in self.calls) + size <= AHEAD_BYTES


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A process that survives SIGKILL, and what it was to do."""

    process: subprocess.Popen[bytes]
    key: str
    since: float


class Workers:
    """A pool. Not thread-safe: the round alone uses it.

    warm    processes that are kept
    most    processes that may work at once, those left behind in the kernel included twice over
    hidden  environment variables (secrets) that no worker gets
    """

    def __init__(self, *, warm: int = 1, most: int = 8, hidden: Collection[str] = ()) -> None:
        self._warm = warm
        self._most = most
        self._hidden = frozenset(hidden)
        self._workers: list[_Worker] = []
        self._waiting: deque[Call] = deque()
        self._stuck: list[_Stuck] = []
        self._replies: list[Reply] = []

    @property
    def outstanding(self) -> frozenset[str]:
        """The keys of calls that are not answered, and of those that a stuck process still holds."""
        held = {call.key for worker in self._workers for call, _ in worker.calls}
        return frozenset(held | {call.key for call in self._waiting} | {stuck.key for stuck in self.stuck})

    @property
    def busy(self) -> bool:
        """Whether an answer may still come."""
        return bool(self._waiting) or any(worker.calls for worker in self._workers)

    @property
    def stuck(self) -> Sequence[_Stuck]:
        """What could not be killed and still lives."""
        self._stuck = [stuck for stuck in self._stuck if stuck.process.poll() is None]
        return self._stuck

    def submit(self, calls: Sequence[Call]) -> None:
        """Take calls on; their keys must not be outstanding."""
        self._waiting.extend(calls)

    def collect(self, patience: float) -> list[Reply]:
        """Replies that came within `patience` seconds; returns at the first ones, or when nothing is left."""
        end = time.monotonic() + patience
        while not self._replies and self.busy:
            self._dispatch()
            left = end - time.monotonic()
            if left <= 0:
                break
            self._listen(min(left, self._soonest()))
            self._enforce()
        replies, self._replies = self._replies, []
        return replies

    def close(self) -> None:
        """Kill every worker; what is stuck stays behind."""
        self._waiting.clear()
        for worker in list(self._workers):
            self._drop(worker)

    def _dispatch(self) -> None:
        """Hand waiting calls to workers, in order; those for whom there is no place stay."""
        held_back: deque[Call] = deque()
        while self._waiting:
            call = self._waiting.popleft()
            worker = self._place(call)
            if worker is None:
                held_back.append(call)
                if not call.alone:
                    break
        held_back.extend(self._waiting)
        self._waiting = held_back

    def _place(self, call: Call) -> _Worker | None:
        """The worker that took the call, or None."""
        packed = pickle.dumps(call)
        if call.alone:
            return self._give(self._start(alone=True), call, packed) if self._room() else None
        shared = [worker for worker in self._workers if not worker.alone]
        idle = [worker for worker in shared if not worker.calls]
        now = time.monotonic()
        slow = all(worker.calls and now - worker.since > IMPATIENCE for worker in shared)
        if not idle and (len(shared) < self._warm or slow) and self._room():
            return self._give(self._start(alone=False), call, packed)
        quick = [w for w in shared if w.takes(len(packed)) and (not w.calls or now - w.since <= IMPATIENCE)]
        ready = idle or sorted(quick, key=lambda worker: len(worker.calls))
        return self._give(ready[0], call, packed) if ready else None

    def _room(self) -> bool:
        working = sum(1 for worker in self._workers if worker.calls)
        return working < self._most and len(self.stuck) < 2 * self._most

    def _give(self, worker: _Worker, call: Call, packed: bytes) -> _Worker:
        if not worker.calls:
            worker.since = time.monotonic()
        worker.calls.append((call, len(packed)))
        with contextlib.suppress(OSError):  # it is dead: its end of the socket tells so at the next listening
            worker.connection.send_bytes(packed)
        return worker

    def _start(self, *, alone: bool) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "watchdogd.engine.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=command.environment(without=self._hidden),
                start_new_session=True,
            )
        worker = _Worker(process, Connection(ours.detach()), alone)
        self._workers.append(worker)
        return worker

    def _soonest(self) -> float:
        """Seconds until something has to be done even if nobody answers."""
        now = time.monotonic()
        ends = [worker.until - now for worker in self._workers if worker.calls]
        impatience = [IMPATIENCE] if self._waiting else []
        return max(min([*ends, *impatience, 60.0]), 0.01)

    def _listen(self, patience: float) -> None:
        """Take in what the workers say; a closed socket is a dead worker."""
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection), patience):
            worker = by_connection[connection]  # type: ignore[index] # wait returns what it was given
            try:
                reply: Reply | None = worker.connection.recv()
            except (EOFError, OSError, pickle.UnpicklingError, AttributeError):
                self._died(worker)
                continue
            worker.since, worker.fresh = time.monotonic(), False
            if reply is None:
                continue
            self._replies.append(reply)
            worker.calls.popleft()
            if worker.alone or (not worker.calls and self._superfluous(worker)):
                self._drop(worker)

    def _superfluous(self, worker: _Worker) -> bool:
        shared = [other for other in self._workers if not other.alone]
        return len(shared) > self._warm and not self._waiting and worker is not shared[0]

    def _died(self, worker: _Worker) -> None:
        """The call that it worked on killed it; the others behind it go to another worker."""
        if worker.calls:
            call, _ = worker.calls.popleft()
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(0.2)
            self._replies.append(Reply(call.key, trouble=_death(worker.process.returncode)))
        self._requeue(worker)
        self._drop(worker)

    def _enforce(self) -> None:
        """Kill the workers that have passed a deadline."""
        now = time.monotonic()
        for worker in [w for w in self._workers if w.calls and now >= w.until]:
            call, _ = worker.calls.popleft()
            self._requeue(worker)
            stuck = not self._drop(worker)
            if stuck:
                self._stuck.append(_Stuck(worker.process, call.key, time.time()))
            trouble = f"did not answer within {STARTING if worker.fresh else call.timeout:g} s"
            trouble += (
                ", and cannot be killed: it is stuck in the kernel (a hung file system?)" if stuck else ""
            )
            self._replies.append(Reply(call.key, trouble=trouble, stuck=stuck, seconds=call.timeout))

    def _requeue(self, worker: _Worker) -> None:
        self._waiting.extendleft(call for call, _ in reversed(worker.calls))
        worker.calls.clear()

    def _drop(self, worker: _Worker) -> bool:
        """End a worker with all its children; False where it survives that."""
        self._workers.remove(worker)
        worker.connection.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(1.0)
        return worker.process.returncode is not None


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"crashed: killed by {signal.Signals(-code).name}"
    return f"crashed: its process ended with exit code {code}"
