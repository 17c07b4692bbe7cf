"""What a run did, from numbers of jobs, incidents and gaps."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import checks
from watchdogd.daemon.status_file import observation_json
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import AlertPolicy, AlertState, CheckState, Incident, Observation
from watchdogd.plugin import Metric, Progress, Result, Status
from watchdogd.web.content import gather
from watchdogd.web.digest_text import digest
from watchdogd.web.timeline import HOLDS, STATES, Link, Span, links, timeline, totals

MINUTE = 60.0


def points(*numbers: float, begin: float = 0.0) -> tuple[tuple[float, float], ...]:
    return tuple((begin + index * MINUTE, number) for index, number in enumerate(numbers))


def test_jobs_that_run_wait_and_are_not_there() -> None:
    jobs = {"running": points(0, 0, 1, 1, 0), "waiting": points(2, 2, 2, 2, 0)}
    spans = timeline(jobs, since=0.0, now=5 * MINUTE)
    assert spans == (
        Span(0, 2 * MINUTE, "waiting"),
        Span(2 * MINUTE, 4 * MINUTE, "running"),
        Span(4 * MINUTE, 5 * MINUTE, "absent"),
    )
    assert totals(spans) == {"running": 120, "waiting": 120, "absent": 60}


STALL = ((0.0, 0.0), (60.0, 1.0), (120.0, 0.0))
"""Without progress from 60 to 120 s."""


@pytest.mark.parametrize(
    ("jobs", "more", "state"),
    [
        ({"running": 1}, {"stalled": [STALL]}, "hung"),
        ({"running": 2, "suspended": 2}, {}, "suspended"),
        ({"running": 2, "suspended": 2}, {"stalled": [STALL]}, "hung"),  # a process that somebody stopped
        ({"running": 2, "suspended": 1}, {"stalled": [STALL]}, "hung"),
        ({"running": 1}, {"unseen": [(60.0, 120.0)]}, "hung"),
        ({"running": 1, "suspended": 1}, {"unseen": [(60.0, 120.0)]}, "hung"),
        ({"running": 1, "starting": 1}, {}, "starting"),
        ({"running": 1, "ending": 1}, {}, "ending"),
        ({"waiting": 1}, {"stalled": [STALL]}, "waiting"),
        ({}, {"gone": [(60.0, 120.0)]}, "gone"),
        ({}, {}, "absent"),
        ({"running": 1}, {"gone": [(60.0, 120.0)]}, "running"),
        ({"waiting": 3}, {"gone": [(60.0, 120.0)]}, "waiting"),
        ({"running": 1}, {"gaps": [(60.0, 120.0)]}, "unwatched"),
        ({}, {"gone": [(60.0, 120.0)], "gaps": [(60.0, 120.0)]}, "unwatched"),
        ({"running": 1}, {"stalled": [((0.0, 0.0),), STALL]}, "hung"),
        ({"running": 1}, {"stalled": [((60.0, 0.3), (120.0, 0.0))]}, "running"),
    ],
)
def test_what_covers_what(jobs: dict[str, int], more: dict[str, Any], state: str) -> None:
    counts = {"running": 0, **jobs}
    series = {kind: points(1, count, 1) for kind, count in counts.items() if kind == "running"}
    series |= {kind: ((60.0, float(count)),) for kind, count in counts.items() if kind != "running"}
    spans = timeline(series, since=0.0, now=180.0, **more)
    assert next(span.state for span in spans if span.begin <= 60.0 < span.end) == state
    assert spans[0].state == spans[-1].state == "running"


def test_only_what_speaks_of_its_progress_makes_a_run_hang(tmp_path: Path) -> None:
    """A GPU's memory is full, an incident of its own; then a check of the user's own sees no progress."""
    home = Home(tmp_path / "home")
    home.make()
    begin, run = 1_796_000_000.0, "run-17"

    def seen(check: str, result: Result, at: float) -> Observation:
        return Observation(f"{run}/{check}", run, run, result, at)

    full = Result(Status.CRITICAL, "memory 98 % full", subject="n1/gpu0")
    incident = Incident(1, f"{run}/gpu_health", run, run, "n1/gpu0", Status.CRITICAL, begin, "98 % full")
    standing = CheckState(
        incident.check, "n1/gpu0", Status.CRITICAL, "98 % full", begin, begin, 3, incident=incident
    )
    with closing(Store.open("sqlite:///history.db", home)) as store:
        for minute in range(4):
            at = begin + minute * MINUTE
            jobs = Result(Status.OK, "runs", {"running": Metric(1.0)})
            steps = Result(Status.OK, "steps", progress=Progress(at=at, within=60.0))
            own = Result(Status.CRITICAL, "no file came", progress=Progress(stalled=minute == 2))
            results = (("job_liveness", jobs), ("log_staleness", steps), ("gpu_health", full), ("files", own))
            observations = tuple(seen(check, result, at) for check, result in results)
            store.record(Record(at, observations, AlertState({(incident.check, "n1/gpu0"): standing})))
        picture = gather(home, store, {"checks": []}, "w", since=begin, now=begin + 4 * MINUTE)
    [row] = picture.runs
    assert [(span.begin - begin, span.state) for span in row.spans] == [
        (0.0, "running"),
        (120.0, "hung"),
        (180.0, "running"),
    ]
    assert not [chart for chart in picture.charts if "stalled" in chart.title]


def test_a_cancelled_run_is_gone_in_its_history_as_in_its_badge(tmp_path: Path) -> None:
    ended = checks.end(state="CANCELLED", exit_code=0, cancelled_by="alice", ended_at=checks.START + 30)
    seen = checks.liveness({"jobs": (checks.job(),)}, {"endings": (ended,)})[""]
    assert (seen.result.status, seen.result.run_state) == (Status.WARNING, "gone")
    told = [replace(seen, at=seen.at + at) for at in (0, MINUTE, 2 * MINUTE)]
    book, _ = evaluate(AlertState(), told[:1], {seen.check: AlertPolicy(confirm=1)}, seen.at)
    home = Home(tmp_path / "home")
    home.make()
    with closing(Store.open("sqlite:///history.db", home)) as store:
        store.record(Record(seen.at, tuple(told), alerts=book))
        status = {"checks": [observation_json(told[-1])]}
        picture = gather(home, store, status, "w", since=seen.at, now=told[-1].at)
    assert picture.runs[0].state == "gone"
    assert picture.runs[0].totals == {"gone": 2 * MINUTE}


def test_a_stall_has_lost_the_time_since_the_last_progress(tmp_path: Path) -> None:
    """A process is stopped for ten minutes, found after five: as long as its incident says."""
    begin, run = 1_796_000_000.0, "run-17"
    home = Home(tmp_path / "home")
    home.make()
    log, alive = f"{run}/log_staleness", f"{run}/job_liveness"
    book, policies = AlertState(), {log: AlertPolicy(confirm=1), alive: AlertPolicy(confirm=1)}
    counted = {"running": Metric(1.0), "suspended": Metric(1.0)}
    with closing(Store.open("sqlite:///history.db", home)) as store:
        for minute in range(12):
            at, stalled = begin + minute * MINUTE, 5 <= minute < 10
            result = Result(Status.OK, "steps", progress=Progress(at=at))
            if stalled:
                result = Result(Status.CRITICAL, "stalled", progress=Progress(stalled=True)).dated(begin)
            seen = (
                Observation(alive, run, run, Result(Status.OK, "suspended", counted), at),
                Observation(log, run, run, result, at),
            )
            book, events = evaluate(book, seen, policies, at)
            store.record(Record(at, seen, book, events))
        picture = gather(home, store, {"checks": []}, "w", since=begin, now=begin + 12 * MINUTE)
    [row] = picture.runs
    assert row.totals == {"hung": 10 * MINUTE, "suspended": 2 * MINUTE}
    assert row.lost == 10 * MINUTE
    assert "lost 10m: stalled 10m\n- 10m: stalled" in digest(picture).body


def test_nothing_is_known_before_the_first_reading_nor_long_after_the_last() -> None:
    spans = timeline({"running": ((600.0, 1.0),), "waiting": ((600.0, 0.0),)}, since=0.0, now=600 + 2 * HOLDS)
    assert [span.state for span in spans] == ["unwatched", "running", "unwatched"]
    assert spans[1] == Span(600, 600 + HOLDS, "running")


def test_readings_far_apart_leave_a_hole() -> None:
    spans = timeline({"running": ((0.0, 1.0), (5 * HOLDS, 1.0))}, since=0.0, now=5 * HOLDS + 60)
    assert [span.state for span in spans] == ["running", "unwatched", "running"]


times = st.floats(0, 100_000)
intervals = st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), max_size=4)


@given(
    st.lists(st.tuples(times, st.integers(0, 2)), max_size=20),
    st.lists(st.tuples(times, st.integers(0, 1)), max_size=20),
    intervals,
    intervals,
)
def test_every_moment_has_one_state(
    jobs: list[tuple[float, int]],
    stalls: list[tuple[float, int]],
    gone: list[tuple[float, float]],
    gaps: list[tuple[float, float]],
) -> None:
    spans = timeline(
        {"running": sorted(jobs)}, stalled=[sorted(stalls)], gone=gone, gaps=gaps, since=1000.0, now=90_000.0
    )
    assert spans[0].begin == 1000.0
    assert spans[-1].end == 90_000.0
    assert all(before.end == after.begin for before, after in itertools.pairwise(spans))
    assert all(before.state != after.state for before, after in itertools.pairwise(spans))
    assert {span.state for span in spans} <= set(STATES)


def test_the_links_of_the_chain_by_what_was_recorded() -> None:
    points = ((0.0, 30.0), (60.0, 30.0), (120.0, 30.5), (180.0, 31.0), (240.0, 31.0), (300.0, 34.0))
    assert links(points) == (Link(31, 180.0, 240.0), Link(30, 0.0, 60.0))
    assert links(()) == ()
