"""A clock that is set is told from one that runs; times that lie ahead are not fresh."""

from __future__ import annotations

import math

import pytest

from watchdogd.system.clock import JUMP, Moment, fresh

BEFORE = Moment(1_790_000_000.0, 5_000.0)


@pytest.mark.parametrize(
    ("wall", "ticks", "jump"),
    [
        (0.0, 0.0, 0.0),
        (86_400.0, 86_400.0, 0.0),
        (1.0 + JUMP, 1.0, 0.0),
        (3_601.0, 1.0, 3_600.0),
        (-3_599.0, 1.0, -3_600.0),
        (1.0, 7_201.0, -7_200.0),
    ],
    ids=["at once", "a day", "a little", "set forward", "set back", "set back in a long sleep"],
)
def test_a_clock_that_was_set_is_told_from_one_that_runs(wall: float, ticks: float, jump: float) -> None:
    assert Moment(BEFORE.wall + wall, BEFORE.ticks + ticks).jump(BEFORE) == pytest.approx(jump)


@pytest.mark.parametrize(
    ("at", "expected"),
    [(1000.0, True), (941.0, True), (940.0, False), (0.0, False), (1001.0, False), (-math.inf, False)],
)
def test_what_is_fresh_is_neither_too_old_nor_ahead(at: float, expected: bool) -> None:
    assert fresh(at, 1000.0, 60.0) is expected
