"""What a run did, from numbers of jobs, incidents and gaps."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.page.timeline import HOLDS, STATES, Link, Span, links, timeline, totals

MINUTE = 60.0


def points(*numbers: float, begin: float = 0.0) -> tuple[tuple[float, float], ...]:
    return tuple((begin + index * MINUTE, number) for index, number in enumerate(numbers))


def test_jobs_that_run_wait_and_are_not_there() -> None:
    spans = timeline(points(0, 0, 1, 1, 0), points(2, 2, 2, 2, 0), since=0.0, now=5 * MINUTE)
    assert spans == (
        Span(0, 2 * MINUTE, "waiting"),
        Span(2 * MINUTE, 4 * MINUTE, "running"),
        Span(4 * MINUTE, 5 * MINUTE, "absent"),
    )
    assert totals(spans) == {"running": 120, "waiting": 120, "absent": 60}


@pytest.mark.parametrize(
    ("incidents", "state"),
    [
        ({"hung": [(60.0, 120.0)]}, "hung"),
        ({"gone": [(60.0, 120.0)]}, "gone"),
        ({"gaps": [(60.0, 120.0)]}, "unwatched"),
        ({"gone": [(60.0, 120.0)], "gaps": [(60.0, 120.0)]}, "unwatched"),
        ({"hung": [(60.0, 120.0)], "gone": [(60.0, 120.0)]}, "gone"),
    ],
)
def test_incidents_and_gaps_cover_what_the_queue_said(
    incidents: dict[str, list[tuple[float, float]]], state: str
) -> None:
    spans = timeline(points(1, 1, 1), points(0, 0, 0), since=0.0, now=180.0, **incidents)
    assert spans == (Span(0, 60, "running"), Span(60, 120, state), Span(120, 180, "running"))


def test_a_run_that_only_waits_is_not_hung() -> None:
    spans = timeline(points(0, 0), points(1, 1), hung=[(0.0, 120.0)], since=0.0, now=120.0)
    assert spans == (Span(0, 120, "waiting"),)


def test_nothing_is_known_before_the_first_reading_nor_long_after_the_last() -> None:
    spans = timeline(((600.0, 1.0),), ((600.0, 0.0),), since=0.0, now=600 + 2 * HOLDS)
    assert [span.state for span in spans] == ["unwatched", "running", "unwatched"]
    assert spans[1] == Span(600, 600 + HOLDS, "running")


def test_readings_far_apart_leave_a_hole() -> None:
    spans = timeline(((0.0, 1.0), (5 * HOLDS, 1.0)), (), since=0.0, now=5 * HOLDS + 60)
    assert [span.state for span in spans] == ["running", "unwatched", "running"]


times = st.floats(0, 100_000)
intervals = st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), max_size=4)


@given(st.lists(st.tuples(times, st.integers(0, 2)), max_size=20), intervals, intervals, intervals)
def test_every_moment_has_one_state(
    jobs: list[tuple[float, int]],
    hung: list[tuple[float, float]],
    gone: list[tuple[float, float]],
    gaps: list[tuple[float, float]],
) -> None:
    running = tuple(sorted(jobs))
    spans = timeline(running, (), hung=hung, gone=gone, gaps=gaps, since=1000.0, now=90_000.0)
    assert spans[0].begin == 1000.0
    assert spans[-1].end == 90_000.0
    assert all(before.end == after.begin for before, after in itertools.pairwise(spans))
    assert all(before.state != after.state for before, after in itertools.pairwise(spans))
    assert {span.state for span in spans} <= set(STATES)


def test_the_links_of_the_chain_by_what_was_recorded() -> None:
    points = ((0.0, 30.0), (60.0, 30.0), (120.0, 30.5), (180.0, 31.0), (240.0, 31.0), (300.0, 34.0))
    assert links(points) == (Link(31, 180.0, 240.0), Link(30, 0.0, 60.0))
    assert links(()) == ()
