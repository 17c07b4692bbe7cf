"""Times that lie ahead of now are not fresh: the clock was set back since."""

from __future__ import annotations

import math

import pytest

from watchdogd.system.times import SteadyClock, fresh


@pytest.mark.parametrize(
    ("at", "expected"),
    [(1000.0, True), (941.0, True), (940.0, False), (0.0, False), (1001.0, False), (-math.inf, False)],
)
def test_what_is_fresh_is_neither_too_old_nor_ahead(at: float, expected: bool) -> None:
    assert fresh(at, 1000.0, 60.0) is expected


@pytest.mark.parametrize("by", [0.0, 5 * 3600.0, -7 * 3600.0, 56 * 365.0 * 86_400])
def test_a_steady_clock_goes_on_whatever_is_set(by: float) -> None:
    wall, ticks = [1000.0], [5.0]
    clock = SteadyClock(lambda: wall[0], lambda: ticks[0])
    assert (clock.now, clock.skew) == (1000.0, 0.0)
    wall[0] += by + 60.0
    ticks[0] += 60.0
    assert (clock.now, clock.skew) == (1060.0, by)
