"""Shapes of lines: lines that differ only in their digits share one analysis of what stands where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from watchdogd.parsers.logs import failures, measures
from watchdogd.parsers.logs import progress as trainlog
from watchdogd.parsers.logs.progress_forms import WORK

if TYPE_CHECKING:
    from watchdogd.parsers.logs.measures import Span, Spots
    from watchdogd.parsers.logs.progress import ProgressReport, Spot

KEPT = 4000
"""How many shapes are remembered."""
READ_AT_MOST = 400
"""Characters of a line in which numbers are followed: progress stands near the beginning."""
NUMBERS = 12
"""How many numbers of a line are followed."""
_TOKEN = re.compile(
    r"(?:[^\da-f=#>.*-]++|[a-f](?<=[0-9a-zA-Z][a-f]))*+(?:"
    r"(?P<noise>(?<![0-9a-zA-Z.])(?=[0-9a-f]{0,40}[a-f])(?=[a-f]{0,40}\d)(?:0x)?[0-9a-f]{8,40}(?![0-9a-zA-Z])"
    r"|[=#>.\-*]{3,400})"
    r"|(?P<time>(?:(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T_ ])?"
    r"(?<![\d:])(?P<first>\d{1,3}):(?P<second>\d\d)(?::(?P<third>\d\d))?(?:[.,]\d{1,9})?(?!:?\d)Z?)"
    r"|(?P<number>(?:(?<![\w.)\]])-)?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)"
    r"|[a-f=#>.*-]|\Z)"
)
"""`noise` is identifiers and bars, which differ between lines of one template without meaning anything;
`time` is times of day, durations and dates; then numbers. The first alternative skips text that can begin
none of them, five times as fast as a search from each letter."""
_MOST = 1e300
_DAY = {"year": 12 * 31 * 86400, "month": 31 * 86400, "day": 86400}
_UNITS = {**_DAY, "first": 3600, "second": 60, "third": 1}
_SHORT = {**_DAY, "first": 60, "second": 1}
"""Seconds in the parts of a time, if it has three numbers (_UNITS) or two (_SHORT)."""
_PLAIN = re.compile(r"-?\d{1,200}(?:\.\d+)?(?:[eE][-+]?\d\d?)?")
_BARS = str.maketrans(dict.fromkeys("█▏▎▍▌▋▊▉━╸╺", " "))
_ONE_DIGIT = bytes.maketrans(b"123456789", b"000000000")
_OF = re.compile(r"^\s?(?:/|of)\s?$")
_BYTES = re.compile(r"^\s?(?:[kKMGTP]i?B?|[bB]ytes)(?![\w/])")
_shapes: dict[bytes, Shape] = {}


class Layout(NamedTuple):
    """Places of the numbers in lines that differ only in their digits.

    `key`: checksum of the template; lines whose numbers differ in length have the same one.
    `words`: beginning of the template. `numbers`: begin and end of each number.
    `times`: for each time its position among all numbers, and begin, end and unit in seconds of its parts.
    `bounds`: positions of numbers followed by a total. `stocks`: positions of numbers of bytes.
    `plain`: no number has commas or may be too large for a float.
    """

    key: int
    words: str
    numbers: tuple[Span, ...]
    times: tuple[tuple[int, tuple[tuple[int, int, int], ...]], ...]
    bounds: tuple[int, ...]
    plain: bool
    stocks: tuple[int, ...]

    def values(self, text: str) -> list[float]:
        """Return the numbers of a line.

        A time of day or a duration is one number, in seconds; its pace shows whether it is a clock.
        """
        number = float if self.plain else _number
        found = [number(text[begin:end]) for begin, end in self.numbers]
        for position, parts in self.times:
            seconds = 0
            for begin, end, unit in parts:
                seconds += int(text[begin:end]) * unit
            found.insert(position, float(seconds))
        return found


class Shape(NamedTuple):
    """Figures to be read from lines that differ only in their digits, with their places.

    `fails`: such a line can tell the cause of a failure.
    """

    layout: Layout
    progress: Spot | None
    epoch: Span | None
    measures: Spots
    fails: bool

    def report(self, text: str) -> ProgressReport | None:
        return trainlog.reported(text, self.progress) if self.progress else None


def shape_of(text: str) -> Shape:
    """Return the shape of a line, from the cache if possible."""
    key = text.encode("utf-8", "surrogatepass").translate(_ONE_DIGIT)
    found = _shapes.get(key)
    if found is None:
        if len(_shapes) >= KEPT:
            _shapes.clear()
        found = _shapes[key] = _shape(text)
    return found


def _shape(text: str) -> Shape:
    progress, spots = trainlog.spot_of(text), measures.spots_of(text)
    if progress and progress.form.series == WORK:
        spots = spots._replace(loss=None, falls=True)
    epoch = trainlog.epoch_spot(trainlog.lowered(text))
    return Shape(layout_of(text), progress, epoch, spots, failures.possible(text))


def layout_of(text: str) -> Layout:
    """Find the numbers of a line."""
    text = text[:READ_AT_MOST]
    numbers: list[Span] = []
    times, plain = [], True
    words, at = [""], 0
    for token in _TOKEN.finditer(text.translate(_BARS)):
        kind = token.lastgroup
        if kind is None:
            continue
        begin, end = token.span(kind)
        words[-1] += text[at:begin]
        at = end
        if kind == "noise" or len(words) > NUMBERS:
            words[-1] += "~"
            continue
        if kind == "number":
            plain = plain and _PLAIN.fullmatch(text, begin, end) is not None
            numbers.append((begin, end))
        else:
            times.append((len(words) - 1, _parts(token)))
        words.append("")
    words[-1] += text[at:]
    bounds = tuple(position for position, between in enumerate(words[1:-1]) if _OF.match(between))
    after = [words[each + 2] if each in bounds else words[each + 1] for each in range(len(words) - 1)]
    stocks = tuple(position for position, unit in enumerate(after) if _BYTES.match(unit))
    said = " ".join("#".join(words).translate(_BARS).split())
    key = crc32(said.encode("utf-8", "surrogatepass"))
    return Layout(key, _beginning(said), tuple(numbers), tuple(times), bounds, plain, stocks)


def _beginning(said: str) -> str:
    """Return at most 60 characters, cut after a word."""
    if len(said) <= 60:
        return said
    head, _, last = said[:59].rpartition(" ")
    return f"{head if len(last) < 30 else said[:59]}…"


def _parts(time: re.Match[str]) -> tuple[tuple[int, int, int], ...]:
    units = _UNITS if time["third"] else _SHORT
    return tuple((*time.span(part), unit) for part, unit in units.items() if time[part])


def _number(text: str) -> float:
    value = float(text.replace(",", ""))
    return value if -_MOST < value < _MOST else 0.0
