"""A clock that somebody may set: how that is found out, and what it makes of times that are remembered."""

from __future__ import annotations

JUMP = 30.0
"""Seconds by which two clocks of the wall may differ, before one counts as set."""


def fresh(at: float, now: float, lasts: float) -> bool:
    """Whether `at` is less than `lasts` seconds ago.

    What lies ahead of `now` was written before the clock was set back, or by one that is wrong: it is not,
    else nothing would happen until that time has come.
    """
    return 0 <= now - at < lasts
