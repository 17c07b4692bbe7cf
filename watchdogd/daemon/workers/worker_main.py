"""Worker process: reads Calls from its socket, runs them one after another, answers each with a Reply.

A plugin's output is dropped, its exceptions become a line of text, and all texts are limited in length.
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
import traceback
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
"""Limits: characters of a summary, a cell, details, and a memory as JSON; results of one execution."""

MEMORY = 2 * 2**30
"""Bytes of data (RLIMIT_DATA) of a user's plugin and of each process that it starts."""

_compact = json.JSONEncoder(separators=(",", ":")).encode
_functions: dict[Source, Any] = {}


class CallQueue:
    """Calls that have not begun, and the worker's socket.

    A thread reads the socket, so that calls can be recalled while the current one hangs in a system call.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: deque[Call] = deque()
        self._came = threading.Condition()
        self._sending = threading.Lock()

    def take(self) -> Call:
        """Return the next call; blocks until there is one."""
        with self._came:
            while not self._calls:
                self._came.wait()
            return self._calls.popleft()

    def send(self, value: Reply | Returned | None) -> None:
        with self._sending:
            self._connection.send_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def listen(self) -> None:
        """Receive calls until the daemon closes the socket; then end the process."""
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
    """Have the kernel kill this process first when memory runs out; limit memory of an `alone` one."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    if alone:
        with contextlib.suppress(ValueError, OSError):  # the present limit may be lower
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def main() -> None:
    """Serve the socket with the descriptor in the first argument."""
    calls = CallQueue(Connection(int(sys.argv[1])))
    with contextlib.suppress(OSError):
        threading.Thread(target=calls.listen, daemon=True).start()
        calls.send(None)  # ready: deadlines count from here
        while True:
            calls.send(answer(calls.take()))


def answer(call: Call) -> Reply:
    """Run one call; never raises because of it."""
    begin = time.perf_counter()
    before = {*command.abandoned()}
    value, memory, trouble, nothing = None, None, "", False
    try:
        value, memory = _run(call)
    except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit included
        at = _where(error, call.source.module)
        trouble = f"{one_line(f'raised {type(error).__name__}: {error}', SUMMARY_LIMIT - len(at))}{at}"
        nothing = unanswered(error)
    left = tuple(pid for pid in command.abandoned() if pid not in before)
    seconds = time.perf_counter() - begin
    return Reply(call.key, value, memory, trouble, unanswered=nothing, left=left, seconds=seconds)


def _where(error: BaseException, module: str) -> str:
    """Return ` (plugins/queue.py:12)`: where in a plugin's file an error came up; empty if nowhere there."""
    file = module if "/" in module else getattr(sys.modules.get(module), "__file__", "")
    places = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in places if frame.f_code.co_filename == file]
    return f" ({one_line('/'.join(file.split('/')[-2:]), 100)}:{lines[-1]})" if file and lines else ""


def _run(call: Call) -> tuple[Any, str | None]:
    """Run the call; return its result, and the plugin's memory if it changed."""
    function = _functions.get(call.source)
    if function is None:
        function = _functions[call.source] = getattr(load(call.source.module), call.source.attribute)
    if not isinstance(function, Plugin):
        return function(**call.parameters), None
    memory: dict[str, Any] | None = None
    if function.remembers_something:
        memory = {key: value for key, value in json.loads(call.memory).items() if key != FAILED}
    results = function.results(call.parameters, {**call.injected, "memory": memory})
    return [bounded(result) for result in results[:RESULTS_LIMIT]], _changed(call.memory, memory)


def _changed(before: str, memory: dict[str, Any] | None) -> str | None:
    """Return the memory to store, as JSON; None if it is unchanged or not used. ValueError, TypeError."""
    if memory is None:
        return None
    after = _compact(memory)
    if after == before:
        return None
    if len(after) > MEMORY_LIMIT:
        raise ValueError(f"the plugin's memory has {len(after)} characters: keep it under {MEMORY_LIMIT}")
    return after


def bounded(result: Result) -> Result:
    """Return a result with texts limited in length; all but details on one line."""
    texts = (result.summary, result.subject, result.kind)
    summary, subject, kind = map(_line, texts)
    cells = {title: _cell(cell) for title, cell in result.cells.items()}
    if (summary, subject, kind, cells) == (*texts, result.cells) and len(result.details) <= DETAILS_LIMIT:
        return result
    details = result.details[:DETAILS_LIMIT]
    return replace(result, summary=summary, subject=subject, kind=kind, details=details, cells=cells)


def _cell(cell: str | float) -> str | float:
    """Return a cell's text on one short line; an invalid time as `?`."""
    if isinstance(cell, str):
        return one_line(cell, CELL_LIMIT)
    return float(cell) if 0 <= cell < YEAR_9999 else "?"


def _line(text: str) -> str:
    return one_line(text, SUMMARY_LIMIT)


def _mute() -> None:
    """Redirect standard input and output to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


if __name__ == "__main__":
    umask.begin(int(sys.argv[2], 8))
    _mute()
    _bound(alone=sys.argv[3:] == ["alone"])
    main()
    os._exit(0)  # threads of a plugin do not keep the process alive
