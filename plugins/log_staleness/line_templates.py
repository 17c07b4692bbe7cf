"""Templates: lines that differ only in their numbers, each with the history of its numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from zlib import crc32

from watchdogd.parsers.logs import measures, progress
from watchdogd.parsers.logs.line_shapes import READ_AT_MOST, Shape, layout_of
from watchdogd.parsers.logs.progress_forms import WORK
from watchdogd.plugins.log_staleness.clock_numbers import ALIKE, REGULAR, RISES, Number, is_slept
from watchdogd.plugins.log_staleness.stall_limit import Pauses

TREND = 20
"""After so many lines it is known whether a template's measure has a trend."""
LIVED = 6
"""After so many lines it is known that a template's measures are numbers."""
_NONE = re.compile(r"(?<![\w-])[-+]?(?:nan|inf(?:inity)?)(?![\w-])", re.IGNORECASE)
_STAND_IN = 0.03125
"""Value that is read in place of NaN or infinity."""


@dataclass(slots=True)
class Template:
    """State of the lines of one template.

    `count`: number of lines; `begun`, `last`: times of the first and the last.
    `rose`: when one of its clocks last rose; `changed`: when a measure last changed.
    `healthy`: template of lines that have numbers where these have NaN or infinity (0: none);
        `lost`: how many of these came since the last of those.
    `start`, `band`: first value of its measure, how far that goes up and down; `trends`: it has left there.
    `repeats`: checksum of its lines in the last look; 0: none of its clocks restarts.
    `names`: positions of numbers that are the training's by a known format, or by a loss beside them.
    `bounds`: positions of numbers followed by a total; `times`: written as times; `stocks`: of bytes.
    `member`: its lines are about one of several (a trial in a table), so that none lags behind another.
    `about`: position of the number that names what a line is about (a GPU, a trial), or None.
    `every`: seconds from line to line; `alike`: how often that was the same.
    `after`: the longest silences (seconds) after such a line, with their times; `stood`: the longest times
        without progress that began with one.
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
        """Add more lines, by their numbers, written at `at`."""
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
        """Note whether a measure has left its starting range, as a loss does."""
        self.band = max(self.band, number.high - number.first)
        self.start = self.start or number.last
        self.trends = self.count > TREND and abs(number.last - self.start) > 3.0 * self.band

    @property
    def shown(self) -> str:
        """Its lines in words, with the last numbers of its clocks: `step 160 loss #`."""
        first, *rest = self.text.split("#")
        clocks = self.clocks
        numbers = (f"{self.numbers[each].last:,.10g}" if each in clocks else "#" for each in range(len(rest)))
        return first + "".join(f"{number}{words}" for number, words in zip(numbers, rest, strict=True))

    def said(self, text: str, values: Sequence[float]) -> str:
        """Return the text that all of its lines share."""
        if not self.times:
            return text
        return str([each for position, each in enumerate(values) if position not in self.times])

    def note_cycle(self, rose: float, said: set[str]) -> None:
        """Note the lines of one look; `rose`: when a clock last rose before it.

        If all lines also came in the look before, they are only drawn again, and nothing progresses.
        """
        before, self.repeats = (
            self.repeats,
            crc32("\n".join(sorted(said)).encode("utf-8", "surrogatepass")) | 1,
        )
        if self.repeats == before:
            self.rose = rose

    @property
    def clocks(self) -> list[int]:
        return [position for position in range(len(self.numbers)) if self._counts(position)]

    def _counts(self, position: int) -> bool:
        """Return True if that number is a clock and does not name what the line is about."""
        number, named = self.numbers[position], position in self.names
        if number.names and not named and position not in self.bounds:
            return False
        if self.member and number.dips:
            return False
        return number.clock(1 if named and number.whole else RISES)  # a loss may rise, too

    @property
    def stirred(self) -> float:
        """Time of the last rise of a number that never fell but rose too seldom to be a clock yet; or 0."""
        numbers = (each for each in self.numbers if each.rising and not each.time)
        few = (each.rose for each in numbers if 0 < each.rises < RISES)
        return max(few, default=0.0)

    @property
    def expected(self) -> float:
        """When the last line but one would have come, if all came at equal intervals."""
        return self.last - (self.last - self.begun) / max(self.count - 1, 1)

    @property
    def bounded(self) -> bool:
        """True if one of its clocks counts up to a total: `3/1200`."""
        return any(self._total(position) for position in self.bounds if position in self.clocks)

    @property
    def full(self) -> Number | None:
        """Clock that has reached its total, if all clocks with a total have."""
        steps = [each for each in self.bounds if each not in self.stocks]
        totals = [(self.numbers[each], self._total(each)) for each in steps if self._total(each)]
        if any(each.last < total for each, total in totals):
            return None  # `epoch 1/12, batch 900/900`
        return next((each for each, _ in totals if each.rises >= RISES), None)

    @property
    def ended(self) -> bool:
        """True if it has reached its total and never restarted after that."""
        full = self.full
        return full is not None and not full.resets

    @property
    def rises(self) -> int:
        """How often its most active clock rose; without a clock, the number of its lines."""
        return max((self.numbers[each].rises for each in self.clocks), default=self.count)

    @property
    def grows(self) -> bool:
        """True if one of its clocks has never fallen."""
        return any(self.numbers[each].rising for each in self.clocks)

    @property
    def whole(self) -> bool:
        """True if one of its clocks counts in whole numbers."""
        return any(self.numbers[each].whole for each in self.clocks)

    def continues(self, before: Template) -> bool:
        """Return True if a count continues here from where it was in lines of another form."""
        pairs = [
            (self.numbers[each], before.numbers[each])
            for each in self.clocks
            if each < len(before.numbers) and each in before.clocks
        ]
        return any(one.follows(other) for one, other in pairs)

    @property
    def unfinished(self) -> int:
        """How often one of its clocks rose that is short of its total."""
        totals = [(self.numbers[each], self._total(each)) for each in self.bounds if each in self.clocks]
        return max((each.rises for each, total in totals if each.last < total), default=0)

    def _total(self, position: int) -> float:
        if position + 1 >= len(self.numbers):
            return 0.0
        total = self.numbers[position + 1]
        return total.last if total.constant and total.last > 1 else 0.0

    @property
    def measured(self) -> bool:
        """True if it has a measure: a number with decimals that goes up and down."""
        return any(not each.whole and not each.clock() and not each.constant for each in self.numbers)

    @property
    def _watches(self) -> bool:
        """True if its lines come as regularly as those of a monitor that sleeps in between."""
        return self.alike >= ALIKE and is_slept(self.every)

    @property
    def weight(self) -> float:
        """How much its clocks say about the run.

        3: the training's own by name; 2: with a total, or beside measures; 1: a bare count, or a loss without
        one; 0: it has no clock. Half of one less if it is as regular as a waiting program, or counts bytes
        that something watches.
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
        # a waiting program counts its lines: a number that stays the same over several is not such a count
        regular = all(
            self.numbers[each].regular and 4 * self.numbers[each].turns > self.count for each in clocks
        )
        return (2 if self.measured else 1) - 0.5 * regular


def new(text: str, shape: Shape, at: float) -> Template:
    """Return a template for lines never seen before."""
    times = [position for position, _ in shape.layout.times]
    named = [position for position in _named(text, shape) if position not in times]
    layout = shape.layout
    bounds, stocks = list(layout.bounds), list(layout.stocks)
    return Template(layout.words, named, bounds, at, times=times, stocks=stocks)


def healthy(text: str, known: dict[int, Template]) -> int:
    """Return the key of the template that has a measure where this one has NaN or infinity, or 0."""
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
    """Return the positions of numbers that are the training's own by what stands beside them."""
    numbers = shape.layout.values(text)
    if measures.find_loss(text):
        return list(range(len(numbers)))
    report = shape.report(text)
    if report is None or report.series == WORK:
        return []
    parts = progress.in_epoch(report.series, report.number) or (report.number,)
    return [position for position, number in enumerate(numbers) if number in parts]
