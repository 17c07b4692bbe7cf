"""Numbers that occur again and again in lines, and which of them are clocks of the run.

A *clock* is a number that rises again and again: a step, a batch within an epoch, a simulated time. A
*measure* goes up and down: a loss, a temperature. A number that rises with the wall clock is neither: it goes
on whatever the run does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from watchdogd.plugins.log_staleness.stall_limit import SEVERAL

SET = 300.0
"""Seconds by which a wall clock may be set: summer time, another node's clock."""
SET_AMID = 1500.0
"""The same within one look, since its lines have no known times."""
SHOWS = 240.0
"""Seconds after which it is known whether a number follows the wall clock; until then it may."""
LOOK = 75.0
"""Seconds of one look: its first line may be this much older than assumed."""
REGULAR, ALIKE, ROUND = 0.02, 8, 0.03
"""Largest share by which the pace of a waiting program varies (it sleeps for a fixed time; a working one does
not), over ALIKE paces. ROUND: by how much its pace may exceed the whole seconds that it sleeps."""
DOWN = 6
"""Times that a number must have fallen, without ever standing still, to count as counting down."""
STEADY = 10
"""A count that rises this many times for each fall is one that is resumed from a checkpoint."""
NEAR = 0.15
"""A new cycle begins within this share of the last cycle's range above its beginning."""
RISES = 3
"""Times that a number must have risen to count as a clock."""
SAME, MEMBERS = 4, 64
"""After SAME identical cycles, of at most MEMBERS values, the numbers are names: of GPUs, ranks, trials."""


@dataclass(slots=True)
class Number:
    """One number of a template, over all its lines.

    `first`, `high`: first and highest value of the present cycle; `rises`: how often it passed `high`.
    `resets`: how often it began anew; `dips`: how often it fell without doing so.
    `base`: last value of the look at `began`. `wall`: it rises with the wall clock.
    `mean`: mean of its last paces; `alike`: how many were near it, less ALIKE for each that was not.
    `top`: how far it had come when it was last resumed from an earlier value.
    `peak`, `turned`: its highest value and number of rises when it last began anew.
    `same`: number of cycles equal to the one before, less SAME for each that was not.
    `time`: it is written as a time, such as the one at the beginning of a line.
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

        It rose at least `least` times, falls only to begin anew, and does not follow the wall clock; or it
        counts down.
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
        """True if it is no time and repeats the same few values, each in one look: it names something."""
        return self.same >= SAME and not self.time

    def _note_cycle(self, value: float) -> None:
        """Note whether the cycle that `value` ends was equal to the one before."""
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
        """True if it may follow the wall clock and is too young to show that it does not."""
        took = self.rose - self.began
        if self.time and took < SHOWS:
            return True
        return 0.0 < took < 2 * SHOWS and not self.resets and self._goes_as_time(LOOK / took)

    def _note_wall(self) -> None:
        """Note whether it follows the wall clock, in seconds or milliseconds, over all looks until now."""
        took = self.rose - self.began
        if took >= SHOWS:
            self.wall = self._goes_as_time(max(0.03, LOOK / took) if self.time else 0.03)

    def _note_set(self, value: float, before: float, at: float) -> bool:
        """Return True if this wall clock was set to another time, from which it goes on."""
        took = at - self.rose
        unit = 1000.0 if self.high - self.base >= 30.0 * (self.rose - self.began) else 1.0
        jump = (value - before) / unit - took
        if -SET < jump < (SET if took else SET_AMID):
            return False
        self.first = self.high = self.base = value
        self.began = self.rose = at
        return True

    def follows(self, before: Number) -> bool:
        """Return True if it began where another number was, give or take a few of that one's steps."""
        if self.resets or before.resets or before.rises < ALIKE:
            return False
        step = (before.high - before.first) / before.rises
        return 0.0 < self.first - before.high <= SEVERAL * step

    @property
    def regular(self) -> bool:
        """True if it counts one by one at a constant pace, as a waiting program does."""
        if not self.whole or self.high - self.first > 1.5 * max(self.rises, 1):
            return False
        each = 1.0 / abs(self.mean) if self.mean else 0.0
        return self.alike >= ALIKE and is_slept(each)

    @property
    def falling(self) -> bool:
        """True if it counts down to what is left to do and rises only to begin anew; it is no time."""
        if self.resets < DOWN or self.dips or not self.whole or self.rises * 3 > self.resets:
            return False
        return abs(self.mean + 1.0) >= 0.03

    @property
    def turns(self) -> int:
        """How many times it moved, up or down."""
        return self.rises + self.resets

    @property
    def rising(self) -> bool:
        """True if it has never fallen and does not follow the wall clock."""
        return not (self.dips or self.resets or self.wall)

    @property
    def constant(self) -> bool:
        """True if it has never changed."""
        return not (self.rises or self.resets or self.dips)

    def take(self, values: Sequence[float], at: float) -> tuple[bool, bool, bool]:
        """Add the next values, seen at `at`; return whether it changed, moved on, and rose.

        Changed: a number with decimals got another value. Moved on: it fell as only a clock does, counting
        down or resuming. Rose: a value was the highest of its cycle.
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
        """Begin the next cycle; return True if each value begins one, since it counts down."""
        if at > self.rose and self.rises * 3 <= self.resets:
            self._note_pace((value - before) / (at - self.rose))
        self._note_cycle(value)
        self.first = self.high = self.base = value
        self.began = self.rose = at
        self.resets, self.wall = self.resets + 1, False
        return self.falling

    @property
    def _resumes(self) -> bool:
        """True if a count that always rose falls now because it is resumed from its last checkpoint.

        False if it came no further than when it was last resumed.
        """
        steady = (self.dips + self.resets + 1) * STEADY <= self.rises
        return steady and self.whole and self.high > self.top

    def _note_pace(self, pace: float) -> None:
        self.paces += 1
        self.mean += (pace - self.mean) / min(self.paces, ALIKE)
        near = abs(pace - self.mean) < REGULAR * abs(self.mean)
        self.alike = min(max(self.alike + (1 if near else -ALIKE), 0), 2 * ALIKE)


def is_slept(seconds: float) -> bool:
    """Return True for a time that a program would be told to sleep, or slightly more."""
    for unit, most in ((1.0, 10.0), (5.0, 60.0), (10.0, 300.0), (30.0, math.inf)):
        slept = max(round(seconds * (1 - ROUND / 2) / unit), 1) * unit
        if slept <= most:
            return -0.005 * slept < seconds - slept < ROUND * slept
    return False
