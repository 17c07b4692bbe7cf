"""The course of what runs out, in the message about it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.notify.values import NOON, event, incident
from watchdogd.config.models import Config
from watchdogd.daemon.registry.check_factory import build
from watchdogd.daemon.registry.plugin_registry import discover
from watchdogd.errors import HistoryError
from watchdogd.home.layout import Home
from watchdogd.incidents.models import EventKind, Incident, IncidentEvent, Observation
from watchdogd.notify.sparkline import AT_ONCE, with_trends
from watchdogd.plugin import Metric, critical

Points = tuple[tuple[float, float], ...]
LATEST = {
    "fast/disk_quota": [
        Observation(
            "fast/disk_quota", "", "fast", critical("x", subject="bytes", free=Metric(1e12, "B")), NOON
        )
    ]
}
COURSE: Points = tuple((NOON - 3600 * hour, 1e12 * (1 + hour)) for hour in range(8, -1, -1))


@pytest.fixture
def metrics(tmp_path: Path) -> dict[str, str]:
    """The metric that each check declares as its trend."""
    home = Home(tmp_path)
    config = Config.model_validate(
        {
            "runs": {"run-17": {"command": "train", "log": "/fast/log"}},
            "disks": {"fast": {"path": "/fast"}},
        }
    )
    checks = build(config, discover(home), home, "none")
    return {check.name: trend for check in checks if (trend := check.entry.declared.trend)}


def _full(number: int = 4, subject: str = "bytes") -> Incident:
    return incident(number, run="", target="fast", check="fast/disk_quota", subject=subject)


def _series(check: str, since: float) -> Mapping[tuple[str, str], Points]:
    assert (check, since) == ("fast/disk_quota", NOON - 86400)
    return {("bytes", "free"): COURSE}


def test_a_disk_that_fills_shows_its_course_first(metrics: dict[str, str]) -> None:
    [seen] = with_trends([event(about=_full(), notes=("another",))], metrics, LATEST, _series)
    assert seen.notes[0].startswith("free in the last 8h: █")
    assert seen.notes[0].endswith("▁ from 9 TB to 1 TB")
    assert seen.notes[1:] == ("another",)


@pytest.mark.parametrize(
    "untouched",
    [
        event(EventKind.RESOLVED, _full()),
        event(about=_full(), quiet=True),
        event(about=_full(subject="inodes")),
        event(about=incident(check="run-17/log_staleness")),
    ],
)
def test_what_ended_is_quiet_or_has_no_course_stays_as_it_was(
    metrics: dict[str, str], untouched: IncidentEvent
) -> None:
    assert with_trends([untouched], metrics, LATEST, _series) == (untouched,)


def test_a_history_that_cannot_be_read_holds_no_message_up(metrics: dict[str, str]) -> None:
    def broken(check: str, since: float) -> Mapping[tuple[str, str], Points]:
        raise HistoryError("history.db cannot be read")

    told = event(about=_full())
    assert with_trends([told], metrics, LATEST, broken) == (told,)


@pytest.mark.parametrize("points", [COURSE, ()])
def test_a_storm_asks_the_history_only_a_few_times(metrics: dict[str, str], points: Points) -> None:
    asked: list[str] = []

    def series(check: str, _since: float) -> Mapping[tuple[str, str], Points]:
        asked.append(check)
        return {("bytes", "free"): points}

    found = with_trends([event(about=_full(number)) for number in range(50)], metrics, LATEST, series)
    assert len(found) == 50
    assert len(asked) == AT_ONCE
    assert sum(bool(seen.notes) for seen in found) == (AT_ONCE if points else 0)
