"""Lines that differ in their numbers alone, and which of these numbers are clocks of the run.

A number is a *clock* where it rises, and comes again and again: a step, a batch within an epoch, a time that
is simulated. What goes up and down is a *measure* (a loss, a temperature). What goes as the wall's clock does
is neither: it goes on whatever the run does.

Also found here is how long a pause may last, by those that a run made before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from zlib import crc32

from watchdogd.parsers.logs import measures, progress
from watchdogd.parsers.logs.line_shapes import READ_AT_MOST, Shape, layout_of
from watchdogd.parsers.logs.progress_forms import WORK

Pauses = list[tuple[float, float]]
"""Times at which pauses ended, and their seconds: the longest ones."""
KEPT = 6
"""Pauses that are remembered of each kind, for `REMEMBERED` seconds."""
REMEMBERED = 3 * 86400.0
MOST = 7200.0
"""Patience grows beyond this only where the run itself has paused for longer."""
MULTIPLE, FAMILIAR = 3.0, 2.0
"""Times the longest known pause that one may last; less where there were several of that length."""
SEVERAL = 3
_LEAST = 1.5
"""The same where that is beyond MOST."""


def patience(least: float, pauses: Iterable[tuple[float, float]], now: float, *, known: bool = True) -> float:
    """Return the seconds of patience with a run that paused so before: never less than `least`.

    Where its rhythm is `known`, the longest of several alike is no accident, and the next one will hardly be
    three times as long.
    """
    gaps = [gap for at, gap in pauses if now - at < REMEMBERED]
    most = max(gaps, default=0.0)
    several = known and sum(gap >= most / 2 for gap in gaps) >= SEVERAL
    return max(least, min((FAMILIAR if several else MULTIPLE) * most, MOST), _LEAST * most)


def longest_of(pauses: Iterable[tuple[float, float]], now: float) -> float:
    """Return the longest pause that is remembered still, in seconds; 0: there is none."""
    return max((gap for at, gap in pauses if now - at < REMEMBERED), default=0.0)


def longest(pauses: Pauses, at: float, gap: float) -> Pauses:
    """Add a pause, and return the longest of those that are remembered still."""
    if gap < 1.0:
        return pauses
    kept = [(when, each) for when, each in pauses if at - when < REMEMBERED]
    kept.append((at, round(gap, 1)))
    return sorted(kept, key=lambda each: -each[1])[:KEPT]


ONLY_WAITS = 1800.0
"""Seconds of patience with a run of which nothing is said but what something that waits may say, too."""
TREND = 20
"""Lines of a template after which it shows whether its measure goes anywhere."""
LIVED = 6
"""Lines of a template after which it is known that its measures are numbers."""
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
_NONE = re.compile(r"(?<![\w-])[-+]?(?:nan|inf(?:inity)?)(?![\w-])", re.IGNORECASE)
_STAND_IN = 0.03125
"""Value that is read for a number that is none."""


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
        return self.alike >= ALIKE and _is_slept(each)

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


def _is_slept(seconds: float) -> bool:
    """Return True for a time that people let a program sleep for, and a little more."""
    for unit, most in ((1.0, 10.0), (5.0, 60.0), (10.0, 300.0), (30.0, math.inf)):
        slept = max(round(seconds * (1 - ROUND / 2) / unit), 1) * unit
        if slept <= most:
            return -0.005 * slept < seconds - slept < ROUND * slept
    return False


@dataclass(slots=True)
class Template:
    """State of what the lines of one template have told.

    `count` lines, the first at `begun`, the last at `last`; `rose`: when a clock of theirs last rose,
    `changed`: when a measure did; `healthy`: the template whose lines have numbers where these have NaN or
    infinity, 0: none, and `lost`: how many of these came since one of those did; `start`, `band`: the first
    value of its measure and how far that goes up and down, `trends`: it has left there; `repeats`: what its
    lines of the last look said, as one number, 0: none of its clocks begins anew; `names`: positions of
    numbers that a known format, or a loss beside them, says to be the training's; `bounds`: positions of
    numbers that a total follows, and `times` of those that are written as a time; `member`: its lines are
    about one of several (a trial of a table), so that none is a little behind another; `stocks`: positions of
    numbers of bytes; `about`: position of the number that names what a line is about (a GPU, a trial), None:
    none does; `every`: seconds from line to line, `alike`: how often that was so; `after`: the longest
    silences (seconds) that followed such a line, with their times, and `stood`: the longest times without
    progress that began with it.
    """

    text: str
    names: list[int]
    bounds: list[int]
    begun: float
    count: int = 0
    last: float = 0.0
    rose: float = 0.0
    changed: float = 0.0
    healthy: int = 0
    lost: int = 0
    start: float = 0.0
    band: float = 0.0
    trends: bool = False
    repeats: int = 0
    member: bool = False
    times: list[int] = field(default_factory=list)
    stocks: list[int] = field(default_factory=list)
    every: float = 0.0
    alike: int = 0
    numbers: list[Number] = field(default_factory=list)
    about: int | None = None
    after: Pauses = field(default_factory=list)
    stood: Pauses = field(default_factory=list)

    def take(self, rows: Sequence[Sequence[float]], at: float) -> None:
        """Take in some lines more, by their numbers, written at `at`."""
        if rows and self.last and at > self.last:
            every = (at - self.last) / len(rows)
            near = abs(every - self.every) < REGULAR * every
            self.alike = min(max(self.alike + (1 if near else -ALIKE), 0), 2 * ALIKE)
            self.every = every
        self.count += len(rows)
        self.last = at
        loss = False
        for width, alike in groupby(rows, len):
            if width != len(self.numbers):
                self.numbers = [
                    Number(
                        each,
                        each,
                        each,
                        whole=not each % 1,
                        began=at,
                        rose=at,
                        base=each,
                        time=position in self.times,
                    )
                    for position, each in enumerate(next(alike))
                ]
            for position, (number, column) in enumerate(
                zip(self.numbers, zip(*alike, strict=True), strict=False)
            ):
                changed, rose, risen = number.take(column, at)
                if changed:
                    self.changed = at
                    loss = loss or position in self.names
                    if not self.rose and not self.trends and number is self._measure:
                        self._note_trend(number)
                if rose or (risen and self._counts(position)):
                    self.rose = at
                    self.repeats = self.repeats or int(number.resets > 1)
        if loss and self.rose < at and not self.clocks:
            self.rose = at
        named = (each for each, number in enumerate(self.numbers) if number.names and each not in self.bounds)
        self.about = next(named, None)

    @property
    def _measure(self) -> Number | None:
        """First of its numbers with decimals."""
        return next((each for each in self.numbers if not each.whole), None)

    def _note_trend(self, number: Number) -> None:
        """Note whether a measure has left where it began, by more than it goes up and down, like a loss."""
        self.band = max(self.band, number.high - number.first)
        self.start = self.start or number.last
        self.trends = self.count > TREND and abs(number.last - self.start) > 3.0 * self.band

    @property
    def shown(self) -> str:
        """Words of its lines, with the last numbers of its clocks: `step 160 loss #`."""
        first, *rest = self.text.split("#")
        clocks = self.clocks
        numbers = (f"{self.numbers[each].last:,.10g}" if each in clocks else "#" for each in range(len(rest)))
        return first + "".join(f"{number}{words}" for number, words in zip(numbers, rest, strict=True))

    def said(self, text: str, values: Sequence[float]) -> str:
        """Return what a line of it says, whenever it says so."""
        if not self.times:
            return text
        return str([each for position, each in enumerate(values) if position not in self.times])

    def note_cycle(self, rose: float, said: set[str]) -> None:
        """Note what its lines of a look said; `rose`: when a clock last rose before it.

        Lines that all were said in the look before are drawn again, and nothing goes on.
        """
        before, self.repeats = (
            self.repeats,
            crc32("\n".join(sorted(said)).encode("utf-8", "surrogatepass")) | 1,
        )
        if self.repeats == before:
            self.rose = rose

    @property
    def clocks(self) -> list[int]:
        """Positions of the numbers that are clocks."""
        return [position for position in range(len(self.numbers)) if self._counts(position)]

    def _counts(self, position: int) -> bool:
        """Return True if that number is a clock: a name of what the line is about is none."""
        number, named = self.numbers[position], position in self.names
        if number.names and not named and position not in self.bounds:
            return False
        if self.member and number.dips:
            return False
        return number.clock(1 if named and number.whole else RISES)  # a loss may rise, too

    @property
    def stirred(self) -> float:
        """Time of the last rise of a number that never fell, too seldom to be known for a clock yet; or 0."""
        numbers = (each for each in self.numbers if each.rising and not each.time)
        few = (each.rose for each in numbers if 0 < each.rises < RISES)
        return max(few, default=0.0)

    @property
    def expected(self) -> float:
        """Time at which its last line but one came, were all as far apart."""
        return self.last - (self.last - self.begun) / max(self.count - 1, 1)

    @property
    def bounded(self) -> bool:
        """True if a clock of it counts up to a total: `3/1200`."""
        return any(self._total(position) for position in self.bounds if position in self.clocks)

    @property
    def full(self) -> Number | None:
        """Clock of it that has reached its total, where all that have one did."""
        steps = [each for each in self.bounds if each not in self.stocks]
        totals = [(self.numbers[each], self._total(each)) for each in steps if self._total(each)]
        if any(each.last < total for each, total in totals):
            return None  # `epoch 1/12, batch 900/900`
        return next((each for each, _ in totals if each.rises >= RISES), None)

    @property
    def ended(self) -> bool:
        """True if it has reached its total, and never began anew after that."""
        full = self.full
        return full is not None and not full.resets

    @property
    def rises(self) -> int:
        """Number of times that its clock rose that did most often; of its lines, where it has none."""
        return max((self.numbers[each].rises for each in self.clocks), default=self.count)

    @property
    def grows(self) -> bool:
        """True if a clock of it has never fallen."""
        return any(self.numbers[each].rising for each in self.clocks)

    @property
    def whole(self) -> bool:
        """True if a clock of it counts in whole numbers."""
        return any(self.numbers[each].whole for each in self.clocks)

    def continues(self, before: Template) -> bool:
        """Return True if a count goes on here from where it was in lines of another form."""
        pairs = [
            (self.numbers[each], before.numbers[each])
            for each in self.clocks
            if each < len(before.numbers) and each in before.clocks
        ]
        return any(one.follows(other) for one, other in pairs)

    @property
    def unfinished(self) -> int:
        """Number of times that a clock of it rose that is short of its total."""
        totals = [(self.numbers[each], self._total(each)) for each in self.bounds if each in self.clocks]
        return max((each.rises for each, total in totals if each.last < total), default=0)

    def _total(self, position: int) -> float:
        if position + 1 >= len(self.numbers):
            return 0.0
        total = self.numbers[position + 1]
        return total.last if total.constant and total.last > 1 else 0.0

    @property
    def measured(self) -> bool:
        """True if it tells a number that goes up and down, with decimals."""
        return any(not each.whole and not each.clock() and not each.constant for each in self.numbers)

    @property
    def _watches(self) -> bool:
        """True if its lines come as regularly as those of what only looks at something, and sleeps."""
        return self.alike >= ALIKE and _is_slept(self.every)

    @property
    def weight(self) -> float:
        """Weight of what a clock of it says.

        3: the training's own by name; 2: with a total or beside measures; 1: a bare count, or a loss without
        one; half of one less where it goes as regularly as what only waits, or is of bytes that something
        looks at; 0: it has none.
        """
        clocks = self.clocks
        if not clocks:
            losses = (each for each in self.names if each < len(self.numbers))
            return int(self.rose > 0 and any(not self.numbers[each].whole for each in losses))
        if any(each in self.names for each in clocks):
            return 3
        if self._watches and not set(clocks) - set(self.stocks):
            return 0.5
        if self.bounded:
            return 2
        # what waits counts its lines: a number that stands for several of them is none of its
        regular = all(
            self.numbers[each].regular and 4 * self.numbers[each].turns > self.count for each in clocks
        )
        return (2 if self.measured else 1) - 0.5 * regular


def new(text: str, shape: Shape, at: float) -> Template:
    """Make a template that was never seen before."""
    times = [position for position, _ in shape.layout.times]
    named = [position for position in _named(text, shape) if position not in times]
    layout = shape.layout
    bounds, stocks = list(layout.bounds), list(layout.stocks)
    return Template(layout.words, named, bounds, at, times=times, stocks=stocks)


def healthy(text: str, known: dict[int, Template]) -> int:
    """Return the key of the template whose lines have a measure where this one has NaN or infinity, or 0.

    They have one wherever this one has none.
    """
    shown = _NONE.sub(str(_STAND_IN), text[:READ_AT_MOST])
    if shown == text[:READ_AT_MOST]:
        return 0
    layout = layout_of(shown)
    before, values = known.get(layout.key), layout.values(shown)
    if before is None or before.count < LIVED or len(before.numbers) != len(values):
        return 0
    lost = [each for each, value in zip(before.numbers, values, strict=True) if value == _STAND_IN]
    measured = bool(lost) and not any(each.whole or each.constant for each in lost)
    return layout.key if measured else 0


def _named(text: str, shape: Shape) -> list[int]:
    """Return positions of the numbers that are the training's own by what stands beside them."""
    numbers = shape.layout.values(text)
    if measures.find_loss(text):
        return list(range(len(numbers)))
    report = shape.report(text)
    if report is None or report.series == WORK:
        return []
    parts = progress.in_epoch(report.series, report.number) or (report.number,)
    return [position for position, number in enumerate(numbers) if number in parts]
