"""A worker process: reads Calls from its socket, runs them one after another, answers each with a Reply.

What a plugin does stays in here: output goes nowhere, exceptions become a line of text, texts are bounded.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import sys
import threading
import time
from collections import deque
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from watchdogd.daemon.registry.plugin_loading import load
from watchdogd.daemon.workers.worker_protocol import FAILED, RECALL, Call, Reply, Returned
from watchdogd.plugin import Plugin, Result
from watchdogd.system import command, umask
from watchdogd.system.smallfile import unanswered
from watchdogd.system.text import one_line

if TYPE_CHECKING:
    from watchdogd.daemon.registry.plugin_registry import Source

SUMMARY_LIMIT = 500
CELL_LIMIT = 60
YEAR_9999 = 253_370_000_000.0
DETAILS_LIMIT = 20_000
MEMORY_LIMIT = 1_000_000
RESULTS_LIMIT = 1_000
"""Characters of a summary, of details, of a memory as JSON; results of one execution."""

MEMORY = 2 * 2**30
"""Bytes of data that a plugin of the user's own, and each process that it starts, may have."""

_compact = json.JSONEncoder(separators=(",", ":")).encode
_functions: dict[Source, Any] = {}


class CallQueue:
    """Calls of a worker that have not begun, and its socket.

    A thread reads them, so that they can be recalled while the current one hangs in a system call.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: deque[Call] = deque()
        self._came = threading.Condition()
        self._sending = threading.Lock()

    def take(self) -> Call:
        """Return the next call; waits for one."""
        with self._came:
            while not self._calls:
                self._came.wait()
            return self._calls.popleft()

    def send(self, value: Reply | Returned | None) -> None:
        with self._sending:
            self._connection.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def listen(self) -> None:
        """Receive calls; when the daemon closes the socket, the process ends."""
        try:
            while True:
                calls: list[Call] | None = self._connection.recv()
                if calls is RECALL:
                    self.send(Returned(self._give_up()))
                    continue
                with self._came:
                    self._calls.extend(calls)
                    self._came.notify()
        except (EOFError, OSError):
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a call that cannot be read is the end, and the daemon sees it
            os._exit(1)

    def _give_up(self) -> frozenset[str]:
        with self._came:
            keys = frozenset(call.key for call in self._calls)
            self._calls.clear()
            return keys


def _bound(*, alone: bool) -> None:
    """Bound this process's memory, so that it ends rather than the daemon where memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    if alone:
        with contextlib.suppress(ValueError, OSError):  # a site's own limit is lower
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def main() -> None:
    """Serve the socket whose number is the first argument, until the daemon closes it."""
    calls = CallQueue(Connection(int(sys.argv[1])))
    with contextlib.suppress(OSError):
        threading.Thread(target=calls.listen, daemon=True).start()
        calls.send(None)  # ready: deadlines count from now on
        while True:
            calls.send(answer(calls.take()))


def answer(call: Call) -> Reply:
    """Run one Call; never raises for what the function does."""
    begin = time.perf_counter()
    before = {*command.abandoned()}
    value, memory, trouble, nothing = None, None, "", False
    try:
        value, memory = _run(call)
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit included
        trouble, nothing = _line(f"raised {type(error).__name__}: {error}"), unanswered(error)
    left = tuple(pid for pid in command.abandoned() if pid not in before)
    seconds = time.perf_counter() - begin
    return Reply(call.key, value, memory, trouble, unanswered=nothing, left=left, seconds=seconds)


def _run(call: Call) -> tuple[Any, str | None]:
    """Run the call; return its result, and the plugin's memory where it changed."""
    function = _functions.get(call.source)
    if function is None:
        function = _functions[call.source] = getattr(load(call.source.module), call.source.attribute)
    if not isinstance(function, Plugin):
        return function(**call.parameters), None
    memory = json.loads(call.memory) if function.remembers_something else None
    if memory is not None:
        memory.pop(FAILED, None)
    results = function.results(call.parameters, {**call.injected, "memory": memory})
    return [bounded(result) for result in results[:RESULTS_LIMIT]], _changed(call.memory, memory)


def _changed(before: str, memory: dict[str, Any] | None) -> str | None:
    """Return the memory to keep, as JSON text; None where it is as it was, or none was asked for.

    ValueError, TypeError where it cannot be kept.
    """
    if memory is None:
        return None
    after = _compact(memory)
    if after == before:
        return None
    if len(after) > MEMORY_LIMIT:
        raise ValueError(f"the plugin's memory has {len(after)} characters: keep it under {MEMORY_LIMIT}")
    return after


def bounded(result: Result) -> Result:
    """Return a result with texts bounded in size; all but details on one line."""
    texts = (result.summary, result.subject, result.kind)
    summary, subject, kind = map(_line, texts)
    cells = {title: _cell(cell) for title, cell in result.cells.items()}
    if (summary, subject, kind, cells) == (*texts, result.cells) and len(result.details) <= DETAILS_LIMIT:
        return result
    details = result.details[:DETAILS_LIMIT]
    return replace(result, summary=summary, subject=subject, kind=kind, details=details, cells=cells)


def _cell(cell: str | float) -> str | float:
    """Return a cell's text on one short line; an invalid time is shown as such."""
    if isinstance(cell, str):
        return one_line(cell, CELL_LIMIT)
    return float(cell) if 0 <= cell < YEAR_9999 else "?"


def _line(text: str) -> str:
    return one_line(text, SUMMARY_LIMIT)


def _mute() -> None:
    """Redirect standard input and output to /dev/null: output of a plugin is no message."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


if __name__ == "__main__":
    umask.begin(int(sys.argv[2], 8))
    _mute()
    _bound(alone=sys.argv[3:] == ["alone"])
    main()
    os._exit(0)  # threads that a plugin left behind do not hold the process
