"""The limit learned from intervals: between 5 minutes and 2 hours, and known only after ten."""

from __future__ import annotations

import pytest

from watchdogd.checks.rhythm import AT_LEAST, AT_MOST, UNKNOWN, YOUNG_AT_LEAST, Rhythm, guess, learn, limit


def learned(*intervals: float, now: float = 0.0) -> Rhythm:
    rhythm: Rhythm = {}
    for interval in intervals:
        rhythm = learn(rhythm, interval, now)
    return rhythm


def test_unknown_before_ten_intervals() -> None:
    assert limit(learned(*[30.0] * 9), 0.0) is None
    assert limit(learned(*[30.0] * 10), 0.0) == YOUNG_AT_LEAST
    assert limit(learned(*[30.0] * 200), 0.0) == AT_LEAST
    assert guess(learned(*[30.0] * 9)) == UNKNOWN
    assert guess(learned(2000.0, 1500.0)) == 4000.0


def test_three_times_a_slow_iteration_and_two_hours_at_most() -> None:
    assert limit(learned(*[600.0] * 20), 0.0) == pytest.approx(1800.0)
    assert limit(learned(*[3000.0] * 20), 0.0) == AT_MOST
    assert limit(learned(*[7000.0] * 20), 0.0) == 10500.0


def test_a_rare_pause_counts_for_days_and_then_is_forgotten() -> None:
    rhythm = learned(*[30.0] * 50, 1200.0, *[30.0] * 500)
    assert limit(learned(*[30.0] * 50, 90000.0, *[30.0] * 500), 3600.0) == AT_MOST
    assert limit(rhythm, 3600.0) == pytest.approx(1800.0)
    assert limit(rhythm, 4 * 86400.0) == AT_LEAST
    assert len(rhythm["recent"]) <= 128
