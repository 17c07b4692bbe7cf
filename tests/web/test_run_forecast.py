"""When a run will be ready, what it lost, how many train: by numbers, never by sentences."""

from __future__ import annotations

from typing import Any

import pytest

from watchdogd.daemon.status_file import observation_json, progress_of
from watchdogd.incidents.models import Incident, Observation
from watchdogd.notify.notification import Message, Notification
from watchdogd.plugin import Progress, Result, Status
from watchdogd.web.content import message_rows
from watchdogd.web.run_forecast import WEEK, coarse, headline, how_far, lost
from watchdogd.web.timeline import Span, drawn

DAY, HOUR = 86400.0, 3600.0


def told(**more: Any) -> dict[str, Any]:
    return {"stalled": False, "done": 500.0, "total": 1000.0, "unit": "batch", **more}


def test_it_is_ready_by_the_pace_of_the_last_day_and_between_those_of_late() -> None:
    quick = [(at * HOUR, 10.0 * at) for at in range(49)]
    slow = [*quick, *((48 * HOUR + at * HOUR, 480.0 + 5 * at) for at in range(1, 5))]
    far = how_far([told(said="loss 2"), {"stalled": False}], slow, moves=True)
    assert (far.share, far.said, far.units) == (0.5, "loss 2", "batches")
    assert far.eta
    assert far.eta.soonest <= far.eta.left < far.eta.latest
    assert far.eta.latest == 500 * HOUR / 5
    assert far.eta.spread == "2d7h to 4d4h"


@pytest.mark.parametrize(
    ("progress", "points", "moves"),
    [
        ([], (), True),
        ([told()], (), True),
        ([told(pace=2.0)], (), False),
        ([told(total=None, pace=2.0)], (), True),
        ([told()], ((0.0, 500.0), (HOUR, 500.0)), True),
        ([told()], ((0.0, 500.0), (HOUR, 400.0)), True),
        ([told(total=1e300, pace=1e10)], (), True),
        ([told(total=500.0, pace=2.0)], (), True),
        ([told(total=-4.0, pace=2.0)], (), True),
        ([told(total=0.0, pace=0.0)], (), True),
    ],
)
def test_where_nobody_can_say_there_is_no_forecast(
    progress: list[dict[str, Any]], points: tuple[tuple[float, float], ...], moves: bool
) -> None:
    assert how_far(progress, points, moves=moves).eta is None


def test_what_was_lost_is_of_the_last_week() -> None:
    spans = (Span(0, 2 * DAY, "hung"), Span(2 * DAY, 8 * DAY, "running"), Span(8 * DAY, 9 * DAY, "gone"))
    assert lost(spans, 2 * DAY + WEEK - 2 * DAY) == 2 * DAY
    assert lost(spans, 9 * DAY) == DAY


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ("", "No run is watched"),
        ("running", "The run trains"),
        ("hung", "The run is stalled"),
        ("running running", "All 2 runs train"),
        ("running running hung gone", "2 of 4 runs train, 1 stalled, 1 gone"),
        ("running diverged failing", "1 of 3 runs trains, 1 failing, 1 diverged"),
        ("doubtful waiting", "None of 2 runs train, 1 uncertain, 1 waiting"),
        ("? none absent running", "1 of 4 runs trains, 2 not running, 1 unknown"),
    ],
)
def test_the_page_begins_with_how_many_train(states: str, said: str) -> None:
    assert headline(states.split()) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0s"), (59, "59s"), (61, "1m"), (3660, "1h1m"), (2 * DAY + 3700, "2d1h"), (79.6 * DAY, "80d")],
)
def test_durations_are_as_exact_as_anybody_needs(seconds: float, said: str) -> None:
    assert coarse(seconds) == said


SHORT = [Span(at, at + 1, "waiting" if at % 3 else "running") for at in range(30)]


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([Span(0, 0.1, "unwatched"), Span(0.1, 100, "running")], [Span(0, 100, "running")]),
        (
            [Span(0, 60, "running"), Span(60, 60, "unwatched"), Span(60, 100, "running")],
            [Span(0, 100, "running")],
        ),
        (
            [Span(0, 60, "running"), Span(60, 61, "hung"), Span(61, 100, "running")],
            [Span(0, 60, "running"), Span(60, 61, "hung"), Span(61, 100, "running")],
        ),
        (SHORT, [Span(0, 30, "waiting")]),
        ([*SHORT, Span(30, 31, "gone")], [Span(0, 31, "gone")]),
        ([Span(0, 1, "running"), Span(1, 2, "absent")], [Span(0, 2, "running")]),
        ([], []),
    ],
)
def test_of_what_is_too_short_to_be_seen_faults_are_kept_and_nothing_long_is_hidden(
    spans: list[Span], expected: list[Span]
) -> None:
    assert [*drawn(spans, 10.0)] == expected


def test_how_far_it_is_goes_through_status_json_as_numbers() -> None:
    for progress in (Progress(True, 60.0, 5.0, "", 0.0, 9.0, "step", 0.5, "step 0"), Progress()):
        seen = Observation("r/log", "r", "r", Result(Status.OK, "x", progress=progress), 99.0)
        assert progress_of(observation_json(seen)) == progress


def test_an_unknown_drop_in_is_never_above_a_run_and_what_somebody_took_is_below() -> None:
    def incident(name: str, run: str, status: Status, by: str = "", at: float = 0.0) -> Incident:
        return Incident(1, name, run, name, "", status, at, "", acknowledged_by=by)

    ordered = [
        incident("a", "run", Status.CRITICAL, at=5),
        incident("b", "", Status.CRITICAL),
        incident("c", "run", Status.CRITICAL, by="bob"),
        incident("d", "run", Status.WARNING, at=3),
        incident("e", "", Status.WARNING, at=2),
        incident("f", "", Status.UNKNOWN, at=1),
    ]
    shuffled = [*ordered[3:], *ordered[:3]]
    assert sorted(shuffled, key=lambda each: each.weight) == ordered


def test_a_message_to_several_channels_is_one_row() -> None:
    def sent(key: str, at: float) -> Notification:
        message = Message(f"[INFO] {key}", "", "INFO", "r", "t", at)
        return Notification(key, key.rpartition("@")[2], message, at)

    rows = message_rows([sent("1@slack", 1.0), sent("2@mail", 2.0), sent("1@mail", 1.0)])
    assert [[each.channel for each in row.sent] for row in rows] == [["mail"], ["slack", "mail"]]
