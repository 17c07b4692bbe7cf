"""How fast something fills: a slope that neither a sawtooth nor a single jump can fool."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NEEDED = 5
"""Readings that differ, before anything is said (contract §8)."""
REACH = 24
"""How many times the observed span a forecast may look ahead: an hour of readings carries one day."""
_LAG = 3600.0
_RECENT = (6 * 3600.0, 86400.0, 3 * 86400.0)
"""Seconds: the last while that is judged by itself, where the level has left its former range."""
_LEFT = 0.25
"""By how much of the former range the level must exceed it, to have left it."""
_STEP = 0.6
"""Share of a rise that may come at once."""
_KEPT = 120
_STILL = 12 * 3600.0
"""Seconds without growth, after which a trend may be over."""
_PAUSE = 1.5
"""So many times the longest pause that it ever made, a trend has to stand still to be over."""
_MARKS = 50
"""Parts of the whole growth: what grows by less than one of them stands still."""

Point = tuple[float, float]


def filling_rate(points: Sequence[Point]) -> float | None:
    """Units per second by which the level grows (0 where it does not), or None where too little is known.

    `points` are (time, level), oldest first. What is written and cleaned up again does not count: the level
    is first replaced by the lowest that still comes, then the median of all pairwise slopes is taken
    (Theil-Sen). Repeats within the hour in which quota figures may lag are left out. What began to grow
    lately, beyond all levels of before, counts as fast as it grows since: a calm fortnight does not hide it.
    What grew and stands still for far longer than it ever paused, half a day at least, grows no more.
    """
    known = _without_repeats(points)
    if _too_few(known):
        return None
    envelope = _lower_envelope(known)
    if _stands_still(envelope, points[-1][0]):
        return 0.0
    later = (recent for span in _RECENT if (recent := _beyond(known, span)) and not _too_few(recent))
    rates = [_rate(envelope), *(_rate(_lower_envelope(recent)) for recent in later)]
    return max((rate for rate in rates if rate is not None), default=None)


def _rate(envelope: Sequence[Point]) -> float | None:
    kept = _thinned(envelope)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(kept, 2) if b[0] > a[0]]
    return max(statistics.median(slopes), 0.0) if slopes else None


def _too_few(known: Sequence[Point]) -> bool:
    return len({level for _, level in known}) < NEEDED


def _beyond(known: Sequence[Point], span: float) -> Sequence[Point]:
    """The points of the last `span` seconds, where the level rose clearly above all that it was before them.

    Not by one step: a single large file is no trend.
    """
    begin = known[-1][0] - span
    if known[0][0] >= begin:
        return ()
    before = [level for at, level in known if at < begin]
    recent = [point for point in known if point[0] >= begin]
    if known[-1][1] <= max(before) + _LEFT * (max(before) - min(before)):
        return ()
    largest = max((b[1] - a[1] for a, b in itertools.pairwise(recent)), default=0.0)
    return recent if largest <= _STEP * (recent[-1][1] - recent[0][1]) else ()


def _stands_still(envelope: Sequence[Point], now: float) -> bool:
    """Whether the growth is over, by the pauses between its marks (see _MARKS)."""
    begin, end = envelope[0][1], envelope[-1][1]
    marks, level = [envelope[0][0]], begin
    for at, height in envelope:
        if end > begin and height >= level + (end - begin) / _MARKS:
            marks.append(at)
            level = height
    pauses = [later - earlier for earlier, later in itertools.pairwise(marks)]
    return len(pauses) >= NEEDED and now - marks[-1] > max(_STILL, _PAUSE * max(pauses))


def time_to_full(free: float, rate: float | None, points: Sequence[Point]) -> float | None:
    """Seconds until `free` is used up, or None: not filling, or further off than `points` can carry."""
    if not rate:
        return None
    left = max(free, 0.0) / rate
    return left if left <= REACH * (points[-1][0] - points[0][0]) else None


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    known: list[Point] = []
    for at, level in points:
        if not known or level != known[-1][1] or at - known[-1][0] >= _LAG:
            known.append((at, level))
    return known


def _lower_envelope(points: Sequence[Point]) -> list[Point]:
    """Each level replaced by the lowest from then on."""
    lowest = float("inf")
    envelope = []
    for at, level in reversed(points):
        lowest = min(lowest, level)
        envelope.append((at, lowest))
    return envelope[::-1]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """At most `_KEPT` points, evenly taken, first and last among them."""
    step = max((len(points) - 1) / (_KEPT - 1), 1.0)
    return [points[round(index * step)] for index in range(int((len(points) - 1) / step) + 1)]
