"""Times of crontab(5) as Debian's cron has them: weekdays, names, days, and the change to summer time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lab import zones
from watchdogd.system.times import LOCAL_ZONE, CronTimes, short_time, zone_named

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2027, 3, 1, 12, tzinfo=UTC).timestamp()  # a Monday
SUMMER = datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp()
WINTER = datetime(2027, 10, 31, 1, tzinfo=UTC).timestamp()
"""When the clocks of Berlin are set: at 02:00 to 03:00, and at 03:00 to 02:00."""


def shown(cron: CronTimes, now: float, count: int = 3) -> list[str]:
    times = (datetime.fromtimestamp(at, cron.zone) for at in islice(cron.after(now), count))
    return [f"{at:%a %d %b %H:%M}" for at in times]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        *((f"0 2 * * {day}", ["Sun 07 Mar 02:00", "Sun 14 Mar 02:00"]) for day in ("0", "7", "sun", "SUN")),
        ("0 2 * * 1", ["Mon 08 Mar 02:00", "Mon 15 Mar 02:00"]),
        ("0 2 * * 5-7", ["Fri 05 Mar 02:00", "Sat 06 Mar 02:00", "Sun 07 Mar 02:00"]),
        ("0 2 * * mon-wed/2", ["Wed 03 Mar 02:00", "Mon 08 Mar 02:00"]),
        ("0 2 13 * 5", ["Fri 05 Mar 02:00", "Fri 12 Mar 02:00", "Sat 13 Mar 02:00", "Fri 19 Mar 02:00"]),
        ("0 2 */13 * 5", ["Fri 14 May 02:00", "Fri 27 Aug 02:00"]),
        ("30 4 1 jan,jul *", ["Thu 01 Jul 04:30", "Sat 01 Jan 04:30"]),
        ("0 0 29 2 *", ["Tue 29 Feb 00:00"]),
        ("*/40 12 1 3 *", ["Mon 01 Mar 12:40"]),
        ("@weekly", ["Sun 07 Mar 00:00", "Sun 14 Mar 00:00"]),
        (" @Weekly ", ["Sun 07 Mar 00:00"]),
        ("@monthly", ["Thu 01 Apr 00:00"]),
        ("@yearly", ["Sat 01 Jan 00:00"]),
        ("@annually", ["Sat 01 Jan 00:00"]),
        ("@daily", ["Tue 02 Mar 00:00"]),
        ("@midnight", ["Tue 02 Mar 00:00"]),
        ("@hourly", ["Mon 01 Mar 13:00", "Mon 01 Mar 14:00"]),
    ],
)
def test_an_expression_means_what_it_means_to_cron(expression: str, expected: list[str]) -> None:
    assert shown(CronTimes(expression), NOW, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "five fields"),
        ("bla", "five fields"),
        ("0 2 * *", "five fields"),
        ("0 0 2 * * 0", "five fields"),
        ("@reboot", "there are @yearly"),
        ("60 2 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 2 0 * *", "bad day-of-month"),
        ("0 2 * 13 *", "bad month"),
        ("0 2 * * 8", "bad day-of-week"),
        ("0 2 * * sunday", "bad day-of-week"),
        ("0 2 * * 5-1", "bad day-of-week"),
        ("*/0 2 * * *", "bad minute"),
        (f"{'9' * 5000} 2 * * *", "is no crontab time"),
        ("² 2 * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */31 * 1#2", "never comes"),
    ],
)
def test_what_is_no_time_is_refused_in_one_line(expression: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        CronTimes(expression)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250


@given(st.text("0123456789*/,-#@LWsunweekly ²", max_size=20))
def test_whatever_is_written_is_a_time_or_refused(expression: str) -> None:
    try:
        cron = CronTimes(expression)
    except ValueError:
        return
    last = cron.last(NOW)
    assert last is None or last <= NOW < next(cron.after(NOW))


@pytest.mark.parametrize("zone", [BERLIN, LOCAL_ZONE])
def test_what_falls_into_the_skipped_hour_begins_after_it(zone: ZoneInfo) -> None:
    with zones.local(zones.RULE):
        assert next(CronTimes("30 2 * * *", zone).after(SUMMER - 3600)) == SUMMER
        assert CronTimes("30 2 * * *", zone).last(SUMMER + 1800) == SUMMER
        assert shown(CronTimes("30 2 * * *", zone), SUMMER - 3600, 2) == [
            "Sun 28 Mar 03:00",
            "Mon 29 Mar 02:30",
        ]
        assert shown(CronTimes("30 * * * *", zone), SUMMER - 3600, 2) == [
            "Sun 28 Mar 01:30",
            "Sun 28 Mar 03:30",
        ]


@pytest.mark.parametrize("zone", [BERLIN, LOCAL_ZONE])
def test_what_falls_into_the_hour_that_comes_twice_begins_once(zone: ZoneInfo) -> None:
    with zones.local(zones.RULE):
        nightly = CronTimes("30 2 * * *", zone)
        assert next(nightly.after(WINTER - 7200)) == WINTER - 1800
        for minutes in (0, 15, 30, 45, 60, 600):
            assert nightly.last(WINTER + minutes * 60) == WINTER - 1800
            assert next(nightly.after(WINTER + minutes * 60)) == WINTER - 1800 + 25 * 3600
        assert list(islice(CronTimes("30 * * * *", zone).after(WINTER - 3600), 2)) == [
            WINTER - 1800,
            WINTER + 1800,
        ]


@given(
    expression=st.sampled_from(
        [
            "30 2 * * *",
            "0 2,3 * * *",
            "15 */2 * * *",
            "*/20 2 * * 0",
            "45 * * * *",
            "59 23 31 * 7",
            "5 1-4 * * *",
        ]
    ),
    zone=st.sampled_from(
        ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Antarctica/Troll", "UTC"]
    ),
    year=st.integers(2024, 2030),
    minutes=st.integers(0, 366 * 1440),
)
def test_backwards_and_forwards_are_the_same_times(
    expression: str, zone: str, year: int, minutes: int
) -> None:
    now = (datetime(year, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)).timestamp() + 0.25
    cron = CronTimes(expression, ZoneInfo(zone))
    # from a day with the same name, well before any change of the clock that is near
    before = list(takewhile(lambda at: at <= now, cron.after(now - 62 * 86400)))
    assert cron.last(now) == before[-1]
    assert next(cron.after(now)) > now


@given(st.integers(0, 4_000_000_000))
def test_this_machines_zone_is_what_the_c_library_says(at: int) -> None:
    with zones.local(zones.RULE):
        here = datetime.fromtimestamp(at, LOCAL_ZONE)
        assert here.timestamp() == at
        assert f"{here:%F %T %z %Z}" == f"{datetime.fromtimestamp(at, UTC).astimezone():%F %T %z %Z}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'"),
        ("europe/berlin", "did you mean 'Europe/Berlin'"),
        ("Europe", "there is no time zone 'Europe'"),
        ("CEST", "there is no time zone 'CEST'"),
        ("", "there is no time zone ''"),
        ("/etc/passwd", "there is no time zone"),
        ("../../etc/passwd", "there is no time zone"),
        (zones.RULE, "there is no time zone"),
        ("a\0b", "there is no time zone"),
        ("\udcff", "there is no time zone"),
        ("x" * 9000, "there is no time zone"),
    ],
)
def test_a_zone_that_there_is_not_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        zone_named(name)


def test_a_zone_is_known_without_the_machines_own_tzdata(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoneinfo

    monkeypatch.setenv("PYTHONTZPATH", "/nowhere")
    zoneinfo.reset_tzpath(())
    ZoneInfo.clear_cache()
    try:
        assert zone_named("Asia/Kathmandu").utcoffset(datetime(2027, 1, 1)) == timedelta(hours=5, minutes=45)  # noqa: DTZ001
    finally:
        monkeypatch.undo()
        zoneinfo.reset_tzpath()
        ZoneInfo.clear_cache()


def test_a_time_is_said_with_its_day_where_that_is_another() -> None:
    with zones.local(zones.RULE):
        assert short_time(SUMMER + 60, SUMMER) == "03:01 CEST"
        assert short_time(SUMMER + 86400, SUMMER) == "Mon 29 Mar 03:00 CEST"
