"""Whether a series that should fall or stay (loss, time of an iteration) has risen and stays risen."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass, replace

WINDOW = 24
"""Values whose median is the present level: half as many can go astray without moving it."""
_SHARE, _NOISE = 0.05, 2.0
_AGE = 5000
"""Values after which the lowest level is forgotten: what has lasted so long is how it is."""


@dataclass(frozen=True, slots=True)
class Level:
    """The last values (`window`), the lowest level so far (`best`), the usual step between values there
    (`noise`), and the count of values since then (`age`)."""

    window: tuple[float, ...] = ()
    best: float | None = None
    noise: float = 0.0
    age: int = 0


@dataclass(frozen=True, slots=True)
class Rise:
    """The present level is well above the lowest one."""

    level: float
    best: float


def take(before: Level, value: float) -> Level:
    """The level with one more value."""
    window = (*before.window[1 - WINDOW :], value)
    best, age = before.best, before.age
    if len(window) == WINDOW:
        level = _middle(window)
        if best is None or level < best or age > _AGE:
            steps = [abs(after - earlier) for earlier, after in itertools.pairwise(window)]
            return Level(window, level, statistics.median(steps))
    return Level(window, best, before.noise, age + 1)


def _middle(window: tuple[float, ...]) -> float:
    """The median of a whole window; `statistics.median` takes four times as long, for each line of a log."""
    ordered = sorted(window)
    return (ordered[WINDOW // 2 - 1] + ordered[WINDOW // 2]) / 2


def renew(before: Level) -> Level:
    """The level for a new job: its own has to show first, the lowest one is kept for comparison."""
    return replace(before, window=())


def rise(series: Level, share: float = _SHARE, *, least: int = WINDOW) -> Rise | None:
    """The rise, or None: by `share` of the best level at least, and by twice the usual step.

    `least` values have to be there: after `renew` fewer than a window may be enough.

    A spike that comes back within half a window does not move the median; drops are no rise. Where the values
    lie about zero, or jump by as much as they are, there is no level that they could leave.
    """
    window, best = series.window, series.best
    if best is None or len(window) < least:
        return None
    level = statistics.median(window)
    if level * best <= 0 or series.noise > 0.5 * abs(best):
        return None
    if level - best <= max(share * abs(best), _NOISE * series.noise):
        return None
    return Rise(level, best)
