"""The morning message: what it says of a day, when it is due, and that it arrives."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from tests.notify.values import NOON, letter
from tests.web.evening import gathered
from tests.web.stage import home_with_past
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.cli import main
from watchdogd.config.loading import parse
from watchdogd.config.models import DigestSection
from watchdogd.daemon.daemon import Daemon, ServiceManager
from watchdogd.daemon.housekeeping import MARK, is_due
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.errors import ConfigError
from watchdogd.home.layout import Home
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.web.content import MessageRow, PageContent
from watchdogd.web.digest_text import as_json, digest
from watchdogd.web.run_forecast import HowFar
from watchdogd.web.timeline import Span

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> PageContent:
    """Four runs of which one stalled and one is gone."""
    return gathered(tmp_path_factory.mktemp("evening"))


@pytest.mark.parametrize(
    "line",
    [
        "glide-xl: stalled, 81,240/105,000 (77%) iterations, +81,239",
        "lost 5h: gone 5h",
        "- 5h: job 329 FAILED (exit 1) after 9h: GPU out of memory on rank 7",
        "moe-3b: running, 548,500/900,000 (61%) iterations, +101,887, 10d left (9d18h to 10d)",
        "unwatched for 1h30m",
        "scratch inodes: 99% used, 548,500 free, full in 9h",
        "Incidents: 5 new, 1 resolved, 4 open",
        "- 7 [CRITICAL] llama-7b: job 329 FAILED (exit 1) after 9h: GPU out of memory on rank 7 "
        "(for 5h, acknowledged by bob)",
    ],
)
def test_it_says_what_a_day_did(evening: PageContent, line: str) -> None:
    assert line in digest(evening).body.splitlines()


def test_the_first_line_says_how_it_stands(evening: PageContent) -> None:
    message = digest(evening)
    assert message.headline == (
        "[INFO] bloom-watch: 1 of 4 runs trains, 1 uncertain, 1 stalled, 1 gone; 6h1m lost; 4 open"
    )
    assert not message.incidents, "it opens and ends nothing"


def test_it_says_what_the_watchdog_missed(evening: PageContent) -> None:
    assert "no daemon ran" in digest(evening).body
    lost = replace(letter(), state="expired", message=letter().message)
    status = {**evening.status, "troubles": ["history.db cannot be written"]}
    missed = replace(evening, gaps=(), status=status, messages=(MessageRow(NOON, lost.message, (lost,)),))
    body = digest(missed).body
    assert "- never delivered on slack, of " in body
    assert "- history.db cannot be written" in body
    well = replace(missed, status={**status, "troubles": []}, messages=())
    assert digest(well).body.endswith("The watchdog missed nothing.")


def test_it_says_how_long_a_run_waited_in_the_queue(evening: PageContent) -> None:
    run = replace(evening.runs[0], spans=(Span(0, 5400, "waiting"), Span(5400, 9000, "running")))
    assert "waited 1h30m in the queue" in digest(replace(evening, runs=(run,))).body.splitlines()


def test_seconds_are_lost_too_and_one_step_is_one(evening: PageContent) -> None:
    gone = replace(evening.runs[1], spans=(Span(NOON - 20, NOON, "gone"),), far=HowFar(done=1.0))
    message = digest(replace(evening, runs=(gone,)))
    assert "; 20s lost; " in message.headline
    assert f"{gone.name}: gone, 1 step, " in message.body
    assert replace(gone.far, total=1.0, unit="epoch", pace=0.1).speed == "10 epochs/s"


@pytest.mark.parametrize(("gained", "said"), [(16, "+16"), (-16, "back by 16"), (0, "none of them new")])
def test_a_run_that_went_back_is_said_so(evening: PageContent, gained: int, said: str) -> None:
    run = replace(evening.runs[1], gained=gained)
    assert f", {said}" in digest(replace(evening, runs=(run,))).body


def test_programs_get_the_numbers(evening: PageContent) -> None:
    found = {each["run"]: each for each in as_json(evening, digest(evening))["runs"]}
    assert found["llama-7b"]["lost_seconds"] == 5 * 3600
    assert (found["moe-3b"]["done"], found["moe-3b"]["gained"]) == (548_500, 101_887)


def test_a_day_without_anything_is_said_in_a_few_words(tmp_path: Path) -> None:
    content = PageContent("w", NOON, NOON - 86_400, {"checks": []}, (), (), (), (), (), (), (), ())
    message = digest(content)
    assert message.headline == "[INFO] w: No run is watched; nothing lost; 0 open"
    assert message.body.endswith("No incidents.\n\nThe watchdog missed nothing.")


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        ("2026-11-28T07:30", "2026-11-29T07:29", False),
        ("2026-11-28T07:30", "2026-11-29T07:30", True),
        ("2026-11-29T07:30", "2026-11-29T23:59", False),
        ("2026-11-20T07:30", "2026-11-29T05:00", True),  # once after a downtime
        ("2026-11-29T07:30", "2026-11-28T12:00", False),  # the clock was set back
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_it_is_due_once_a_day_at_its_time(last: str, now: str, due: bool, zone: str) -> None:
    place = ZoneInfo(zone)
    times = [datetime.fromisoformat(each).replace(tzinfo=place).timestamp() for each in (last, now)]
    assert is_due(DigestSection(at="07:30"), place, *times) is due


@pytest.mark.parametrize(
    ("zone", "at", "begin"),
    [
        ("Europe/Berlin", "02:30", "2026-03-27"),  # an hour that is not
        ("Europe/Berlin", "02:30", "2026-10-23"),  # one that comes twice
        ("America/New_York", "01:30", "2026-10-30"),
        ("America/Santiago", "00:00", "2026-09-04"),  # a midnight that is not
        ("Australia/Lord_Howe", "01:45", "2026-04-03"),  # half an hour
    ],
)
def test_it_is_due_once_a_day_when_clocks_are_set(zone: str, at: str, begin: str) -> None:
    place = ZoneInfo(zone)
    sent = [datetime.fromisoformat(f"{begin}T12:00").replace(tzinfo=place).timestamp()]
    for now in range(int(sent[0]), int(sent[0]) + 4 * 86400, 900):
        if is_due(DigestSection(at=at), place, sent[-1], now):
            sent.append(now)
    assert len({datetime.fromtimestamp(each, place).date() for each in sent[1:]}) == len(sent) - 1 == 4


CONFIG = """
[daemon]
name = "bloom-watch"
[channels.log]
type = "statuslog"
path = "alerts.log"
[channels.pager]
type = "statuslog"
path = "pager.log"
only = ["CRITICAL"]
[digest]
at = "{at}"
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with some past."""
    home = home_with_past(tmp_path, time.time(), hours=5)
    home.config.write_text(CONFIG.format(at="07:30"))
    return home


def test_the_verb_prints_it_and_sends_it(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--home", str(home.path), "digest"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("[INFO] bloom-watch: ")
    assert "What the watchdog missed:" in said
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["headline"] == said.splitlines()[0]
    assert not (home.path / "alerts.log").exists()
    assert main([*words, "--send"]) == 0
    assert capsys.readouterr().out == "log: delivered\n"
    assert said.splitlines()[0] in (home.path / "alerts.log").read_text()
    assert not (home.path / "pager.log").exists(), "what takes CRITICAL alone is not woken by it"


def test_a_channel_that_does_not_take_it_is_exit_2(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.config.write_text(
        '[channels.hook]\ntype = "webhook"\nurl = "http://127.0.0.1:1/x"\n[digest]\nat = "07:30"\n'
    )
    assert main(["--home", str(home.path), "digest", "--send"]) == 2
    assert "hook: not delivered: " in capsys.readouterr().out
    home.config.write_text("")
    assert main(["--home", str(home.path), "digest", "--send"]) == 64
    assert "it has no channel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('[digest]\nat = "7"', "is no time of day"),
        ("[digest]\n", "digest.at"),
        (
            '[digest]\nat = "07:30"\nchannels = ["lag"]\n[channels.log]\ntype = "console"',
            "did you mean 'log'",
        ),
    ],
)
def test_a_digest_that_cannot_be_is_an_error(text: str, wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, tmp_path / "config.toml")
    assert wrong in str(caught.value)


@pytest.mark.slow
def test_the_daemon_sends_it_once_when_its_time_has_come(home: Home) -> None:
    at = datetime.fromtimestamp(time.time() - 60, UTC)
    text = CONFIG.format(at=f"{at:%H:%M}").replace("[daemon]", '[daemon]\ntimezone = "UTC"')
    home.config.write_text(text)
    setup = Setup.load(home)
    leadership = DaemonLeadership(home, setup.config)
    leadership.begin()
    with assembled(home, setup) as parts:
        daemon = Daemon(parts, leadership, heartbeat_of(setup.config), ServiceManager())
        daemon._outbox.start()
        daemon._publish()
        assert (home.path / MARK).exists()
        assert daemon._outbox.waiting == 0, "it was asked for a minute ago: the first comes at its time"
        os.utime(home.path / MARK, (4e9, 4e9))
        daemon._publish()
        assert (home.path / MARK).stat().st_mtime < 4e9, "the clock was set back: it does not wait for years"
        os.utime(home.path / MARK, (1e9, 1e9))
        daemon._publish()
        daemon._publish()
        daemon._outbox.stop(60)
    leadership.end()
    lines = (home.path / "alerts.log").read_text().splitlines()
    assert len([line for line in lines if "runs train" in line or "No run" in line or "None of" in line]) == 1
