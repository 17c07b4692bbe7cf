"""How long a run is usually silent between two signs of progress, and so when silence means a hang."""

from __future__ import annotations

import statistics
from typing import Any

AT_LEAST, AT_MOST = 300.0, 7200.0
UNKNOWN = 1800.0
"""The limit until the rhythm is known."""
NEEDED = 10
"""Intervals before the rhythm counts as known."""
YOUNG, YOUNG_AT_LEAST = 5400.0, 900.0
"""Seconds of a run's life in which its first hourly evaluation is still to come, and the least limit then."""
_RECENT, _LONG = 128, 8
_LONG_KEPT = 3 * 86400.0
_MULTIPLE, _LONG_MULTIPLE = 3.0, 1.5
_OUTLIER = 4.0

Rhythm = dict[str, Any]
"""`recent`: the last intervals in seconds; `long`: [time, interval] of those far above (an evaluation);
`lived`: seconds of all intervals."""


def learn(rhythm: Rhythm, interval: float, now: float) -> Rhythm:
    """The rhythm with one more interval. One far above the others is kept apart, and for days: an hourly
    evaluation would otherwise drown among thousands of iterations."""
    recent, long = list(rhythm.get("recent", ())), list(rhythm.get("long", ()))
    usual = statistics.median(recent) if len(recent) >= NEEDED else None
    if usual is not None and interval > max(_OUTLIER * usual, 60.0):
        long = [*long, [now, interval]][-_LONG:]
    else:
        recent = [*recent, round(interval, 3)][-_RECENT:]
    return {"recent": recent, "long": long, "lived": round(rhythm.get("lived", 0.0) + interval)}


def limit(rhythm: Rhythm, now: float) -> float | None:
    """Seconds of silence that mean a hang; None while it is not known.

    Three times the 95th percentile of the intervals, or one and a half times the longest pause of the last
    days, between 5 minutes (15 in the first hour and a half of a run) and 2 hours, but never less than one
    and a half times that percentile.
    """
    recent = rhythm.get("recent", ())
    if len(recent) < NEEDED:
        return None
    high: float = sorted(recent)[int(0.95 * (len(recent) - 1))]
    longest: float = max((gap for at, gap in rhythm.get("long", ()) if now - at < _LONG_KEPT), default=0.0)
    least = YOUNG_AT_LEAST if rhythm.get("lived", YOUNG) < YOUNG else AT_LEAST
    wanted = min(max(_MULTIPLE * high, _LONG_MULTIPLE * longest, least), AT_MOST)
    return max(wanted, _LONG_MULTIPLE * high)


def coarse_limit(rhythm: Rhythm) -> float | None:
    """Twice the longest interval, for numbers that grow seldom; None before the second one is known."""
    gaps = [*rhythm.get("recent", ()), *(gap for _, gap in rhythm.get("long", ()))]
    return 2 * max(gaps) if len(gaps) > 1 else None


def guess(rhythm: Rhythm) -> float:
    """The limit while it is not known: half an hour, and twice the longest interval seen so far."""
    return max(UNKNOWN, 2 * max(rhythm.get("recent", ()), default=0.0))
