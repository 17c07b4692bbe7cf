"""Bounded I/O: functions that may hang in a file system, run with a deadline on a thread of their own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from watchdogd.errors import WatchdogError
from watchdogd.system import startup

Value = TypeVar("Value")


class StuckError(WatchdogError):
    """The file system does not answer; the operation may still happen later."""


class UnaskedError(StuckError):
    """No thread could be started, so the file system was not asked."""


@dataclass(slots=True)
class _Task:
    """One call; `done` is a lock held until it returns, at a third of an Event's cost."""

    function: Callable[[], Any]
    done: threading.Lock = field(default_factory=threading.Lock)
    value: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.done.acquire()


class BoundedIO:
    """Runner of functions on one thread, one after another, each with a deadline.

    While one hangs, further ones are refused at once. `place` is named in errors; `deadline` is in seconds. A
    thread that died, or could not be started for lack of memory, is started again with the next call.
    """

    def __init__(self, place: str, deadline: float = 5.0) -> None:
        self._place = place
        self._deadline = deadline
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._late: _Task | None = None
        self._since = 0.0
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def attempt(self, function: Callable[[], Value]) -> Value:
        """Return what `function` returns, or raise what it raises.

        StuckError where it does not return in time, UnaskedError where it could not begin.
        """
        if not self._serving:
            self._start()
        elif self._late is not None and self._late.done.locked():
            raise StuckError(f"{self._place} has not answered for {time.monotonic() - self._since:.0f} s")
        self._late = None
        task = _Task(function)
        began = time.monotonic()
        self._tasks.put(task)
        if not task.done.acquire(timeout=self._deadline):
            self._late, self._since = task, began
            raise StuckError(f"{self._place} has not answered for {self._deadline:.0f} s")
        if task.error is not None:
            raise task.error
        value: Value = task.value
        return value

    def close(self) -> None:
        """End the thread once its tasks are done."""
        self._tasks.put(None)

    @property
    def _serving(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> None:
        with self._starting:
            if self._serving:
                return
            thread = threading.Thread(target=self._serve, name=f"patient {self._place}", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                raise UnaskedError(f"{self._place} cannot be asked: {startup.NO_THREAD}") from None
            self._thread = thread

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task.value = task.function()
            except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
                task.error = error
            task.done.release()
