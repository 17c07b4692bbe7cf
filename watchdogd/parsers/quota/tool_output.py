"""Output of a quota tool, read by several parsers in turn; lines that none of them understood are kept.

Amounts are parsed as tools print them: `617.5G`, `[1048576]`, `163840*`, `1,7G`, `4.88 GiB`, `0 Byte`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.models import BYTES, StorageLimit
from watchdogd.system.text import split_lines

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIMES = re.compile(r"(?<!\d)\d++(?:(?:[:.-]\d++){2,}|:\d++)")
_BETWEEN = re.compile(r"[\s|,;/()=]+")
_FIGURE = re.compile(r"\[?\d[\d.]*(?P<unit>[KMGTPE]i?B?|B|%)?\]?\*?", re.IGNORECASE)
_UNIT = re.compile(r"[KMGTPE]i?B|B|Bytes?|%", re.IGNORECASE)
_QUOTED = 200


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """Limits in an output, and what casts doubt on them.

    `unread`: lines with figures that no parser understood. `bare`: headings that no row follows. `doubt`:
    what the tool itself says against its figures.
    """

    limits: tuple[StorageLimit, ...] = ()
    unread: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()
    doubt: str = ""


class ToolOutput:
    """The lines of an output. Iteration skips those that an earlier parser has understood."""

    def __init__(self, text: str) -> None:
        self.doubt = ""
        self._lines = split_lines(_COLOUR.sub("", text))
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
        return self._at

    @property
    def understood(self) -> bool:
        return bool(self._known)

    def know(self, *numbers: int) -> None:
        """Mark these lines (without arguments: the current one) as understood."""
        self._known.update(numbers or (self._at,))

    def know_all(self) -> None:
        """Mark all lines as understood: the user's own pattern decides what is read."""
        self._known.update(range(len(self._lines)))

    def miss(self, *numbers: int) -> None:
        """Mark these lines (without arguments: the current one) as rows that cannot be understood."""
        self._missed.update(numbers or (self._at,))

    def bare(self, number: int) -> None:
        """Mark a heading that no row follows."""
        self._bare.append(number)

    @contextmanager
    def row(self) -> Iterator[None]:
        """Mark the current line as understood, or as missed if a cell raises UnreadableError."""
        try:
            yield
        except UnreadableError:
            self.miss()
        else:
            self.know()

    def reading(self, limits: Iterable[StorageLimit]) -> ParsedOutput:
        """Return the limits together with the lines that nobody understood."""
        unread = (
            line
            for number, line in enumerate(self._lines)
            if number in self._missed or (number not in self._known and holds_figures(line))
        )
        headings = tuple(_quoted(self._lines[number]) for number in self._bare)
        return ParsedOutput(tuple(limits), tuple(map(_quoted, unread)), headings, self.doubt)


def as_output(text: str | ToolOutput) -> ToolOutput:
    """Return the text as a ToolOutput, unless it already is one."""
    return text if isinstance(text, ToolOutput) else ToolOutput(text)


def holds_figures(line: str) -> bool:
    """Return True if a line looks like figures: two amounts, one with a unit, or mostly numbers."""
    words = [word for word in _BETWEEN.split(_TIMES.sub(" ", line)) if word]
    amounts = [match for word in words if (match := _FIGURE.fullmatch(word))]
    units = sum(bool(match["unit"]) for match in amounts) + sum(bool(_UNIT.fullmatch(word)) for word in words)
    return len(amounts) >= 2 and (units > 0 or (len(amounts) >= 3 and 2 * len(amounts) >= len(words)))


def _quoted(line: str) -> str:
    return line.strip()[:_QUOTED]


_AMOUNT = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)([KMGTPE]?)(I?)(?:B|BYTES?)?", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)", re.ASCII)
_ENDLESS = 2.0**63
"""Eight exbibytes: no file system holds more."""
_POWERS = " KMGTPE"
_NOTHING = frozenset({"", "-", "none", "unlimited", "null", "n/a", "unknown", "∞", "inf", "infinity", "-1"})


def parse_amount(text: str, *, bare: float = 1.0, base: int = 1024) -> float:
    """Parse an amount. `bare` is the unit of a number without suffix, `base` what a `k` means.

    The marks for "over the limit" (`*`) and "inaccurate" (`[]`) are ignored. A suffix with an `i` always
    means powers of 1024. Raise UnreadableError for anything else, including a counter that ran below zero
    (Lustre prints 18446744073709551615).
    """
    plain = text.strip().strip("[]*").replace(" ", "").replace("\u202f", "")
    plain = plain.replace(",", "") if _GROUPED.match(plain) else plain.replace(",", ".")
    match = _AMOUNT.fullmatch(plain)
    if not match:
        raise UnreadableError(f"'{text.strip()}' is no amount")
    number, prefix, binary = match.groups()
    has_unit = prefix or plain[-1:].isalpha()
    unit = (1024 if binary else base) ** _POWERS.index(prefix.upper() or " ") if has_unit else bare
    value = float(number) * unit
    if value >= _ENDLESS:
        raise UnreadableError(f"'{text.strip()}' is no amount: a counter ran below zero")
    return value


def parse_limit(text: str, *, bare: float = 1.0, base: int = 1024) -> float | None:
    """Parse a limit; 0, -1, `-`, `none`, `unlimited` and the largest number mean None, no limit."""
    if text.strip().strip("[]*").lower() in _NOTHING:
        return None
    try:
        return parse_amount(text, bare=bare, base=base) or None
    except UnreadableError:
        if re.fullmatch(r"[0-9]{16,20}", text.strip()) and float(text) * bare >= _ENDLESS:
            return None
        raise


def read_limit(
    kind: str,
    of: str,
    used: str,
    hard: str | None,
    soft: str = "",
    *,
    bare: float = 1.0,
    base: int | None = None,
    **more: Any,
) -> StorageLimit:
    """Build a limit from a tool's cells. Raise UnreadableError if one is not an amount.

    `bare` is the unit of bytes without a suffix, `base` what a `k` means (default: 1024 for bytes, 1000 for
    files); `more` are further fields of the limit.
    """
    units = (bare, base or 1024) if kind == BYTES else (1.0, base or 1000)
    held = parse_amount(used, bare=units[0], base=units[1])
    top, low = (parse_limit(cell or "", bare=units[0], base=units[1]) for cell in (hard, soft))
    return StorageLimit(kind, of, held, top, low, **more)


_LONGEST = 200


def first_line(text: str) -> str:
    """Return the first 200 characters of the first line with words; `no output` if there is none."""
    said = (line.strip() for line in split_lines(text) if any(each.isalnum() for each in line))
    return next((line[:_LONGEST] for line in said), "no output")
