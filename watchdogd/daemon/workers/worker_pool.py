"""Pool of worker processes: warm ones shared by many checks, and a separate one for each user's plugin.

Each call has a deadline. A worker that passes it is killed with all its children; one that cannot be killed
(stuck in the kernel) is left behind and counted, and its call is not started again until it is gone.
The pool never waits for a worker to die.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psutil

from watchdogd.daemon.workers.worker_process import (
    IMPATIENCE,
    STARTING,
    WorkerProcess,
    kill_all,
    no_start,
    start,
)
from watchdogd.daemon.workers.worker_protocol import RECALL, Call, Reply, Returned
from watchdogd.system import command

_PATH_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class UnkillableProcesses:
    """Process that was killed and is still there.

    `key`: its call; `since`: when it was killed (seconds since the epoch); `born`: its start time, which
    tells it from a later process with the same id; `place`: the path it waits for, where known.
    """

    key: str
    pid: int
    since: float
    born: float
    place: str = ""

    @classmethod
    def of(cls, key: str, pid: int, since: float) -> UnkillableProcesses | None:
        """Return the process with this id; None where it is gone."""
        born = _born(pid)
        return None if born is None else cls(key, pid, since, born, place_of(pid))

    @property
    def lives(self) -> bool:
        return _born(self.pid) == self.born


def _born(pid: int) -> float | None:
    """Return a process's start time; None where it is gone or a zombie."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def place_of(pid: int) -> str:
    """Return the path in a process's current system call, or empty, without touching that path.

    /proc/PID/syscall has the call's number and arguments (proc(5)): a pointer to a path, or a descriptor.
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
        for length in (_PATH_LIMIT, 256):  # the next page may not be mapped
            text, _, rest = os.pread(memory, length, address).partition(b"\0")
            if text.startswith(b"/") and len(rest) < length:
                return text.decode("utf-8", "backslashreplace")
    return ""


NAP, MANY = 0.03, 16
"""While more than MANY replies are expected, seconds to let them gather: each wake-up costs as much as
several replies, and disturbs other programs."""
PIECE = 500
"""Calls in one message: a worker that must read ten thousand before it begins would seem to hang."""
KEPT = 150.0
"""Seconds without a call after which a lane's worker is stopped: a start costs as much as many programs."""


class WorkerPool:
    """Pool of workers. Not thread-safe: only the round uses it.

    warm    idle processes that are kept
    most    processes that may work at once; twice as many may be left behind in the kernel
    """

    def __init__(self, *, warm: int = 1, most: int = 8) -> None:
        self._warm = warm
        self._most = most
        self._workers: list[WorkerProcess] = []
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[Call] = deque()
        self._stuck: list[UnkillableProcesses] = []
        self._undead: list[subprocess.Popen[bytes]] = []  # killed, but not reaped yet
        self._replies: list[Reply] = []

    @property
    def outstanding(self) -> frozenset[str]:
        """Return the keys of unanswered calls and of stuck processes."""
        held = {call.key for worker in self._workers for call in worker.calls}
        return frozenset(held | {call.key for call in self._waiting} | {stuck.key for stuck in self.stuck})

    @property
    def busy(self) -> bool:
        return bool(self._waiting) or any(worker.calls for worker in self._workers)

    @property
    def stuck(self) -> Sequence[UnkillableProcesses]:
        """Return processes that could not be killed and are still there."""
        self._undead = [process for process in self._undead if process.poll() is None]
        self._stuck = [stuck for stuck in self._stuck if stuck.lives]
        return self._stuck

    def submit(self, calls: Sequence[Call]) -> None:
        """Accept calls whose keys are not outstanding."""
        self._retire()
        self._waiting.extend(calls)

    def collect(self, patience: float) -> list[Reply]:
        """Return replies as soon as there are some, after `patience` seconds at most."""
        end = time.monotonic() + patience
        while not self._replies and self.busy:
            self._dispatch()
            left = end - time.monotonic()
            if left <= 0:
                break
            self._listen(min(left, self._soonest()))
            self._recall()
            self._enforce()
        replies, self._replies = self._replies, []
        return replies

    def close(self) -> None:
        """Kill every worker; stuck ones stay."""
        self._waiting.clear()
        for worker in list(self._workers):
            self._drop(worker)
        self._selector.close()

    def _dispatch(self) -> None:
        """Send waiting calls: each `alone` one to its own worker, those of a lane in one message."""
        lanes: dict[str, list[Call]] = {}
        held_back: deque[Call] = deque()
        for call in self._waiting:
            if not call.alone:
                lanes.setdefault(call.lane, []).append(call)
            elif self._room():
                self._give_anew([call])
            else:
                held_back.append(call)
        for lane, calls in lanes.items():
            if worker := self._ready(lane):
                self._give(worker, calls)
            elif not self._shared(lane) and self._bearable():  # a lane always gets one worker
                self._give_anew(calls)
            else:
                held_back.extend(calls)
        self._waiting = held_back

    def _give_anew(self, calls: Sequence[Call]) -> None:
        """Send calls to a new process; where none can be started, reply with the reason."""
        try:
            self._give(self._start(alone=calls[0].alone, lane=calls[0].lane), calls)
        except OSError as error:
            self._replies += [Reply(call.key, trouble=no_start(error)) for call in calls]

    def _ready(self, lane: str) -> WorkerProcess | None:
        """Return a shared worker that accepts calls now (idle, new or quick), or None."""
        shared = self._shared(lane)
        idle = [worker for worker in shared if not worker.calls]
        if idle:
            return idle[0]
        now = time.monotonic()
        quick = [worker for worker in shared if not worker.slow(now)]
        if shared and (not quick or len(shared) < self._warm) and self._room():
            with contextlib.suppress(OSError):  # they wait for an existing one
                return self._start(alone=False, lane=lane)
        return min(quick, key=lambda worker: len(worker.calls), default=None)

    def _shared(self, lane: str) -> list[WorkerProcess]:
        return [worker for worker in self._workers if not worker.alone and worker.lane == lane]

    def _room(self) -> bool:
        working = sum(1 for worker in self._workers if worker.calls)
        return working < self._most and self._bearable()

    def _bearable(self) -> bool:
        return len(self.stuck) < 2 * self._most

    def _give(self, worker: WorkerProcess, calls: Sequence[Call]) -> None:
        if not worker.calls:
            worker.since = time.monotonic()
        worker.calls.extend(calls)
        for begin in range(0, len(calls), PIECE):
            worker.wire.send(calls[begin : begin + PIECE])
        self._attend(worker)

    def _attend(self, worker: WorkerProcess) -> None:
        """Register for its messages, and for room in its socket while there is something to send."""
        writing = selectors.EVENT_WRITE if worker.wire.waiting else 0
        self._selector.modify(worker.wire, selectors.EVENT_READ | writing, worker)

    def _start(self, *, alone: bool, lane: str = "") -> WorkerProcess:
        worker = start(alone=alone, lane=lane)
        self._workers.append(worker)
        self._selector.register(worker.wire, selectors.EVENT_READ, worker)
        return worker

    def _soonest(self) -> float:
        """Return seconds until a deadline or a recall is due."""
        now = time.monotonic()
        ends = [worker.until - now for worker in self._workers if worker.calls]
        ends += [worker.since + IMPATIENCE - now for worker in self._workers if worker.holds_up]
        impatience = [IMPATIENCE] if self._waiting else []
        return max(min([*ends, *impatience, 60.0]), 0.01)

    def _listen(self, patience: float) -> None:
        """Receive replies; a closed socket is a dead worker."""
        if sum(len(worker.calls) for worker in self._workers) > MANY:
            time.sleep(min(NAP, patience))
        for ready, events in self._selector.select(patience):
            worker: WorkerProcess = ready.data
            if events & selectors.EVENT_WRITE:
                worker.wire.flush()
                self._attend(worker)
            if events & selectors.EVENT_READ:
                self._hear(worker)

    def _hear(self, worker: WorkerProcess) -> None:
        try:
            said: list[Reply | Returned | None] = worker.wire.receive()
        except (EOFError, OSError, pickle.UnpicklingError, AttributeError):
            self._died(worker)
            return
        for each in said:
            if isinstance(each, Returned):
                self._take_back(worker, each)
                continue
            worker.since, worker.fresh = time.monotonic(), False
            if each is not None:
                self._take_in(each)
                worker.calls.popleft()
        if not worker.calls and (worker.alone or self._superfluous(worker)):
            self._drop(worker)

    def _take_back(self, worker: WorkerProcess, returned: Returned) -> None:
        """Queue the calls that a worker has not begun for another one."""
        self._waiting.extendleft(call for call in reversed(worker.calls) if call.key in returned.keys)
        worker.calls = deque(call for call in worker.calls if call.key not in returned.keys)
        worker.recalled = False

    def _recall(self) -> None:
        """Recall the calls queued behind one that hangs."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.holds_up and worker.slow(now):
                worker.recalled = True
                worker.wire.send(RECALL)
                self._attend(worker)

    def _superfluous(self, worker: WorkerProcess) -> bool:
        shared, waiting = self._shared(worker.lane), any(not call.alone for call in self._waiting)
        return not waiting and len(shared) > self._warm and worker is not shared[0]

    def _retire(self) -> None:
        """Stop workers of lanes that are rarely used."""
        long_ago = time.monotonic() - KEPT
        for worker in [w for w in self._workers if w.lane and not w.calls and w.since < long_ago]:
            self._drop(worker)

    def _died(self, worker: WorkerProcess, trouble: str = "") -> None:
        """Reply for a worker that died in a call; the calls queued behind go to another one."""
        if worker.calls:
            call = worker.calls.popleft()
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(0.2)
            trouble = trouble or worker.death()
            self._replies.append(Reply(call.key, trouble=trouble))
        self._requeue(worker)
        self._drop(worker)

    def _enforce(self) -> None:
        """Kill workers that have passed a deadline."""
        now = time.monotonic()
        for worker in [w for w in self._workers if w.calls and now >= w.until]:
            call = worker.calls.popleft()
            self._requeue(worker)
            trouble = f"did not answer within {STARTING if worker.fresh else call.timeout:g} s"
            tools = worker.tools()
            left = self._drop(worker) + kill_all(tools)
            self._take_in(Reply(call.key, trouble=trouble, late=True, left=left, seconds=call.timeout))

    def _take_in(self, reply: Reply) -> None:
        """Store a reply; count and name processes that its call left in the kernel."""
        now = time.time()
        left = [stuck for pid in reply.left if (stuck := UnkillableProcesses.of(reply.key, pid, now))]
        self._stuck += left
        if left:
            place = next((f" in {stuck.place}" for stuck in left if stuck.place), "")
            hang = f"cannot be killed: it hangs in the kernel{place} (a hung file system?)"
            trouble = f"{reply.trouble}, and {hang}" if reply.trouble else ""
            reply = replace(reply, trouble=trouble, hang=hang)
        self._replies.append(reply)

    def _requeue(self, worker: WorkerProcess) -> None:
        self._waiting.extendleft(reversed(worker.calls))
        worker.calls.clear()

    def _drop(self, worker: WorkerProcess) -> tuple[int, ...]:
        """Kill a worker and its children; return the ids of survivors."""
        self._workers.remove(worker)
        self._selector.unregister(worker.wire)
        worker.wire.close()
        left = command.kill_group(worker.process, 1.0)
        if worker.process.returncode is None:
            self._undead.append(worker.process)
        return left
