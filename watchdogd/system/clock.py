"""A clock that somebody may set: how that is found out, and what it makes of times that are remembered."""

from __future__ import annotations

from dataclasses import dataclass

JUMP = 30.0
"""Seconds by which the wall clock may run unlike one that nobody sets, before it counts as set."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment by two clocks, in seconds: `wall` since the epoch, `ticks` by a clock that nobody sets."""

    wall: float
    ticks: float

    def jump(self, before: Moment) -> float:
        """Seconds by which the wall clock was set since an earlier moment: back where negative, 0 if not."""
        jump = (self.wall - before.wall) - (self.ticks - before.ticks)
        return jump if abs(jump) > JUMP else 0.0


def fresh(at: float, now: float, lasts: float) -> bool:
    """Whether `at` is less than `lasts` seconds ago.

    What lies ahead of `now` was written before the clock was set back, or by one that is wrong: it is not,
    else nothing would happen until that time has come.
    """
    return 0 <= now - at < lasts
