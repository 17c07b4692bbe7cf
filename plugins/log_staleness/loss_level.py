"""Level of a series that should fall or stay (loss, seconds per iteration), and whether it has risen.

What counts is how far the level is above its lowest one, and for how long, relative to how much this run's
values scatter: losses of small batches may vary by a factor of two. A rise that happened by chance before,
and came back, may happen again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

WINDOW = 24
"""Number of values whose median is the present level; fewer than half of them may be wild without moving
it."""
RESUMED = 10
"""So many values of a new job are enough to compare it with the level before."""
_EVERY = 4
"""The level is computed again after so many values."""
_SHARE = 0.05
_SCATTER, _DRIFT = 2.0, 3.0
"""The lowest of many levels may be below the usual one by so many times the scatter (of values, of
levels)."""
_WINDOWS = 8
"""Number of windows for both."""
_LEAST, _MOST, _PART = 72.0, 400.0, 6
"""A level must be above chance for a sixth of all values, at least _LEAST and at most _MOST; a higher one for
less long."""
_HIGHEST = 6.0
"""A rise counts at most as so many times chance, so that a few wild values are no rise."""
_AGAIN, _PATIENT = 2.0, 4.0
"""A rise must be twice what came back before, but at most four times the usual."""
_AGE = 5000
"""The lowest level is forgotten after so many values: what lasts that long is normal."""
_WILD = 0.75
"""If values scatter by more than this share of the level, there is no level to leave."""
_DEVIATION = 1.48
"""Standard deviation divided by the median distance from the median, for a normal distribution."""
_BEND = 0.51
"""Standard deviations in the mean bend (second difference) of three of them."""


@dataclass(frozen=True, slots=True)
class Rise:
    """Rise of the present level well above the lowest one."""

    level: float
    best: float


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of values that do not rise.

    `scatter`: usual distance of a value from the level. `marks`: levels of the last two windows. `drift`:
    usual distance of such levels from a straight line: averages scatter little, but drift.
    """

    scatter: float = 0.0
    marks: tuple[float, ...] = ()
    drift: float = 0.0

    @property
    def chance(self) -> float:
        """How far the usual level may be above the lowest of many by chance."""
        return max(_SCATTER * self.scatter, _DRIFT * self.drift)


@dataclass(slots=True)
class Level:
    """State of a series; it has risen if its level is above its lowest one by `share` or more.

    `window`: the last values. `best`: the lowest level, None until there is one; `age`: values since then.
    `count`: all values. `above`: how far and how long the level is above the threshold now (in units of
        chance times values); `chance`: the largest such rise that came back.
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
        """How far a level must be above the lowest one."""
        return max(self.share * abs(self.best or 0.0), self.spread.chance)

    @property
    def scale(self) -> float:
        """Unit of a rise: what may be chance, at least a share of the level."""
        return max(_SHARE * abs(self.best or 0.0), self.spread.chance)

    @property
    def enough(self) -> float:
        """Value of `above` that is no chance any more."""
        usual = min(max(self.count / _PART, _LEAST), _MOST)
        return min(max(usual, _AGAIN * self.chance), _PATIENT * usual)

    def take(self, value: float) -> None:
        self.window.append(value)
        if len(self.window) > WINDOW:
            del self.window[0]
        elif self.best is not None and RESUMED <= len(self.window) < WINDOW:
            risen = _middle(self.window) - self.best > self.threshold
            self.above = self.enough + WINDOW if risen else 0.0  # a step between two jobs is no chance
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
        """Begin a new job: its own level must show first, the lowest one is kept for comparison."""
        self.window, self.above = [], 0.0


def _widened(known: Spread, window: Sequence[float], *, whole: bool) -> Spread:
    """Add a window; `whole`: it shares no value with the last such one."""
    level, marks, drift = _middle(window), known.marks, known.drift
    scatter = _usual(known.scatter, _DEVIATION * _middle([abs(value - level) for value in window]))
    if whole and len(marks) == 2:
        drift = _usual(drift, _BEND * abs(level - 2 * marks[1] + marks[0]))
    return Spread(scatter, (*marks[-1:], level) if whole else marks, drift)


def _usual(before: float, seen: float) -> float:
    """Return the usual size after one more, which counts for at most twice the usual."""
    return before + (min(seen, 2 * before) - before) / _WINDOWS if before else seen


def _middle(values: Sequence[float]) -> float:
    """Return the median, four times as fast as `statistics.median`."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def rise(known: Level) -> Rise | None:
    """Return the rise, or None.

    A spike that comes back within half a window does not move the median; drops are no rise. Values around
    zero, or that scatter by nearly their own size, have no level that they could leave.
    """
    if known.best is None or len(known.window) < RESUMED or known.above < known.enough:
        return None
    level = _middle(known.window)
    if level * known.best <= 0 or known.spread.scatter > _WILD * abs(known.best):
        return None
    return Rise(level, known.best)
