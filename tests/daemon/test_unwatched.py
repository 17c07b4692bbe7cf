"""What is a gap, and what of it is told: not the time for which somebody wanted it stopped."""

from __future__ import annotations

import pytest

from watchdogd.daemon.daemon import NOBODY, gaps, unrecorded
from watchdogd.history.models import Gap
from watchdogd.home.markers import Pause

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
