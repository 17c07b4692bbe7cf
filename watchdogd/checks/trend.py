"""Rate at which something fills up: a slope that neither a sawtooth nor a single jump distorts."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

NEEDED = 5
"""Different readings that are needed for a rate."""
REACH = 24
"""How far a forecast may look ahead, as a multiple of the observed time: an hour of readings carries one
day."""
_LAG = 3600.0
_RECENT = (6 * 3600.0, 86400.0, 3 * 86400.0)
"""Recent periods (seconds) that are judged by themselves if the level has left its former range."""
_LEFT = 0.25
"""The level has left its former range once it exceeds it by this share of the range."""
_STEP = 0.6
"""Share of a rise that may happen in one step."""
_KEPT = 120
_STILL = 12 * 3600.0
"""Seconds without growth after which a trend may be over."""
_PAUSE = 1.5
"""A trend is over once it has paused this many times as long as ever before."""
_MARKS = 50
"""Growth by less than the total growth divided by this counts as standing still."""
_FALL = 0.1
"""Share of the whole range by which the level must fall to end a cycle."""
_FALLS = 0.5
"""A fall ends a cycle only if it is at least this share of the largest fall."""
_TAKEN, _LASTED = 0.2, 6 * 3600.0
"""A rise without any fall may be half of a first cycle. It counts once it has taken this share of the free
room, or has lasted this many seconds."""
_CYCLES = 4
"""How many cycles have their lows compared."""
_LATE_CYCLES = 8
_CONCORDANT = 0.8
"""The lows (and the tops) rise if their Kendall's tau is at least this."""
_SLOWING = 0.6
"""A rise slows down if its second half gains less than this share of its first half; then its end is
foreseen."""

Point = tuple[float, float]


def filling_rate(points: Sequence[Point], free: float | None = None) -> float | None:
    """Return the units per second by which the level grows; None if too little is known.

    It is 0 if the level does not grow. `points` are (time, level), oldest first; `free` is what is left now.

    What is written and cleaned up again does not count. If the level falls back now and then, the lows of
    several such cycles are compared; the last rise counts by itself if it has left their range or lasts much
    longer than they did. A rise without any fall counts once it is more than the beginning of a first cycle
    (see _TAKEN) and does not slow down so that it would end in time.

    The slope is the median of all pairwise slopes (Theil-Sen) of the lower envelope: each level is replaced
    by the lowest that follows. Repeated values within an hour are dropped, since quota figures may lag. If
    the level recently began to grow beyond all earlier levels, the rate since then counts, so that a calm
    fortnight does not hide it. A trend that has stood still far longer than ever before, for at least half a
    day, has ended.
    """
    known = _without_repeats(points)
    if _too_few(known):
        return None
    return _rate_of(known, points[-1][0], free)


def time_to_full(free: float, rate: float | None, points: Sequence[Point]) -> float | None:
    """Return the seconds until `free` is used up, or None.

    None if it does not fill, or if that is further away than `points` allow to forecast.
    """
    if not rate:
        return None
    left = max(free, 0.0) / rate
    return left if left <= REACH * (points[-1][0] - points[0][0]) else None


def _rate_of(known: Sequence[Point], now: float, free: float | None) -> float | None:
    swings = _swings(known)
    if not swings.lows:
        return _rising(known, now, free)
    rates = [_of_lows(swings, many, free) for many in (len(swings.lows), _LATE_CYCLES)]
    last = known[swings.lows[-1] :]
    if len(last) < len(known) and not _too_few(last) and _is_another(known, swings, now):
        rates.append(_rate_of(last, now, free))
    return max((rate for rate in rates if rate is not None), default=0.0)


# Cycles.


@dataclass(frozen=True, slots=True)
class _Swings:
    """Turning points of the level: indices of the lows after each fall, and of the tops before them."""

    known: Sequence[Point]
    lows: tuple[int, ...]
    tops: tuple[int, ...]


def _swings(known: Sequence[Point]) -> _Swings:
    """Find the turning points; a low is known once the level has risen from it, or is the last."""
    levels = [level for _, level in known]
    tops_before = itertools.accumulate(levels, max)
    largest = max(top - level for top, level in zip(tops_before, levels, strict=True))
    least = max(_FALL * (max(levels) - min(levels)), _FALLS * largest)
    lows: list[int] = []
    tops: list[int] = []
    top = low = 0
    falling = False
    for place, level in enumerate(levels):
        if falling:
            if level <= levels[low]:
                low = place
            elif level - levels[low] >= least:
                lows.append(low)
                top, falling = place, False
        elif level >= levels[top]:
            top = place
        elif levels[top] - level >= least:
            tops.append(top)
            low, falling = place, True
    if falling:
        lows.append(low)
    return _Swings(known, tuple(lows), tuple(tops))


def _of_lows(swings: _Swings, many: int, free: float | None) -> float | None:
    """Return the slope of the last `many` lows, if they and the tops rise by more than chance."""
    lows = [swings.known[place] for place in swings.lows[-many:]]
    tops = [swings.known[place] for place in swings.tops[-many:]]
    if len(lows) < _CYCLES or _tau(lows) < _CONCORDANT or _tau(tops) < _CONCORDANT:
        return None
    risen, lasted = lows[-1][1] - lows[0][1], swings.known[-1][0] - lows[0][0]
    if free is not None and not _is_much(risen, free + swings.known[-1][1] - lows[-1][1], lasted):
        return None
    fall = statistics.median(top[1] - low[1] for top, low in zip(tops, lows, strict=True))
    return _slope(lows) if risen >= _LEFT * fall else None


def _tau(points: Sequence[Point]) -> float:
    """Return Kendall's rank correlation with time: 1 if every level is above all earlier ones."""
    pairs = [b[1] - a[1] for a, b in itertools.combinations(_thinned(points), 2)]
    return sum((rise > 0) - (rise < 0) for rise in pairs) / len(pairs) if pairs else 0.0


def _is_another(known: Sequence[Point], swings: _Swings, now: float) -> bool:
    """Return True if the rise since the last low is more than just another cycle."""
    low = swings.lows[-1]
    falls = [known[top][1] - known[after][1] for top, after in zip(swings.tops, swings.lows, strict=True)]
    ends = [known[top][0] for top in swings.tops]
    former = max(level for _, level in known[: low + 1])
    if known[-1][1] > former + _LEFT * max(falls):
        return True
    longest = max((later - earlier for earlier, later in itertools.pairwise(ends)), default=0.0)
    return now - known[low][0] >= max(_LASTED, 2 * longest)


# A rise without a fall.


def _rising(known: Sequence[Point], now: float, free: float | None) -> float | None:
    envelope = _lower_envelope(known)
    if _stands_still(envelope, now):
        return 0.0
    later = (recent for span in _RECENT if (recent := _beyond(known, span)) and not _too_few(recent))
    rises = [envelope, *map(_lower_envelope, later)]
    rates = [_slope(rise) for rise in rises if free is None or _counts(rise, now, free)]
    return max((rate for rate in rates if rate is not None), default=None)


def _counts(envelope: Sequence[Point], now: float, free: float) -> bool:
    """Return True if a rise is more than the start of a first cycle and will not slow down in time."""
    bottom, level = envelope[0][1], envelope[-1][1]
    begin = next(at for at, height in reversed(envelope) if height <= bottom + _FALL * (level - bottom))
    if not _is_much(level - bottom, free, now - begin):
        return False
    middle = (begin + now) / 2
    half = next(height for at, height in reversed(envelope) if at <= middle)
    before, after = half - bottom, level - half
    if before <= 0 or after >= _SLOWING * before:
        return True
    ratio = after / before
    return after * ratio / (1 - ratio) >= free


def _is_much(risen: float, free: float, lasted: float) -> bool:
    """Return True if a rise is larger or longer than the beginning of a first cycle can be."""
    return risen >= _TAKEN * (free + risen) or lasted >= _LASTED


def _slope(points: Sequence[Point]) -> float | None:
    kept = _thinned(points)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(kept, 2) if b[0] > a[0]]
    return max(statistics.median(slopes), 0.0) if slopes else None


def _too_few(known: Sequence[Point]) -> bool:
    return len({level for _, level in known}) < NEEDED


def _beyond(known: Sequence[Point], span: float) -> Sequence[Point]:
    """Return the points of the last `span` seconds, if the level clearly rose above all earlier ones in them.

    A rise in a single step does not count: one large file is no trend.
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
    """Return True if the growth is over, judged by the pauses within it (see _MARKS)."""
    begin, end = envelope[0][1], envelope[-1][1]
    marks, level = [envelope[0][0]], begin
    for at, height in envelope:
        if end > begin and height >= level + (end - begin) / _MARKS:
            marks.append(at)
            level = height
    pauses = [later - earlier for earlier, later in itertools.pairwise(marks)]
    return len(pauses) >= NEEDED and now - marks[-1] > max(_STILL, _PAUSE * max(pauses))


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    known: list[Point] = []
    for at, level in points:
        if not known or level != known[-1][1] or at - known[-1][0] >= _LAG:
            known.append((at, level))
    return known


def _lower_envelope(points: Sequence[Point]) -> list[Point]:
    """Replace each level by the lowest from then on."""
    lowest = float("inf")
    envelope = []
    for at, level in reversed(points):
        lowest = min(lowest, level)
        envelope.append((at, lowest))
    return envelope[::-1]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Keep at most `_KEPT` points, evenly spaced, including the first and the last."""
    step = max((len(points) - 1) / (_KEPT - 1), 1.0)
    return [points[round(index * step)] for index in range(int((len(points) - 1) / step) + 1)]
