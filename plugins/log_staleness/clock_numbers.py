"""Numbers that lines repeat, and which of them are clocks of the run.

A number is a *clock* where it rises, and comes again and again: a step, a batch within an epoch, a time that
is simulated. What goes up and down is a *measure* (a loss, a temperature). What goes as the wall's clock does
is neither: it goes on whatever the run does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from watchdogd.plugins.log_staleness.stall_limit import SEVERAL

SET = 300.0
"""Seconds by which a clock of the wall is set: summer time, another node's."""
SET_AMID = 1500.0
"""The same within one look, whose lines are of unknown times."""
SHOWS = 240.0
"""Seconds of its life by which it shows whether a number is such a clock; until then it may be one."""
LOOK = 75.0
"""Seconds of a look, by which its first line is older than it is taken for."""
REGULAR, ALIKE, ROUND = 0.02, 8, 0.03
"""Share by which the pace of what waits varies at most, in so many of them: it sleeps; what works does not.

And by how much longer it takes than the whole seconds that it sleeps.
"""
DOWN = 6
"""Times that a number must have fallen, and never stood between, to count down."""
STEADY = 10
"""Times that a count rises for each time that it falls, and is taken up again from there."""
NEAR = 0.15
"""Share of a cycle in which the next one begins."""
RISES = 3
"""Times that a number must have risen to count as a clock."""
SAME, MEMBERS = 4, 64
"""Cycles of the same numbers, so many at most, after which these are names: of GPUs, ranks, trials."""


@dataclass(slots=True)
class Number:
    """Number of a template, over all its lines.

    `first` and `high`: of the present cycle; `rises`: times that it passed `high`; `resets`: times that it
    began anew; `dips`: times that it lay below and did not; `base`: the last value of the look at `began`;
    `mean`: of its last paces, `alike`: how many were near it, less ALIKE for each that was not; `wall`:
    whether it goes as time does; `top`: how far it had come when it was last taken up from before;
    `time`: whether it is written as a time, such as the one in front of a line; `peak`, `turned`: its high
    and its rises when it last began anew; `same`: cycles that were the one before, less SAME for each that
    was not.
    """

    first: float
    high: float
    last: float
    rises: int = 0
    resets: int = 0
    dips: int = 0
    whole: bool = True
    began: float = 0.0
    rose: float = 0.0
    paces: int = 0
    mean: float = 0.0
    alike: int = 0
    base: float = 0.0
    wall: bool = False
    top: float = -1e300
    peak: float = -1e300
    turned: int = 0
    same: int = 0
    time: bool = False

    def clock(self, least: int = RISES) -> bool:
        """Return True if it is a clock of the run.

        It rose `least` times, falls back only to begin anew, and is no clock of the wall; or it counts down.
        """
        if self.falling:
            return True
        if self.rises < least or self.resets * 3 > self.rises:
            return False
        if self.wall or ((self.time or least == RISES) and self._young_wall):
            return False
        return self.dips == 0 or (self.whole and self.dips <= 2 * self.rises)

    @property
    def names(self) -> bool:
        """True if it is no time, and goes over the same few numbers again and again, each time in a look."""
        return self.same >= SAME and not self.time

    def _note_cycle(self, value: float) -> None:
        """Note whether the cycle that ends now, as `value` begins the next one, was as the one before."""
        rises = self.rises - self.turned
        soon = self.rose - self.began <= LOOK and rises < MEMBERS
        alike = soon and value == self.first and self.high == self.peak
        self.same = min(self.same + 1, 2 * SAME) if alike else max(self.same - SAME, 0)
        self.peak, self.turned = self.high, self.rises

    def _goes_as_time(self, off: float) -> bool:
        pace = (self.high - self.base) / (self.rose - self.began)
        return abs(pace - 1.0) < off or abs(pace * 0.001 - 1.0) < off

    @property
    def _young_wall(self) -> bool:
        """True if it may go as time does, and had no time yet to show that it does not."""
        took = self.rose - self.began
        if self.time and took < SHOWS:
            return True
        return 0.0 < took < 2 * SHOWS and not self.resets and self._goes_as_time(LOOK / took)

    def _note_wall(self) -> None:
        """Note whether it goes as time does, in seconds or milliseconds, by all looks until now."""
        took = self.rose - self.began
        if took >= SHOWS:
            self.wall = self._goes_as_time(max(0.03, LOOK / took) if self.time else 0.03)

    def _note_set(self, value: float, before: float, at: float) -> bool:
        """Return True if this clock of the wall was set: it goes on as one, from its new time."""
        took = at - self.rose
        unit = 1000.0 if self.high - self.base >= 30.0 * (self.rose - self.began) else 1.0
        jump = (value - before) / unit - took
        if -SET < jump < (SET if took else SET_AMID):
            return False
        self.first = self.high = self.base = value
        self.began = self.rose = at
        return True

    def follows(self, before: Number) -> bool:
        """Return True if it began where another one was, by no more than a few of that one's steps."""
        if self.resets or before.resets or before.rises < ALIKE:
            return False
        step = (before.high - before.first) / before.rises
        return 0.0 < self.first - before.high <= SEVERAL * step

    @property
    def regular(self) -> bool:
        """True if it counts one by one at a pace that never changes, as what only waits does."""
        if not self.whole or self.high - self.first > 1.5 * max(self.rises, 1):
            return False
        each = 1.0 / abs(self.mean) if self.mean else 0.0
        return self.alike >= ALIKE and is_slept(each)

    @property
    def falling(self) -> bool:
        """True if it counts down, and goes up to begin anew alone: what is left to do, and no time."""
        if self.resets < DOWN or self.dips or not self.whole or self.rises * 3 > self.resets:
            return False
        return abs(self.mean + 1.0) >= 0.03

    @property
    def turns(self) -> int:
        """Number of times that it went on, up or down."""
        return self.rises + self.resets

    @property
    def rising(self) -> bool:
        """True if it has never fallen, and does not go as time does."""
        return not (self.dips or self.resets or self.wall)

    @property
    def constant(self) -> bool:
        """True if it has always been the same."""
        return not (self.rises or self.resets or self.dips)

    def take(self, values: Sequence[float], at: float) -> tuple[bool, bool, bool]:
        """Take in the next values, seen at `at`, and return whether it changed, went on, and rose.

        It changed where any differed from the one before in more than whole numbers; it went on where one
        that is a clock for sure did, and rose where any was higher than ever in its cycle.
        """
        changed = rose = risen = False
        last, then, resets = self.last, self.rose, self.resets
        for value in values:
            before = self.last
            if value == before:
                continue
            self.last = value
            if self.whole:
                self.whole = value == int(value)
            else:
                changed = True
            if value > self.high:
                risen = self._rise(value, before, at) or risen
            elif value < self.high:
                rose = self._fall(value, before, at) or rose
        if self.rose > then > 0.0 and self.resets == resets:
            self._note_pace((self.last - last) / (self.rose - then))
        return changed, rose, risen

    def _rise(self, value: float, before: float, at: float) -> bool:
        if self.rises * 3 <= self.resets and self.falling:  # it counts down from above again
            self.first = self.high = self.base = value
            self.began = self.rose = at
            self.rises += 1
            return True
        if at > self.rose > 0.0:
            self._note_wall()
        if self.wall and value - before > SET and self._note_set(value, before, at):
            return False
        if at == self.began:
            self.base = value
        self.high = value
        self.rises += 1
        self.rose = at
        return True

    def _fall(self, value: float, before: float, at: float) -> bool:
        near = (NEAR if self.whole else 0.1) * (self.high - self.first)
        if self.wall and abs(value - self.first) > near and self._note_set(value, before, at):
            return False
        if value <= self.first + near:
            return self._begin_anew(value, before, at)
        if self._resumes:
            self.top, first = self.high, self.first
            self._begin_anew(value, before, at)
            self.first = first
            return True
        self.dips += 1
        return False

    def _begin_anew(self, value: float, before: float, at: float) -> bool:
        """Begin the next cycle; True where each value begins one, since it counts down."""
        if at > self.rose and self.rises * 3 <= self.resets:
            self._note_pace((value - before) / (at - self.rose))
        self._note_cycle(value)
        self.first = self.high = self.base = value
        self.began = self.rose = at
        self.resets, self.wall = self.resets + 1, False
        return self.falling

    @property
    def _resumes(self) -> bool:
        """True if a count that always rose falls now since it is taken up again from its last checkpoint.

        Not where it came no farther than when that was last so.
        """
        steady = (self.dips + self.resets + 1) * STEADY <= self.rises
        return steady and self.whole and self.high > self.top

    def _note_pace(self, pace: float) -> None:
        self.paces += 1
        self.mean += (pace - self.mean) / min(self.paces, ALIKE)
        near = abs(pace - self.mean) < REGULAR * abs(self.mean)
        self.alike = min(max(self.alike + (1 if near else -ALIKE), 0), 2 * ALIKE)


def is_slept(seconds: float) -> bool:
    """Return True for a time that people let a program sleep for, and a little more."""
    for unit, most in ((1.0, 10.0), (5.0, 60.0), (10.0, 300.0), (30.0, math.inf)):
        slept = max(round(seconds * (1 - ROUND / 2) / unit), 1) * unit
        if slept <= most:
            return -0.005 * slept < seconds - slept < ROUND * slept
    return False
