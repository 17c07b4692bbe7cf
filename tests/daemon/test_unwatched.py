"""What is a gap, and what of it is told: not the time for which somebody wanted it stopped."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from watchdogd.daemon.daemon import NOBODY, gaps, tell_gaps, unrecorded
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.history.models import Gap
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.home.markers import Pause
from watchdogd.system.account import own_name

LAST = 1_800_000_000.0
BY_ALICE = "stopped by alice"


@pytest.mark.parametrize(("since", "step"), [(59, 1), (179, 60), (899, 300)])
def test_three_steps_and_a_minute_are_no_gap(since: float, step: float) -> None:
    assert gaps(None, LAST, step, None) == []
    assert gaps(LAST, LAST + since, step, None) == []
    assert gaps(LAST, LAST + since + 1, step, None) == [(Gap(LAST, LAST + since + 1, NOBODY), True)]


def test_a_pause_is_recorded_and_not_told() -> None:
    pause = Pause(LAST + 1, LAST + 3590, BY_ALICE)
    assert gaps(LAST, LAST + 3600, 2, pause) == [(Gap(LAST + 1, LAST + 3590, BY_ALICE), False)]


def test_what_was_unwatched_before_and_after_a_pause_is_told() -> None:
    """It died long before it was stopped, and the first link waited long after it was started."""
    pause = Pause(LAST + 1000, LAST + 2000, BY_ALICE)
    assert gaps(LAST, LAST + 5000, 2, pause) == [
        (Gap(LAST + 1000, LAST + 2000, BY_ALICE), False),
        (Gap(LAST, LAST + 1000, NOBODY), True),
        (Gap(LAST + 2000, LAST + 5000, NOBODY), True),
    ]


def test_a_pause_of_long_ago_excuses_nothing() -> None:
    pause = Pause(LAST - 9000, LAST - 5000, BY_ALICE)
    assert gaps(LAST, LAST + 600, 2, pause) == [(Gap(LAST, LAST + 600, NOBODY), True)]


def test_clocks_that_differ_make_no_gap_that_ends_before_it_begins() -> None:
    pause = Pause(LAST - 20, LAST + 9999, BY_ALICE)
    assert gaps(LAST, LAST + 600, 2, pause) == [(Gap(LAST, LAST + 600, BY_ALICE), False)]


@pytest.mark.parametrize(
    ("recorded", "seen", "told"),
    [
        (None, LAST, False),
        (LAST, None, False),
        (LAST, LAST - 5, False),
        (LAST, LAST + 179, False),
        (LAST, LAST + 180, True),
        (LAST, LAST + 7200, True),
    ],
)
def test_rounds_that_could_not_be_recorded_are_no_time_without_a_daemon(
    recorded: float | None, seen: float | None, told: bool
) -> None:
    text = unrecorded(recorded, seen, 60)
    assert bool(text) is told
    assert not told or "a daemon ran, but what it saw is not recorded" in text


@pytest.mark.parametrize("for_good", [True, False])
def test_after_a_stop_that_was_reported_its_end_is_too_and_once(tmp_path: Path, for_good: bool) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text(
        "[daemon]\nname = 'elm-watch'\n[channels.here]\ntype = 'console'\n"
        f"[alerts]\nchannels = ['here']\n[disks.root]\npath = '{tmp_path}'\n"
    )

    def told() -> list[str]:
        with assembled(home, Setup.load(home)) as parts:
            tell_gaps(parts, 60.0, time.time())
            parts.engine.reload()
            done = parts.engine.round(patience=0.0, only=())
            assert done
            again = parts.engine.round(patience=0.0, only=())
            assert again
            assert again.notifications == ()
            stop = parts.engine.say_stopped()
            return [each.message.headline for each in (*done.notifications, *stop)]

    assert told() == []
    markers.mark_stopped(home, "new disks", jobs_go_on=not for_good)
    stopped = f"[INFO] elm-watch: the watchdog was stopped by {own_name()}, nobody watches now: new disks"
    assert told() == ([stopped] if for_good else [])
    markers.lift_stop(home)
    (*first,) = told()
    assert [each.partition(" after ")[0] for each in first] == (
        ["[INFO] elm-watch: the watchdog watches again"] if for_good else []
    )
    assert told() == []
