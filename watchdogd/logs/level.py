"""Whether a series that should fall or stay (loss, time of an iteration) has risen and stays risen.

What counts is how far its level stands above its lowest one and for how long, in units of what this run's own
values scatter: losses of small batches lie anywhere between half and twice. What the level did by chance, and
came back from, it may do again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

WINDOW = 24
"""Values whose median is the present level: half as many can go astray without moving it."""
RESUMED = 10
"""Values of a new job that are enough to compare them with the level before it."""
_EVERY = 4
"""Values after which the level is worked out anew."""
_SHARE = 0.05
_SCATTER, _DRIFT = 2.0, 3.0
"""Times the scatter of values, and of levels, by which the lowest of many levels may lie below the usual."""
_WINDOWS = 8
"""Windows over which both are taken."""
_LEAST, _MOST, _PART = 72.0, 400.0, 6
"""For so many values, by a sixth of all, a level must stand above chance; the higher, the shorter."""
_HIGHEST = 6.0
"""Times what may be chance that count of a higher level, so that some wild values are no rise."""
_AGAIN, _PATIENT = 2.0, 4.0
"""Times what came back before, and no more than four times the usual."""
_AGE = 5000
"""Values after which the lowest level is forgotten: what has lasted so long is how it is."""
_WILD = 0.75
"""Scatter, as a share of the level, beyond which there is no level that values could leave."""
_DEVIATION = 1.48
"""Standard deviations in the median distance from the median, where values scatter evenly."""
_BEND = 0.51
"""Standard deviations in the mean bend (second difference) of three of them."""


@dataclass(frozen=True, slots=True)
class Rise:
    """The present level is well above the lowest one."""

    level: float
    best: float


@dataclass(frozen=True, slots=True)
class Spread:
    """How values spread where nothing rises.

    `scatter`: how far they usually lie from their level; `marks`: levels of the last two windows, `drift`:
    how far such usually lie from a straight line. What is averaged scatters little, and drifts.
    """

    scatter: float = 0.0
    marks: tuple[float, ...] = ()
    drift: float = 0.0

    @property
    def chance(self) -> float:
        """How far above the lowest of many levels the usual one may lie."""
        return max(_SCATTER * self.scatter, _DRIFT * self.drift)


@dataclass(frozen=True, slots=True)
class Level:
    """What is remembered of a series that has risen where its level is above its lowest by `share` at least.

    `window`: the last values; `best`: the lowest level, None until there is one; `age`: values since then;
    `count`: values in all. `above`: how far and how long the level stands above the threshold by now, in
    what it may rise by chance times values; `chance`: the most of it that came back.
    """

    share: float = _SHARE
    window: tuple[float, ...] = ()
    best: float | None = None
    age: int = 0
    count: int = 0
    spread: Spread = Spread()
    above: float = 0.0
    chance: float = 0.0

    @property
    def threshold(self) -> float:
        """By how much a level must be above the lowest one."""
        return max(self.share * abs(self.best or 0.0), self.spread.chance)

    @property
    def scale(self) -> float:
        """What a rise is measured in: what may be chance, and never less than a share of the level."""
        return max(_SHARE * abs(self.best or 0.0), self.spread.chance)

    @property
    def enough(self) -> float:
        """How much of `above` is no chance any more."""
        usual = min(max(self.count / _PART, _LEAST), _MOST)
        return min(max(usual, _AGAIN * self.chance), _PATIENT * usual)


def take(known: Level, value: float) -> Level:
    """With one more value."""
    window, age, count = (*known.window[1 - WINDOW :], value), known.age + 1, known.count + 1
    best, above, chance, spread = known.best, known.above, known.chance, known.spread
    if len(window) < WINDOW:
        if best is not None and len(window) >= RESUMED:  # what lies between two jobs is no chance
            above = known.enough + WINDOW if _middle(window) - best > known.threshold else 0.0
    elif best is None:
        best, age, spread = _middle(window), 0, _widened(spread, window, whole=False)
    elif count % _EVERY == 0:
        level, threshold = _middle(window), known.threshold
        if not above and count % (WINDOW // 2) == 0:
            spread = _widened(spread, window, whole=count % WINDOW == 0)
        if age > _AGE:
            best, age, above = level, 0, 0.0
        elif level - best > threshold:
            above += _EVERY * min((level - best) / (known.scale or threshold or 1.0), _HIGHEST)
        else:
            above, chance = 0.0, max(chance, above)
            best, age = (level, 0) if level < best else (best, age)
    return Level(known.share, window, best, age, count, spread, above, chance)


def _widened(known: Spread, window: tuple[float, ...], *, whole: bool) -> Spread:
    """With one window more; `whole`: it has no value in common with the last such one."""
    level, marks, drift = _middle(window), known.marks, known.drift
    scatter = _usual(known.scatter, _DEVIATION * _middle([abs(value - level) for value in window]))
    if whole and len(marks) == 2:
        drift = _usual(drift, _BEND * abs(level - 2 * marks[1] + marks[0]))
    return Spread(scatter, (*marks[-1:], level) if whole else marks, drift)


def _usual(before: float, seen: float) -> float:
    """The usual size, with one more, which counts for twice the usual at most."""
    return before + (min(seen, 2 * before) - before) / _WINDOWS if before else seen


def _middle(values: tuple[float, ...] | list[float]) -> float:
    """The median; `statistics.median` takes four times as long, for the lines of a log."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def renew(known: Level) -> Level:
    """For a new job: its own level has to show first, the lowest one is kept for comparison."""
    return replace(known, window=(), above=0.0)


def rise(known: Level) -> Rise | None:
    """The rise, or None.

    A spike that comes back within half a window does not move the median; drops are no rise. Where the values
    lie about zero, or jump by nearly as much as they are, there is no level that they could leave.
    """
    if known.best is None or len(known.window) < RESUMED or known.above < known.enough:
        return None
    level = _middle(known.window)
    if level * known.best <= 0 or known.spread.scatter > _WILD * abs(known.best):
        return None
    return Rise(level, known.best)
