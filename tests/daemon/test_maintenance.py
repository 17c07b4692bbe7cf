"""Planned silence: whose, when, and for how long where clocks are set in between."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.lab import zones
from watchdogd.config.models import Maintenance
from watchdogd.daemon.setup import Window, Windows

SUNDAY = datetime(2027, 3, 7, tzinfo=UTC).timestamp()
HOUR = 3600.0
SUMMER = datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp()
WINTER = datetime(2027, 10, 31, 1, tzinfo=UTC).timestamp()


def windows(**keys: object) -> Windows:
    return Windows([Maintenance.model_validate(keys)])


@pytest.fixture(autouse=True)
def utc() -> object:
    with zones.local("UTC0"):
        yield


def test_a_window_on_sunday_is_silent_on_sunday() -> None:
    silent = windows(cron="0 2 * * 0", **{"for": "2h"})
    assert silent("scratch", "scratch/disk_quota", SUNDAY + 2 * HOUR - 1) == ""
    assert silent("scratch", "scratch/disk_quota", SUNDAY + 2 * HOUR) == "maintenance until 04:00 UTC"
    assert silent("scratch", "scratch/disk_quota", SUNDAY + 4 * HOUR - 0.5) == "maintenance until 04:00 UTC"
    assert silent("scratch", "scratch/disk_quota", SUNDAY + 4 * HOUR) == ""
    assert silent("scratch", "scratch/disk_quota", SUNDAY + 27 * HOUR) == ""


def test_a_window_is_for_its_targets() -> None:
    silent = windows(cron="@weekly", targets=["scratch", "run-3/log_staleness"], **{"for": "1d"})
    assert silent("scratch", "scratch/disk_quota", SUNDAY)
    assert silent("run-3", "run-3/log_staleness", SUNDAY)
    assert not silent("run-3", "run-3/job_liveness", SUNDAY)


def test_a_window_of_days_says_on_which_day_it_ends() -> None:
    silent = windows(cron="@weekly", **{"for": "3d"})
    assert silent("scratch", "", SUNDAY) == "maintenance until Wed 10 Mar 00:00 UTC"


def test_windows_that_overlap_end_with_the_last_of_them() -> None:
    silent = windows(cron="0 2,3 * * *", **{"for": "90m"})
    assert silent("scratch", "", SUNDAY + 3 * HOUR) == "maintenance until 04:30 UTC"


def test_a_window_in_another_zone_is_shown_by_this_machines_clock() -> None:
    silent = windows(cron="0 2 * * 0", timezone="Asia/Tokyo", **{"for": "2h"})
    assert silent("scratch", "", SUNDAY - 7 * HOUR) == "maintenance until 19:00 UTC"


@pytest.mark.parametrize("keys", [{"timezone": "Europe/Berlin"}, {}])
def test_a_window_lasts_as_long_as_it_says_though_clocks_are_set(keys: dict[str, str]) -> None:
    with zones.local("UTC0" if keys else zones.RULE):
        for cron, begin, change in (
            ("0 1 * * *", -1, SUMMER),
            ("30 2 * * *", 0, SUMMER),
            ("0 2 * * *", -1, WINTER),
        ):
            silent = windows(cron=cron, **keys, **{"for": "3h"})
            start = change + begin * HOUR
            assert [bool(silent("x", "", start + offset)) for offset in (-1, 0, 3 * HOUR - 1, 3 * HOUR)] == [
                False,
                True,
                True,
                False,
            ]


def test_the_next_windows_begin_with_the_one_that_lasts() -> None:
    entries = [
        Maintenance.model_validate({"cron": "0 2 * * 0", "for": "2h"}),
        Maintenance.model_validate({"cron": "0 2 * * *", "for": "1h"}),
    ]
    now = SUNDAY + 3 * HOUR
    (sundays, first), (_, second) = Windows(entries).ahead(now, 3)
    week, day = 168 * HOUR, 24 * HOUR
    assert sundays is entries[0]
    begin = SUNDAY + 2 * HOUR
    assert first == tuple(Window(begin + n * week, begin + n * week + 2 * HOUR) for n in range(3))
    assert second == tuple(Window(begin + n * day, begin + n * day + HOUR) for n in range(1, 4))
