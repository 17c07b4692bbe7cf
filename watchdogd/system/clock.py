"""Clocks: one that nobody sets, and what a clock that was set makes of times that are remembered."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP = 30.0
"""Seconds by which two clocks of the wall may differ, before one counts as set."""


def fresh(at: float, now: float, lasts: float) -> bool:
    """Return whether `at` is less than `lasts` seconds ago.

    What lies ahead of `now` was written before the clock was set back, or by one that is wrong: it is not,
    else nothing would happen until that time has come.
    """
    return 0 <= now - at < lasts


class SteadyClock:
    """Clock that goes on from the wall clock's time at which it was made, whatever is set since.

    `wall` and `ticks` (which nobody sets) are in seconds. People and other processes know the wall's time
    alone: add `skew` to what goes to them, and take it from what comes.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._ticks = wall, ticks
        self._ahead = wall() - ticks()

    @property
    def now(self) -> float:
        """Return seconds since the epoch, as if nobody had set the clock since this one was made."""
        return self._ticks() + self._ahead

    @property
    def skew(self) -> float:
        """Return seconds by which the wall clock was set since then."""
        return self._wall() - self.now
