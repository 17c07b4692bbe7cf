"""A clock that ignores changes of the wall clock, and the age of recorded times."""

from __future__ import annotations

import time
from collections.abc import Callable

JUMP = 30.0
"""Difference in seconds between two wall clocks from which one counts as set."""


def fresh(at: float, now: float, lasts: float) -> bool:
    """Return whether `at` is less than `lasts` seconds ago.

    A time ahead of `now`, from before the clock was set back or from a wrong clock, is not fresh: otherwise
    nothing would happen until then.
    """
    return 0 <= now - at < lasts


class SteadyClock:
    """Clock that starts at the wall clock's time and then ignores every change to it.

    `wall` and `ticks` (monotonic) return seconds. Other processes use the wall clock: add `skew` to times
    sent to them, subtract it from times received.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._ticks = wall, ticks
        self._ahead = wall() - ticks()

    @property
    def now(self) -> float:
        """Return seconds since the epoch, as if the clock had not been set since."""
        return self._ticks() + self._ahead

    @property
    def skew(self) -> float:
        """Return the seconds by which the wall clock was set since."""
        return self._wall() - self.now
