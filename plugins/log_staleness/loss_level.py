"""Level of a series that should fall or stay (loss, time of an iteration), and whether it stays risen.

What counts is how far its level stands above its lowest one and for how long, in units of what this run's own
values scatter: losses of small batches lie anywhere between half and twice. What the level did by chance, and
came back from, it may do again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """Rise of the present level well above the lowest one."""

    level: float
    best: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of values where nothing rises.

    `scatter`: how far they usually lie from their level; `marks`: levels of the last two windows, `drift`:
    how far such usually lie from a straight line. What is averaged scatters little, and drifts.
    """

    scatter: float = 0.0
    marks: tuple[float, ...] = ()
    drift: float = 0.0

    @property
    def chance(self) -> float:
        """Height above the lowest of many levels at which the usual one may lie."""
        return max(_SCATTER * self.scatter, _DRIFT * self.drift)


@dataclass(slots=True)
class Level:
    """Memory of a series that has risen where its level is above its lowest by `share` at least.

    `window`: the last values; `best`: the lowest level, None until there is one; `age`: values since then;
    `count`: values in all. `above`: how far and how long the level stands above the threshold by now, in what
    it may rise by chance times values; `chance`: the most of it that came back.
    """

    share: float = _SHARE
    window: list[float] = field(default_factory=list)
    best: float | None = None
    age: int = 0
    count: int = 0
    spread: Spread = Spread()
    above: float = 0.0
    chance: float = 0.0

    @property
    def threshold(self) -> float:
        """Amount by which a level must be above the lowest one."""
        return max(self.share * abs(self.best or 0.0), self.spread.chance)

    @property
    def scale(self) -> float:
        """Unit in which a rise is measured: what may be chance, and never less than a share of the level."""
        return max(_SHARE * abs(self.best or 0.0), self.spread.chance)

    @property
    def enough(self) -> float:
        """Amount of `above` that is no chance any more."""
        usual = min(max(self.count / _PART, _LEAST), _MOST)
        return min(max(usual, _AGAIN * self.chance), _PATIENT * usual)

    def take(self, value: float) -> None:
        """Take in one value more."""
        self.window.append(value)
        if len(self.window) > WINDOW:
            del self.window[0]
        elif self.best is not None and RESUMED <= len(self.window) < WINDOW:
            risen = _middle(self.window) - self.best > self.threshold
            self.above = self.enough + WINDOW if risen else 0.0  # what lies between two jobs is no chance
        self.age += 1
        self.count += 1
        if len(self.window) < WINDOW:
            return
        if self.best is None:
            self.best, self.age = _middle(self.window), 0
            self.spread = _widened(self.spread, self.window, whole=False)
        elif self.count % _EVERY == 0:
            self._weigh(_middle(self.window), self.best)

    def _weigh(self, level: float, best: float) -> None:
        threshold, scale = self.threshold, self.scale
        if not self.above and self.count % (WINDOW // 2) == 0:
            self.spread = _widened(self.spread, self.window, whole=self.count % WINDOW == 0)
        if self.age > _AGE:
            self.best, self.age, self.above = level, 0, 0.0
        elif level - best > threshold:
            self.above += _EVERY * min((level - best) / (scale or threshold or 1.0), _HIGHEST)
        else:
            self.chance, self.above = max(self.chance, self.above), 0.0
            if level < best:
                self.best, self.age = level, 0

    def renew(self) -> None:
        """Begin a new job: its own level has to show first, the lowest one is kept for comparison."""
        self.window, self.above = [], 0.0


def _widened(known: Spread, window: Sequence[float], *, whole: bool) -> Spread:
    """Add a window; `whole`: it has no value in common with the last such one."""
    level, marks, drift = _middle(window), known.marks, known.drift
    scatter = _usual(known.scatter, _DEVIATION * _middle([abs(value - level) for value in window]))
    if whole and len(marks) == 2:
        drift = _usual(drift, _BEND * abs(level - 2 * marks[1] + marks[0]))
    return Spread(scatter, (*marks[-1:], level) if whole else marks, drift)


def _usual(before: float, seen: float) -> float:
    """Return the usual size, with one more, which counts for twice the usual at most."""
    return before + (min(seen, 2 * before) - before) / _WINDOWS if before else seen


def _middle(values: Sequence[float]) -> float:
    """Return the median; `statistics.median` takes four times as long, for the lines of a log."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def rise(known: Level) -> Rise | None:
    """Return the rise, or None.

    A spike that comes back within half a window does not move the median; drops are no rise. Where the values
    lie about zero, or jump by nearly as much as they are, there is no level that they could leave.
    """
    if known.best is None or len(known.window) < RESUMED or known.above < known.enough:
        return None
    level = _middle(known.window)
    if level * known.best <= 0 or known.spread.scatter > _WILD * abs(known.best):
        return None
    return Rise(level, known.best)
