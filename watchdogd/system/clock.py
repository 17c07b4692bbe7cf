"""Clocks: one that nobody can set, and how to treat remembered times after the wall clock was set."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP = 30.0
"""Seconds by which two clocks of the wall may differ, before one counts as set."""


def fresh(at: float, now: float, lasts: float) -> bool:
    """Return whether `at` is less than `lasts` seconds ago.

    A time ahead of `now` was written before the clock was set back, or by a wrong clock. It is not fresh:
    otherwise nothing would happen until that time.
    """
    return 0 <= now - at < lasts


class SteadyClock:
    """Clock that starts at the wall clock's time and then ignores every change to it.

    `wall` and `ticks` (monotonic) return seconds. People and other processes know only the wall's time: add
    `skew` to times sent to them, subtract it from times received.
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
