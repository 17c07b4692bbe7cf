"""The filling rate: a trend is seen, a sawtooth is not one."""

from __future__ import annotations

import pytest

from watchdogd.checks.trend import filling_rate, time_to_full

HOUR = 3600.0


def test_a_steady_trend() -> None:
    assert filling_rate([(n * HOUR, 100.0 + 5 * n) for n in range(48)]) == pytest.approx(5 / HOUR)


def test_fewer_than_five_readings_that_differ_say_nothing() -> None:
    assert filling_rate([(n * HOUR, float(min(n, 3))) for n in range(100)]) is None
    assert filling_rate([]) is None


@pytest.mark.parametrize("phase", range(9))
def test_checkpoints_written_and_cleaned_up_are_no_trend(phase: int) -> None:
    points = [(n * HOUR, 50.0 + 2.3 * ((n + phase) % 9)) for n in range(24 * 7)]
    assert filling_rate(points) == 0.0


def test_a_trend_beneath_a_sawtooth_is_seen() -> None:
    points = [(n * HOUR, 50.0 + 0.1 * n + 2.3 * (n % 9)) for n in range(24 * 7)]
    assert filling_rate(points) == pytest.approx(0.1 / HOUR, rel=0.1)


def test_steps_are_a_trend() -> None:
    points = [(n * HOUR, 2.3 * (n // 3)) for n in range(24 * 7)]
    assert filling_rate(points) == pytest.approx(2.3 / 3 / HOUR, rel=0.1)


def test_a_single_jump_is_no_trend() -> None:
    points = [(n * HOUR, 50.0 + (30.0 if n > 100 else 0.0) + 0.001 * (n % 7)) for n in range(24 * 7)]
    assert (filling_rate(points) or 0.0) < 0.01 / HOUR


def test_what_shrinks_does_not_fill() -> None:
    assert filling_rate([(n * HOUR, 100.0 - n) for n in range(48)]) == 0.0


def test_a_forecast_reaches_only_as_far_as_its_readings_carry() -> None:
    minutes = [(n * 60.0, float(n)) for n in range(6)]
    rate = filling_rate(minutes)
    assert time_to_full(60.0, rate, minutes) == pytest.approx(3600.0)
    assert time_to_full(6000.0, rate, minutes) is None
    assert time_to_full(60.0, 0.0, minutes) is None


def test_growth_that_began_lately_is_seen_in_spite_of_a_calm_fortnight() -> None:
    """18 TB a day for ten hours, after two weeks in which little changed."""
    calm = [(hour * 3600.0, 100e12 + (hour % 5) * 1e9) for hour in range(14 * 24)]
    grows = [(calm[-1][0] + n * 600.0, 100e12 + n * 0.125e12) for n in range(1, 61)]
    rate = filling_rate([*calm, *grows])
    assert rate == pytest.approx(18e12 / 86400, rel=0.1)


def test_a_daily_clean_up_is_no_growth_on_any_day() -> None:
    """2.3 TB every three hours, all of it cleaned up each night; the peaks differ a little."""
    points = [
        (hour * 3600.0, 100e12 + (hour % 24) // 3 * 2.3e12 + (hour // 24 % 3) * 0.4e12 + hour * 1e6)
        for hour in range(14 * 24)
    ]
    for last in range(5 * 24, 14 * 24):
        rate = filling_rate(points[:last])
        assert rate is None or rate * 86400 < 0.5e12


def test_a_single_large_file_after_a_calm_fortnight_is_no_trend() -> None:
    calm = [(hour * 3600.0, 100e12 + (hour % 5) * 1e9) for hour in range(14 * 24)]
    later = [(calm[-1][0] + n * 600.0, 130e12 + (n % 5) * 1e9) for n in range(1, 40)]
    for last in range(1, 40):
        rate = filling_rate([*calm, *later[:last]])
        assert rate is not None
        assert rate * 86400 < 0.5e12


def test_growth_that_stopped_is_no_trend_any_more() -> None:
    """A day of 5 TB an hour, in readings of every ten minutes, and then nothing."""
    grew = [(n * 600.0, n * 0.8e12) for n in range(144)]
    still = [(grew[-1][0] + n * 600.0, grew[-1][1] + (n % 3) * 1e9) for n in range(1, 145)]
    assert filling_rate([*grew, *still[:24]]) == pytest.approx(0.8e12 / 600, rel=0.3)
    assert filling_rate([*grew, *still]) == 0.0
    again = [(still[-1][0] + n * 600.0, still[-1][1] + n * 0.8e12) for n in range(1, 40)]
    assert (filling_rate([*grew, *still, *again]) or 0.0) * 600 > 0.3e12


def test_what_grows_in_working_hours_goes_on_growing_at_night() -> None:
    hours = [day * 24 + hour for day in range(5) for hour in range(9, 19)]
    points = [(hour * HOUR, float(sum(each <= hour for each in hours))) for hour in range(120)]
    assert all((filling_rate(points[:last]) or 0.0) > 0 for last in range(60, 120))


def test_a_checkpoint_a_day_is_a_trend_on_the_day_after() -> None:
    points = [(hour * HOUR, float(hour // 24)) for hour in range(24 * 10)]
    assert all((filling_rate(points[:last]) or 0.0) > 0 for last in range(24 * 7, 24 * 10))
