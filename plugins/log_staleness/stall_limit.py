"""Limit on a pause before a run counts as stalled, derived from its earlier pauses."""

from __future__ import annotations

from collections.abc import Iterable

Pauses = list[tuple[float, float]]
"""The longest pauses: when each ended, and its seconds."""
KEPT = 6
"""How many pauses of each kind are remembered, for `REMEMBERED` seconds."""
REMEMBERED = 3 * 86400.0
MOST = 7200.0
"""The limit exceeds this only if the run itself has paused for longer."""
MULTIPLE, FAMILIAR = 3.0, 2.0
"""A pause may be so many times as long as the longest known one; fewer times if there were several like
that."""
SEVERAL = 3
_LEAST = 1.5
"""The same for pauses beyond MOST."""


def patience(least: float, pauses: Iterable[tuple[float, float]], now: float, *, known: bool = True) -> float:
    """Return how many seconds a pause may last, given the earlier ones; never less than `least`.

    If the rhythm is `known`, the longest of several similar pauses is typical, and the next one will hardly
    be three times as long.
    """
    gaps = [gap for at, gap in pauses if now - at < REMEMBERED]
    most = max(gaps, default=0.0)
    several = known and sum(gap >= most / 2 for gap in gaps) >= SEVERAL
    return max(least, min((FAMILIAR if several else MULTIPLE) * most, MOST), _LEAST * most)


def longest_of(pauses: Iterable[tuple[float, float]], now: float) -> float:
    """Return the longest remembered pause, in seconds; 0 if there is none."""
    return max((gap for at, gap in pauses if now - at < REMEMBERED), default=0.0)


def longest(pauses: Pauses, at: float, gap: float) -> Pauses:
    """Add a pause, and return the longest pauses that are remembered."""
    if gap < 1.0:
        return pauses
    kept = [(when, each) for when, each in pauses if at - when < REMEMBERED]
    kept.append((at, round(gap, 1)))
    return sorted(kept, key=lambda each: -each[1])[:KEPT]


ONLY_WAITS = 1800.0
"""Seconds allowed if the log only says what a waiting program might say too."""
