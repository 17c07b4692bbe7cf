"""A quota tool's output, read line by line by several readers: what nobody understood is not forgotten."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchdogd.readers.quota.limit import Limit

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIMES = re.compile(r"(?<!\d)\d++(?:(?:[:.-]\d++){2,}|:\d++)")
_BETWEEN = re.compile(r"[\s|,;/()=]+")
_AMOUNT = re.compile(r"\[?\d[\d.]*(?P<unit>[KMGTPE]i?B?|B|%)?\]?\*?", re.IGNORECASE)
_UNIT = re.compile(r"[KMGTPE]i?B|B|Bytes?|%", re.IGNORECASE)
_QUOTED = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """What an output comes to.

    `unread` are the lines that hold figures and were not understood, `bare` the headings that no row
    follows, `doubt` what the tool itself says against its figures.
    """

    limits: tuple[Limit, ...] = ()
    unread: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    doubt: str = ""


class Output:
    """The lines of an output; iterating leaves out those that a reader before has understood."""

    def __init__(self, text: str) -> None:
        self.doubt = ""
        self._lines = _COLOUR.sub("", text).splitlines()
        self.text = "\n".join(self._lines)
        self._at = 0
        self._known: set[int] = set()
        self._missed: set[int] = set()
        self._bare: list[int] = []

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines):
            if number not in self._known and number not in self._missed:
                self._at = number
                yield line

    @property
    def at(self) -> int:
        """The number of the line that is being read."""
        return self._at

    @property
    def understood(self) -> bool:
        """Whether any line was understood."""
        return bool(self._known)

    def know(self, *numbers: int) -> None:
        """The present line, or those, are understood."""
        self._known.update(numbers or (self._at,))

    def know_all(self) -> None:
        """Somebody chose what is to be read of it: the rest is not missed."""
        self._known.update(range(len(self._lines)))

    def miss(self, *numbers: int) -> None:
        """The present line, or those, are rows that cannot be understood."""
        self._missed.update(numbers or (self._at,))

    def bare(self, number: int) -> None:
        """No row follows that heading."""
        self._bare.append(number)

    @contextmanager
    def row(self) -> Iterator[None]:
        """The present line is a row: understood, or missed where a cell cannot be read."""
        try:
            yield
        except UnreadableError:
            self.miss()
        else:
            self.know()

    def reading(self, limits: Iterable[Limit]) -> Reading:
        """What it comes to, with what nobody understood."""
        unread = (
            line
            for number, line in enumerate(self._lines)
            if number in self._missed or (number not in self._known and holds_figures(line))
        )
        return Reading(tuple(limits), tuple(map(_quoted, unread)), self._headings(), self.doubt)

    def _headings(self) -> tuple[str, ...]:
        return tuple(_quoted(self._lines[number]) for number in self._bare)


def output(text: str | Output) -> Output:
    """The text as an output; an output stays itself."""
    return text if isinstance(text, Output) else Output(text)


def holds_figures(line: str) -> bool:
    """Whether a line looks like a row of figures: two amounts of which one has a unit, or mostly numbers."""
    words = [word for word in _BETWEEN.split(_TIMES.sub(" ", line)) if word]
    amounts = [match for word in words if (match := _AMOUNT.fullmatch(word))]
    units = sum(bool(match["unit"]) for match in amounts) + sum(bool(_UNIT.fullmatch(word)) for word in words)
    return len(amounts) >= 2 and (units > 0 or (len(amounts) >= 3 and 2 * len(amounts) >= len(words)))


def _quoted(line: str) -> str:
    return line.strip()[:_QUOTED]
