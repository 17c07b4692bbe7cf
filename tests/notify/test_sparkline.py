"""The course of a number as one line."""

import math

import pytest

from tests.notify.values import NOON
from watchdogd.notify.sparkline import BARS, WIDTH, sparkline, trend


def test_a_disk_that_fills_goes_down_from_left_to_right() -> None:
    points = [(NOON + 3600 * hour, 9.3e12 - 0.34e12 * hour) for hour in range(25)]
    line = trend("free", points, "B")
    assert line.startswith("free in the last 1d: █")
    assert line.endswith("▁ from 9.3 TB to 1.14 TB")
    bars = line.split(": ")[1].split(" ")[0]
    assert len(bars) == WIDTH
    assert list(bars) == sorted(bars, reverse=True)


def test_times_without_a_reading_show_what_was_known_last() -> None:
    assert sparkline([(NOON, 1.0), (NOON + 10, 1.0), (NOON + 100, 8.0)], 4) == "▁▁▁█"


def test_what_does_not_change_is_a_flat_line() -> None:
    assert set(sparkline([(NOON + step, 5.0) for step in range(9)])) == {BARS[0]}


@pytest.mark.parametrize(
    "points", [(), ((NOON, 1.0), (NOON + 60, 2.0)), ((NOON, 1.0),) * 3, ((NOON, math.nan),) * 9]
)
def test_where_there_is_no_course_there_is_no_line(points: tuple[tuple[float, float], ...]) -> None:
    assert trend("free", points) == ""
