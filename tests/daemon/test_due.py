"""What is due: pure, with times as numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from watchdogd.config.fields import Recipients
from watchdogd.daemon.due import due, next_due
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_registry import PluginEntry, Source
from watchdogd.system.times import CronTimes, zone_named


def made(name: str, every: float = 60.0) -> Check:
    entry = PluginEntry(name, "built-in", Source("m", name))
    return Check(name, entry, {}, name, None, every, 30.0, 2, Recipients())


def names(checks: tuple[Check, ...]) -> list[str]:
    return [check.name for check in checks]


def test_a_new_check_is_due_at_once_and_then_at_its_cadence() -> None:
    a, b = made("a"), made("b", 3600)
    assert names(due([a, b], {}, (), 1000)) == ["a", "b"]
    started = {"a": 1000.0, "b": 1000.0}
    assert names(due([a, b], started, (), 1030)) == []
    assert names(due([a, b], started, (), 1059.5)) == ["a"]
    assert next_due([a, b], started, 1030) == 1060


def test_what_was_missed_runs_once_and_what_still_runs_is_not_started_on_top() -> None:
    a = made("a")
    assert names(due([a], {"a": 0.0}, (), 1_000_000)) == ["a"]
    assert names(due([a], {"a": 0.0}, {"a"}, 1_000_000)) == []


def test_a_clock_set_back_by_hours_does_not_stop_anything() -> None:
    a = made("a")
    assert names(due([a], {"a": 100_000.0}, (), 90_000)) == ["a"]
    assert next_due([a], {"a": 100_000.0}, 90_000) == 90_000


def test_at_a_time_of_day_once_a_day_and_once_after_a_downtime() -> None:
    zone = zone_named("Europe/Helsinki")
    noon = datetime(2026, 3, 28, 12, tzinfo=zone).timestamp()  # the night before the clock is put forward
    a = replace(made("a", 86400), at=CronTimes("30 4 * * *", zone), since=noon)
    half_past_four = datetime(2026, 3, 29, 4, 30, tzinfo=zone).timestamp()
    assert half_past_four - noon == 15.5 * 3600
    assert names(due([a], {}, (), noon + 60)) == [], "a new one waits for its hour"
    assert next_due([a], {}, noon + 60) == half_past_four
    assert names(due([a], {}, (), half_past_four - 0.5)) == ["a"]
    started = {"a": half_past_four - 0.5}
    assert names(due([a], started, (), half_past_four + 1)) == []
    assert next_due([a], started, half_past_four + 1) == half_past_four + 86400
    late = half_past_four + 5 * 86400 + 7200
    assert names(due([a], started, (), late)) == ["a"]
    assert names(due([a], {"a": late}, (), late + 60)) == []
    assert names(due([a], {"a": late}, (), late + 60, {"a": 60.0})) == ["a"], "to confirm what it said"


def test_without_checks_the_next_look_is_an_hour_ahead() -> None:
    assert next_due([], {}, 5) == 3605


def test_what_wants_confirming_is_looked_at_sooner_than_its_cadence() -> None:
    slow = made("slow", 86400)
    assert names(due([slow], {"slow": 1000.0}, (), 1060)) == []
    assert names(due([slow], {"slow": 1000.0}, (), 1060, {"slow": 60.0})) == ["slow"]
    quick = made("quick", 10)
    assert names(due([quick], {"quick": 1000.0}, (), 1011, {"quick": 60.0})) == ["quick"]
