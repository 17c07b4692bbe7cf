"""What a run did over time, as spans of one state each. Pure."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

Points = Sequence[tuple[float, float]]
Interval = tuple[float, float]

HOLDS = 2 * 3600.0
"""Seconds for which a reading stands when none follows: old readings are means of an hour."""


class Span(NamedTuple):
    """A time, in seconds since the epoch, in which a run was in one state."""

    begin: float
    end: float
    state: str


STATES = ("running", "waiting", "hung", "gone", "absent", "unwatched")
"""`absent`: no job of the run, and nobody complained; `gone`: the same, and an incident was open."""


class Link(NamedTuple):
    """A job of the chain, and when it was seen at work."""

    job_id: int
    begin: float
    end: float


def links(points: Points) -> tuple[Link, ...]:
    """The jobs of the chain, from (time, job id): the newest first.

    What is seen once alone is left out: old readings are means, and one in which two links meet is no job id.
    """
    stretches = [
        (value, [at for at, _ in group]) for value, group in itertools.groupby(points, lambda point: point[1])
    ]
    found = [Link(int(value), times[0], times[-1]) for value, times in stretches if len(times) > 1]
    return tuple(reversed(found))


def timeline(
    running: Points,
    waiting: Points,
    *,
    hung: Sequence[Interval] = (),
    gone: Sequence[Interval] = (),
    gaps: Sequence[Interval] = (),
    since: float,
    now: float,
) -> tuple[Span, ...]:
    """The spans from `since` to `now`, without holes.

    `running` and `waiting` are how many jobs there were, (time, number), oldest first. `hung` and `gone` are
    times of open incidents, `gaps` those in which nobody watched.
    """
    jobs = _states(running, waiting)
    edges = {since, now, *(at for at, _ in jobs), *(at + HOLDS for at, _ in jobs[-1:])}
    edges |= {edge for spans in (hung, gone, gaps) for span in spans for edge in span}
    edges |= {
        before + HOLDS for (before, _), (after, _) in itertools.pairwise(jobs) if after > before + HOLDS
    }
    times = sorted(edge for edge in edges if since <= edge <= now)
    spans = [
        Span(begin, end, _state(begin, jobs, hung, gone, gaps)) for begin, end in itertools.pairwise(times)
    ]
    return _merged(spans)


def _states(running: Points, waiting: Points) -> list[tuple[float, str]]:
    queued = dict(waiting)
    return [
        (at, "running" if number > 0 else "waiting" if queued.get(at, 0) > 0 else "absent")
        for at, number in running
    ]


def _state(
    at: float,
    jobs: Sequence[tuple[float, str]],
    hung: Sequence[Interval],
    gone: Sequence[Interval],
    gaps: Sequence[Interval],
) -> str:
    index = bisect_right(jobs, at, key=lambda job: job[0]) - 1
    if _within(at, gaps) or index < 0 or at - jobs[index][0] >= HOLDS:
        return "unwatched"
    if _within(at, gone):
        return "gone"
    return "hung" if jobs[index][1] == "running" and _within(at, hung) else jobs[index][1]


def _within(at: float, spans: Sequence[Interval]) -> bool:
    return any(begin <= at < end for begin, end in spans)


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    found: list[Span] = []
    for span in spans:
        if found and found[-1].state == span.state:
            found[-1] = Span(found[-1].begin, span.end, span.state)
        else:
            found.append(span)
    return tuple(found)


def totals(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds in each state, in the order of STATES; states that did not occur are left out."""
    sums = dict.fromkeys(STATES, 0.0)
    for span in spans:
        sums[span.state] += span.end - span.begin
    return {state: seconds for state, seconds in sums.items() if seconds > 0}
