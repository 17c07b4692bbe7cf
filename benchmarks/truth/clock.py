"""The time of day of a life, for forms that write it, and what a job writes beside its work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.truth.story import Event

_TEN = 1_770_112_800.0  # 2026-02-03 10:00:00, when every job of the benchmark starts


class Clock:
    """A clock that goes on as the events say; each `every` seconds, `beside` is written amid them."""

    def __init__(self, beside: Callable[[Clock], str] | None = None, every: float = 60.0) -> None:
        self.passed, self._beside, self._every, self._next = 0.0, beside, every, every

    def __call__(self, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        """The date and time as strftime's `form` says."""
        return time.strftime(form, time.gmtime(_TEN + self.passed))

    @property
    def elapsed(self) -> str:
        """Hours, minutes and seconds since the start."""
        return self.long(self.passed)

    @staticmethod
    def long(seconds: float) -> str:
        """A duration as `1:02:03`."""
        minutes, second = divmod(int(seconds), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{second:02}"

    def wait(self, seconds: float) -> Iterator[Event]:
        """Let so many seconds pass."""
        end = self.passed + seconds
        while self._beside and self._next <= end:
            yield self._next - self.passed
            self.passed = self._next
            self._next += self._every
            yield self._beside(self)
        yield end - self.passed
        self.passed = end
