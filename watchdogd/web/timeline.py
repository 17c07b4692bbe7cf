"""Timeline of a run: spans of one state each. Pure."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from watchdogd.batch.run_models import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Value = TypeVar("Value")
Points = Sequence[tuple[float, float]]
Interval = tuple[float, float]

HOLDS = 2 * 3600.0
"""Seconds for which a reading is valid if none follows: old readings are means of an hour."""


class Span(NamedTuple):
    """A time (seconds since the epoch) that a run was in one state."""

    begin: float
    end: float
    state: str


STATES = ("running", "starting", "suspended", "ending", "waiting", "hung", "gone", "absent", "unwatched")
"""As in batch.run_models; `absent`: no job of the run, and no incident about that (`none` there)."""
_WORDS = {"none": "absent", "?": "unwatched"}
_MOSTLY = 0.5
"""Share without progress from which an old reading, a mean, counts as a stall."""


class Link(NamedTuple):
    """A job of the chain, and when it was seen working."""

    job_id: int
    begin: float
    end: float


def links(points: Points) -> tuple[Link, ...]:
    """Return the jobs of the chain, from (time, job id), newest first.

    A job id seen only once is left out: old readings are means, which are no job's id where two links meet.
    """
    stretches = [
        (value, [at for at, _ in group]) for value, group in itertools.groupby(points, lambda point: point[1])
    ]
    found = [Link(int(value), times[0], times[-1]) for value, times in stretches if len(times) > 1]
    return tuple(reversed(found))


def timeline(
    jobs: Mapping[str, Points],
    *,
    stalled: Sequence[Points] = (),
    unseen: Sequence[Interval] = (),
    gone: Sequence[Interval] = (),
    gaps: Sequence[Interval] = (),
    since: float,
    now: float,
) -> tuple[Span, ...]:
    """Return the spans from `since` to `now`, without gaps.

    `jobs`: how many there were by kind (`running`, `waiting`, those of IDLE), as (time, number), oldest
        first.
    `stalled`: 1 while a check reported no progress. `unseen`: times from the last progress until that was an
        incident. `gone`: times of open incidents about missing jobs.
    `gaps`: times when nobody watched.
    """
    seen = _counted(jobs)
    stalls = [_Course(points) for points in stalled]
    edges = {since, now, *seen.edges(), *(edge for course in stalls for edge in course.edges())}
    edges |= {edge for spans in (unseen, gone, gaps) for span in spans for edge in span}
    times = sorted(edge for edge in edges if since <= edge <= now)

    def state(at: float) -> str:
        counts = None if _within(at, gaps) else seen.at(at)
        if counts is None:
            return "unwatched"
        hangs = _within(at, unseen) or any((each.at(at) or 0.0) >= _MOSTLY for each in stalls)
        found = state_of(counts, stalled=hangs, wrong=_within(at, gone))
        return _WORDS.get(found, found)

    return _merged(Span(begin, end, state(begin)) for begin, end in itertools.pairwise(times))


class _Course(Generic[Value]):
    """Values over time, each valid until the next one, at most HOLDS seconds."""

    def __init__(self, points: Iterable[tuple[float, Value]]) -> None:
        self._points = list(points)
        self._times = [at for at, _ in self._points]

    def edges(self) -> Iterator[float]:
        """Yield the times at which it changes or ends."""
        for at, following in itertools.zip_longest(self._times, self._times[1:]):
            yield at
            if following is None or following > at + HOLDS:
                yield at + HOLDS

    def at(self, time: float) -> Value | None:
        """Return the value at a time, or None."""
        index = bisect_right(self._times, time) - 1
        if index < 0 or time - self._times[index] >= HOLDS:
            return None
        return self._points[index][1]


def _counted(jobs: Mapping[str, Points]) -> _Course[Mapping[str, float]]:
    """Return the jobs of each kind at each time at which running ones were counted."""
    others = {kind: dict(points) for kind, points in jobs.items()}
    return _Course(
        (at, {kind: counts.get(at, 0.0) for kind, counts in others.items()})
        for at, _ in jobs.get("running", ())
    )


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


def drawn(spans: Iterable[Span], least: float) -> tuple[Span, ...]:
    """Return the spans, with those shorter than `least` seconds merged so that each can be seen.

    A series of short spans gets its worst state if that is a fault, else the longest-lasting one. A span that
    is still too short, and no fault, joins the one before (at the beginning, the one after).
    """
    found: list[Span] = []
    for short, group in itertools.groupby(spans, key=lambda span: span.end - span.begin < least):
        some = list(group)
        found += [_together(some)] if short else some
    kept = [span for span in found if span.end - span.begin >= least or span.state in _FAULTS] or found[:1]
    edges = [*(span.begin for span in (*found[:1], *kept[1:])), *(span.end for span in found[-1:])]
    return _merged(
        Span(begin, end, span.state)
        for span, (begin, end) in zip(kept, itertools.pairwise(edges), strict=True)
    )


def _together(spans: Sequence[Span]) -> Span:
    sums = totals(spans)
    state = next((state for state in _FAULTS if state in sums), max(sums, key=sums.__getitem__, default=""))
    return Span(spans[0].begin, spans[-1].end, state or spans[0].state)


_FAULTS = ("gone", "hung")
"""States that are shown however short they were."""


def totals(spans: Iterable[Span]) -> dict[str, float]:
    """Return the seconds in each state, in the order of STATES, without states that did not occur."""
    sums = dict.fromkeys(STATES, 0.0)
    for span in spans:
        sums[span.state] += span.end - span.begin
    return {state: seconds for state, seconds in sums.items() if seconds > 0}
