"""The recorded past under other thresholds: what would have been told."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from watchdogd.cli import main
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.notify.notification import Item, Message, Notification
from watchdogd.plugin import Metric, Result, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

MINUTE = 60.0
CHANNEL = '[channels.screen]\ntype = "console"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def recorded(home: Home, rounds: Iterable[tuple[float, Iterable[Observation]]]) -> None:
    store = Store.open("sqlite:///history.db", home)
    for at, observations in rounds:
        store.record(Record(at, tuple(observations)))
    store.close()


def disk(at: float, free: float, status: Status = Status.OK) -> Observation:
    numbers = {"used": Metric(100e12 - free, "B"), "free": Metric(free, "B"), "total": Metric(100e12, "B")}
    return Observation(
        "scratch/disk_quota", "", "scratch", Result(status, f"{free:g} free", numbers, subject="bytes"), at
    )


def emptying(now: float, minutes: int = 60) -> list[tuple[float, list[Observation]]]:
    """From 30 TB free to 0.5 TB, and back in the last quarter of the time."""
    begin = now - minutes * MINUTE
    levels = [30e12 - number * 29.5e12 / (0.75 * minutes) for number in range(int(0.75 * minutes))]
    levels += [30e12] * (minutes - len(levels))
    return [
        (begin + number * MINUTE, [disk(begin + number * MINUTE, free)]) for number, free in enumerate(levels)
    ]


@pytest.fixture
def told(home: Home, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[dict[str, Any]]]:
    """The alerts under a configuration."""

    def ask(config: str) -> list[dict[str, Any]]:
        home.write(home.config, config)
        capsys.readouterr()
        assert main(["--home", str(home.path), "backtest", "--since", "2h", "--json"]) == 0
        alerts: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return alerts

    return ask


def test_thresholds_are_tried_on_what_was_recorded(
    home: Home, tmp_path: Path, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    recorded(home, emptying(time.time()))
    scratch = f'[disks.scratch]\npath = "{tmp_path}"\n'
    early = told(CHANNEL + scratch + 'warn_free = "20TB"\ncrit_free = "10TB"\n')
    assert [alert["status"] for alert in early] == ["WARNING", "CRITICAL", "RESOLVED"]
    assert [alert["target"] for alert in early] == ["scratch"] * 3
    assert early[0]["channels"] == ["screen"]
    assert early[0]["headline"].startswith("[WARNING] scratch: ")
    assert str(tmp_path) not in early[0]["headline"]
    assert early[2]["headline"].startswith("[RESOLVED] scratch: over after ")
    late = told(CHANNEL + scratch + 'warn_free = "2TB"\ncrit_free = "1GB"\n')
    assert [alert["status"] for alert in late] == ["WARNING", "RESOLVED"]
    assert late[0]["at"] > early[1]["at"]
    assert told(CHANNEL + scratch + 'warn_free = "1GB"\ncrit_free = "1kB"\n') == []


def test_a_longer_confirmation_holds_a_short_fault_back(
    home: Home, tmp_path: Path, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    begin = time.time() - 3600
    levels = [30e12] * 10 + [5e12] * 3 + [30e12] * 10
    recorded(
        home,
        ((at := begin + number * MINUTE, [disk(at, free)]) for number, free in enumerate(levels)),
    )
    config = CHANNEL + f'[daemon]\nconfirm = {{}}\n[disks.scratch]\npath = "{tmp_path}"\ncrit_free = "10TB"\n'
    assert [alert["status"] for alert in told(config.format(2))] == ["CRITICAL", "RESOLVED"]
    assert told(config.format(5)) == []


def test_what_cannot_be_judged_anew_keeps_its_status(
    home: Home, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    """A check without numbers is recorded by its turns alone: each holds until the next."""
    begin = time.time() - 3600

    def said(number: int) -> Observation:
        status = Status.CRITICAL if 20 <= number < 40 else Status.OK
        return Observation(
            "run-17/job_liveness",
            "run-17",
            "run-17",
            Result(status, f"it is {status.name}"),
            begin + number * MINUTE,
        )

    recorded(home, ((begin + number * MINUTE, [said(number)]) for number in range(60)))
    alerts = told(CHANNEL + "[runs.run-17]\n")
    assert [alert["status"] for alert in alerts] == ["CRITICAL", "RESOLVED"]
    assert "it is CRITICAL" in alerts[0]["headline"]
    at = begin + 42 * MINUTE
    item = Item("RESOLVED", "run-17/job_liveness", "runs again after 20m", incident=1)
    message = Message("", "", "RESOLVED", "run-17", "incident-1", at, incidents=(1,), items=(item,))
    store = Store.open("sqlite:///history.db", home)
    store.record(Record(at, notifications=(Notification("1@screen", "screen", message, at),)))
    store.close()
    assert told(CHANNEL + "[runs.run-17]\n")[1]["headline"] == "[RESOLVED] run-17: runs again after 20m"


def test_one_node_that_falls_silent_does_not_clear_another(
    home: Home, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    begin = time.time() - 3600

    def node(name: str, at: float, left: float) -> Observation:
        numbers = {"left": Metric(left, "B")}
        return Observation(
            "run-17/memory_leak", "run-17", "run-17", Result(Status.OK, "fine", numbers, subject=name), at
        )

    rounds = []
    for number in range(60):
        at = begin + number * MINUTE
        rounds.append((at, [node("n1", at, 1e9), *([node("n2", at, 100e9)] if number % 2 else [])]))
    recorded(home, rounds)
    alerts = told(CHANNEL + '[runs.run-17]\nmemory_free = "5GB"\n')
    assert [(alert["status"], "n1" in alert["headline"]) for alert in alerts] == [("CRITICAL", True)]


def test_people_see_how_many_came_and_what_was_judged_anew(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(home, emptying(time.time()))
    home.write(
        home.config,
        CHANNEL + f'[disks.scratch]\npath = "{tmp_path}"\nwarn_free = "20TB"\ncrit_free = "1GB"\n',
    )
    assert main(["--home", str(home.path), "backtest"]) == 0
    out = capsys.readouterr().out
    assert "2 alerts would have come in 30d (1 WARNING, 1 RESOLVED); 0 messages did." in out
    assert "Judged anew: scratch/disk_quota." in out
    assert "(to screen)" in out


def test_a_shorter_limit_for_silence_is_tried_but_a_quiet_phase_keeps_its_own(
    home: Home, told: Callable[[str], list[dict[str, Any]]]
) -> None:
    begin = time.time() - 3600

    def silent(number: int) -> Observation:
        age = 60.0 * (number % 20)
        numbers = {"age": Metric(age, "s")} | ({"allowed": Metric(2400.0, "s")} if number < 40 else {})
        return Observation(
            "run-17/log_staleness",
            "run-17",
            "run-17",
            Result(Status.OK, "written to", numbers),
            begin + number * MINUTE,
        )

    recorded(home, ((begin + number * MINUTE, [silent(number)]) for number in range(60)))
    config = CHANNEL + '[runs.run-17]\nlog = "x.log"\nstale_after = "{}"\n'
    alerts = told(config.format("15m"))
    assert [alert["status"] for alert in alerts] == ["CRITICAL"]
    assert "stalled for 16m (limit 15m)" in alerts[0]["headline"]
    assert told(config.format("30m")) == []
    assert told(config.format("auto")) == []
