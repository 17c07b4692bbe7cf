"""Lines that differ in their numbers alone, and which of these numbers are clocks of the run.

A number is a *clock* where it rises, and comes again and again: a step, a batch within an epoch, a time that
is simulated. What goes up and down is a *measure* (a loss, a temperature). What goes as the wall's clock does
is neither: it goes on whatever the run does.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from watchdogd.logs.patience import Pauses
from watchdogd.readers import measures, trainlog
from watchdogd.readers.trainforms import WORK

LIVED = 6
"""Lines of a template after which it is known that its measures are numbers."""
READ_AT_MOST = 400
"""Characters of a line that are looked at: what tells progress stands near its beginning."""
NUMBERS = 12
"""Numbers of a line that are followed."""
SET = 300.0
"""Seconds by which a clock of the wall is set: summer time, another node's."""
SET_AMID = 1500.0
"""The same within one look, whose lines are of unknown times."""
SHOWS = 240.0
"""Seconds of its life by which it shows whether a number is such a clock."""
RISES = 3
"""Times that a number must have risen to count as a clock."""
_TOKEN = re.compile(
    r"(?P<noise>(?=[0-9a-f]{0,40}[a-f])(?=[a-f]{0,40}\d)(?<![0-9a-zA-Z.])(?:0x)?[0-9a-f]{8,40}(?![0-9a-zA-Z])"
    r"|[=#>.\-*]{3,400})"
    r"|(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T_ ])?(?<![\d:])(?P<first>\d{1,3}):(?P<second>\d\d)"
    r"(?::(?P<third>\d\d))?(?:[.,]\d{1,9})?(?![\d:])Z?"
    r"|(?P<number>(?:(?<![\w.)\]])-)?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)"
)
"""Identifiers and bars (`noise`), which tell lines of one template apart without telling anything of the run;
times of the day, durations and dates; numbers."""
_MOST = 1e300
_PARTS = ("year", "month", "day", "first", "second", "third")
_BARS = str.maketrans(dict.fromkeys("█▏▎▍▌▋▊▉━╸╺", " "))
_ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_SHAPES = 4000
"""Shapes of lines that are remembered: where numbers stand in lines that differ in their digits alone."""
_NONE = re.compile(r"(?<![\w-])[-+]?(?:nan|inf(?:inity)?)(?![\w-])", re.IGNORECASE)
_STAND_IN = "0.03125"
"""What is read for a number that is none."""
_OF = re.compile(r"^\s?(?:/|of)\s?$")


@dataclass(slots=True)
class Number:
    """One number of a template, over all its lines.

    `first` and `high`: of the present cycle; `rises`: times that it passed `high`; `resets`: times that it
    began anew; `dips`: times that it lay below and did not; `base`: the last value of the look at
    `began`; `wall`: whether it goes as time does.
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
    spread: float = 0.0
    base: float = 0.0
    wall: bool = False

    def clock(self, least: int = RISES) -> bool:
        """Whether it rose `least` times, falls back only to begin anew, and is no clock of the wall."""
        if self.rises < least or self.resets * 3 > self.rises:
            return False
        return (self.dips == 0 or (self.whole and self.dips <= 2 * self.rises)) and not self.wall

    def _note_wall(self) -> None:
        """Whether it goes as time does, in seconds or milliseconds, by all looks until now."""
        took = self.rose - self.began
        if took >= SHOWS:
            pace = (self.high - self.base) / took
            self.wall = abs(pace - 1.0) < 0.03 or abs(pace * 0.001 - 1.0) < 0.03

    def _note_set(self, value: float, before: float, at: float) -> bool:
        """Whether this clock of the wall was set: it goes on as one, from its new time."""
        took = at - self.rose
        unit = 1000.0 if self.high - self.base >= 30.0 * (self.rose - self.began) else 1.0
        jump = (value - before) / unit - took
        if -SET < jump < (SET if took else SET_AMID):
            return False
        self.first = self.high = self.base = value
        self.began = self.rose = at
        return True

    @property
    def regular(self) -> bool:
        """Whether it counts one by one at a pace that never changes, as what only waits does."""
        if self.paces < 8 or not self.whole or self.high - self.first > 1.5 * self.rises:
            return False
        return math.sqrt(self.spread / self.paces) < 0.05 * self.mean

    @property
    def rising(self) -> bool:
        """Whether it has never fallen, and does not go as time does."""
        return not (self.dips or self.resets or self.wall)

    @property
    def constant(self) -> bool:
        """Whether it has always been the same."""
        return not (self.rises or self.resets or self.dips)

    def take(self, value: float, at: float) -> bool:
        """The next value, seen at `at`; True where it is higher than ever in this cycle."""
        before, self.last = self.last, value
        self.whole = self.whole and value == int(value)
        if value > self.high:
            if at > self.rose > 0.0:
                self._note_wall()
                self._note_pace((value - before) / (at - self.rose))
            if self.wall and value - before > SET and self._note_set(value, before, at):
                return False
            if at == self.began:
                self.base = value
            self.high = value
            self.rises += 1
            self.rose = at
            return True
        if value < self.high:
            near = 0.1 * (self.high - self.first)
            if self.wall and abs(value - self.first) > near and self._note_set(value, before, at):
                return False
            if value <= self.first + near:
                self.first = self.high = self.base = value
                self.began = self.rose = at
                self.resets, self.wall = self.resets + 1, False
            else:
                self.dips += 1
        return False

    def _note_pace(self, pace: float) -> None:
        self.paces += 1
        off = pace - self.mean
        self.mean += off / self.paces
        self.spread += off * (pace - self.mean)


@dataclass(slots=True)
class Template:
    """What the lines of one template have told.

    `count` lines, the first at `begun`, the last at `last`; `rose`: when a clock of theirs last rose,
    `changed`: when a measure did; `healthy`: the template whose lines have numbers where these have NaN or
    infinity, 0: none, and `lost`: how many of these came since one of those did; `names`: positions of
    numbers that a known format, or a loss beside them, says to be the training's; `bounds`: positions of
    numbers that a total follows; `after`: the longest silences (seconds) that followed such a line, with
    their times, and `stood`: the longest times without progress that began with it.
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
    numbers: list[Number] = field(default_factory=list)
    after: Pauses = field(default_factory=list)
    stood: Pauses = field(default_factory=list)

    def take(self, numbers: list[float], at: float) -> None:
        """One line more, written at `at`."""
        self.count += 1
        self.last = at
        if len(numbers) != len(self.numbers):
            self.numbers = [Number(value, value, value, began=at, rose=at, base=value) for value in numbers]
            return
        for position, (known, value) in enumerate(zip(self.numbers, numbers, strict=True)):
            if value == known.last:
                continue
            if known.last != value and not known.whole:
                self.changed = at
            rose = known.take(value, at)
            if rose and self.rose != at and known.clock(1 if position in self.names else RISES):
                self.rose = at

    @property
    def clocks(self) -> list[int]:
        """Positions of the numbers that are clocks."""
        return [
            position
            for position, number in enumerate(self.numbers)
            if number.clock(1 if position in self.names else RISES)
        ]

    @property
    def stirred(self) -> float:
        """When a number of it last rose that never fell, too seldom to be known for a clock yet; or 0."""
        few = (each.rose for each in self.numbers if 0 < each.rises < RISES and each.rising)
        return max(few, default=0.0)

    @property
    def expected(self) -> float:
        """When its last line but one came, were all as far apart."""
        return self.last - (self.last - self.begun) / max(self.count - 1, 1)

    @property
    def bounded(self) -> bool:
        """Whether a clock of it counts up to a total: `3/1200`."""
        return any(self._total(position) for position in self.bounds if position in self.clocks)

    @property
    def full(self) -> Number | None:
        """The clock of it that has reached its total, where all that have one did."""
        totals = [(self.numbers[each], self._total(each)) for each in self.bounds if self._total(each)]
        if any(each.last < total for each, total in totals):
            return None  # `epoch 1/12, batch 900/900`
        return next((each for each, _ in totals if each.rises >= RISES), None)

    @property
    def unfinished(self) -> int:
        """How often a clock of it rose that is short of its total."""
        totals = [(self.numbers[each], self._total(each)) for each in self.bounds if each in self.clocks]
        return max((each.rises for each, total in totals if each.last < total), default=0)

    def _total(self, position: int) -> float:
        if position + 1 >= len(self.numbers):
            return 0.0
        total = self.numbers[position + 1]
        return total.last if total.constant and total.last > 1 else 0.0

    @property
    def measured(self) -> bool:
        """Whether it tells a number that goes up and down, with decimals."""
        return any(not each.whole and not each.clock() and not each.constant for each in self.numbers)

    @property
    def weight(self) -> float:
        """How much a clock of it says: 3, the training's own by name; 2, with a total or beside measures;
        1, a bare count; half of one less where it goes as regularly as what only waits; 0, it has none."""
        clocks = self.clocks
        if not clocks:
            return 0
        if any(each in self.names for each in clocks):
            return 3
        if self.bounded:
            return 2
        regular = all(self.numbers[each].regular for each in clocks)
        return (2 if self.measured else 1) - 0.5 * regular


class Shape(NamedTuple):
    """Where the numbers stand in lines that differ in their digits alone.

    `key`: the template of such lines; `text`: its words; `spans`: of each number, begin and end, six of them
    for a time; `bounds`: positions of numbers that a total follows.
    """

    key: int
    text: str
    spans: tuple[tuple[int, ...], ...]
    bounds: tuple[int, ...]

    def values(self, text: str) -> list[float]:
        """The numbers of a line of this shape; a time of the day or a duration is one, in seconds: whether it
        goes as the wall's clock does shows in its pace."""
        return [
            _value(text[span[0] : span[1]]) if len(span) == 2 else _seconds(text, span) for span in self.spans
        ]


_shapes: dict[bytes, Shape] = {}


def shape_of(text: str) -> Shape:
    """The shape of a line, of which no more than READ_AT_MOST characters are looked at."""
    shown = text[:READ_AT_MOST].encode("utf-8", "surrogatepass").translate(_ONE_DIGIT)
    known = _shapes.get(shown)
    if known is None:
        if len(_shapes) >= _SHAPES:
            _shapes.clear()
        known = _shapes[shown] = _shape(text[:READ_AT_MOST])
    return known


def _shape(text: str) -> Shape:
    spans: list[tuple[int, ...]] = []
    words, at, bounds = [""], 0, []
    for token in _TOKEN.finditer(text.translate(_BARS)):
        words[-1] += text[at : token.start()]
        at = token.end()
        if token["noise"] or len(spans) >= NUMBERS:
            words[-1] += "~"
            continue
        if token["number"]:
            spans.append(token.span())
        else:
            spans.append(tuple(edge for part in _PARTS for edge in token.span(part)))
        words.append("")
    words[-1] += text[at:]
    for position, between in enumerate(words[1:-1]):
        if _OF.match(between):
            bounds.append(position)
    said = " ".join("#".join(words).translate(_BARS).split())
    return Shape(crc32(said.encode("utf-8", "surrogatepass")), said[:60], tuple(spans), tuple(bounds))


def _seconds(text: str, span: tuple[int, ...]) -> float:
    parts = [text[begin:end] for begin, end in zip(span[::2], span[1::2], strict=True)]
    year, month, day, first, second, third = (int(part or 0) for part in parts)
    seconds = (first * 60 + second) * 60 + third if parts[5] else first * 60 + second
    return float(((year * 12 + month) * 31 + day) * 86400 + seconds)


def _value(text: str) -> float:
    value = float(text.replace(",", "") if "," in text else text)
    return value if -_MOST < value < _MOST else 0.0


def new(text: str, shape: Shape, at: float) -> Template:
    """A template that was never seen before."""
    return Template(shape.text, _named(text, shape.values(text)), list(shape.bounds), at)


def healthy(text: str, known: dict[int, Template]) -> int:
    """The template among these whose lines have a measure wherever this one has NaN or infinity, or 0."""
    shown = _NONE.sub(_STAND_IN, text[:READ_AT_MOST])
    if shown == text[:READ_AT_MOST]:
        return 0
    shape = shape_of(shown)
    before = known.get(shape.key)
    if before is None or before.count < LIVED or len(before.numbers) != len(shape.spans):
        return 0
    lost = [
        number
        for number, span in zip(before.numbers, shape.spans, strict=True)
        if shown[span[0] : span[1]] == _STAND_IN
    ]
    measured = bool(lost) and not any(each.whole or each.constant for each in lost)
    return shape.key if measured else 0


def _named(text: str, numbers: list[float]) -> list[int]:
    """Positions of the numbers that are the training's own by what stands beside them."""
    if measures.loss_spot(text) is not None:
        return list(range(len(numbers)))
    report = trainlog.progress(text)
    if report is None or report.series == WORK:
        return []
    parts = trainlog.in_epoch(report.series, report.number) or (report.number,)
    return [position for position, number in enumerate(numbers) if number in parts]
