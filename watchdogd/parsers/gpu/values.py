"""Values that GPU tools print, as numbers; and named cells as a Gpu.

Covers the many forms of N/A, units written as text, and error words. Each field of a Gpu has patterns for the
names by which tools call it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.system.number import real

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_ABSENT = re.compile(
    r"\[?\s*+(?:n/?a\b(?s:.*)|none|unsupported|not supported|not available|unknown|<redacted>|-"
    r"|requested functionality has been deprecated|insufficient permissions|(?:function )?not found"
    r")?\s*\]?",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"ERR!|unknown error|gpu is lost|requires? reset|fallen off the bus|not in ready state", re.IGNORECASE
)
_FATAL = re.compile(r"gpu is lost|requires? reset|fallen off the bus", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_CLOCK = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)\s*+MHz", re.IGNORECASE)
MIB = 1 << 20
LONGEST = 8192
"""Characters of a line that are read; no tool prints longer lines."""


def lines(text: str) -> list[str]:
    """Split an output into lines, without colours and trailing blanks."""
    return [line.rstrip()[:LONGEST] for line in _ANSI.sub("", text).replace("\r", "\n").split("\n")]


def first_line(text: str) -> str:
    """Return the first line with words, for quoting (of a traceback the last); `nothing` if there is none."""
    found = [line.strip()[:200] for line in lines(text) if line.strip(" =+-|")]
    return (
        found[-1 if any(line.startswith("Traceback (most") for line in found) else 0] if found else "nothing"
    )


def broken_json(tool: str, text: str, error: ValueError | RecursionError) -> UnreadableError:
    """Return the error to raise for broken or cut JSON, with the offending line if it is known.

    It is not known for a number of thousands of digits, or for endless nesting.
    """
    if not isinstance(error, json.JSONDecodeError):
        return UnreadableError(f"{tool}'s JSON cannot be read: '{text.strip()[:200]}'")
    if not error.doc[error.pos :].strip():
        last = text.rstrip().rpartition("\n")[2].strip()[:200]
        return UnreadableError(f"{tool}'s JSON is cut after '{last}'")
    line = error.doc.split("\n")[error.lineno - 1].strip()[:200]
    return UnreadableError(f"{tool}'s JSON is broken at '{line}'")


def is_absent(cell: str) -> bool:
    """Return True if the cell means "no value": N/A, [N/A], None, N/A (Secondary die)."""
    return _ABSENT.fullmatch(cell.strip()) is not None


def error_word(cell: str) -> str:
    """Return the error word in a cell (`ERR!`, `Unknown Error`, `GPU is lost`), or empty."""
    match = _ERROR.search(cell)
    return match[0] if match else ""


def number(cell: str) -> float | None:
    """Return the number at the beginning of a cell (`45.0°C`, `97 %`, `303.0W`), or None."""
    match = _NUMBER.match(cell.strip())
    return real(match[0]) if match else None


def count(cell: str) -> int | None:
    value = number(cell)
    return None if value is None else int(value)


def megahertz(cell: str) -> float | None:
    """Return the number before MHz (`1410 MHz`, `800Mhz`, `1: (300Mhz)`), or None."""
    match = _CLOCK.search(cell)
    return real(match[1]) if match else None


def size(cell: str, unit: int = 1) -> int | None:
    """Return the bytes in `81559 MiB`, `0.3 GB` or a bare number of `unit`; GPU tools mean GiB by GB."""
    match = _SIZE.fullmatch(cell.strip())
    if not match:
        return None
    power = " KMGT".index(match[2].upper() or " ")
    bare = real(match[1])
    return None if bare is None else round(bare * (1024**power if match[2] else unit))


def mebibytes(cell: str) -> int | None:
    """Return the bytes in a cell whose bare numbers are MiB, such as nvidia-smi's with `nounits`."""
    return size(cell, MIB)


def text(cell: str) -> str | None:
    """Return the cell, or None if it means "no value" or is an error word."""
    return None if is_absent(cell) or error_word(cell) else cell.strip()


def yes(cell: str) -> bool | None:
    """Return True for Yes, Active, true or 1, False for their opposites, else None."""
    return {"yes": True, "active": True, "true": True, "1": True}.get(
        cell.strip().lower(), False if cell.strip().lower() in ("no", "not active", "false", "0") else None
    )


Facts = dict[str, str]
"""Cells of one GPU in a tool's output, by name."""

_LONGEST_NAME = 300
"""Characters of a cell's name that are compared."""


_PLAUSIBLE = {
    "utilisation": 100.0,
    "vram_percent": 100.0,
    "power_w": 20_000.0,
    "power_cap_w": 20_000.0,
    "temperature_c": 250.0,
    "slowdown_c": 250.0,
    "ecc_uncorrectable": 1_048_559.0,
}
"""Upper limits: a larger value is a register full of ones (65535, 4294967295), a driver's way of not knowing.
AMD's error counters add 1048560 at each reading while the memory sleeps."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Cells that may hold one field of a Gpu, best first; `read` returns None for no value."""

    field: str
    names: tuple[re.Pattern[str], ...]
    read: Callable[[str], Any]


_READERS: Mapping[str, Callable[[str], Any]] = {
    "text": text,
    "number": number,
    "count": count,
    "bytes": size,
    "MiB": mebibytes,
    "MHz": megahertz,
    "yes": yes,
}


def rules(table: str) -> tuple[FieldRule, ...]:
    """Parse a table of rules. A line has a field, its reader, and patterns for names of cells, best first.

    Columns are separated by two blanks. Patterns match the whole name in any case. If a field has several
    lines, the first that can be read counts.
    """
    rows = (re.split(r" {2,}", line.strip()) for line in table.strip().splitlines())
    return tuple(
        FieldRule(field, tuple(re.compile(name, re.IGNORECASE) for name in names), _READERS[read])
        for field, read, *names in rows
    )


def gpu_of(facts: Mapping[str, str], rules: Sequence[FieldRule], **given: Any) -> Gpu:
    """Build the Gpu from the cells in `facts`; fields in `given` are taken as they are."""
    found = dict(given)
    for each in rules:
        if found.get(each.field) is None and (read := _first(each, facts)) is not None:
            found[each.field] = read
    return _plausible_memory(Gpu(**found, **_errors(facts, found)))


def _plausible_memory(gpu: Gpu) -> Gpu:
    """Drop the memory in use if it exceeds the total."""
    used, total = gpu.vram_used, gpu.vram_total
    return replace(gpu, vram_used=None) if used is not None and total is not None and used > total else gpu


def _first(each: FieldRule, facts: Mapping[str, str]) -> Any:
    """Return the first readable cell with one of the rule's names: N/A never hides a number."""
    for pattern in each.names:
        for name, cell in facts.items():
            if (
                pattern.fullmatch(name[:_LONGEST_NAME])
                and (read := each.read(cell)) is not None
                and (each.field not in _PLAUSIBLE or read <= _PLAUSIBLE[each.field])
            ):
                return read
    return None


def _errors(facts: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return error words: as `trouble` if the GPU is gone or has no live reading left, else as `doubts`."""
    wrong = {name: word for name, cell in facts.items() if (word := error_word(cell))}
    serious = [word for name, word in wrong.items() if "fan" not in name.lower()]
    alive = found.get("utilisation") is not None or found.get("power_w") is not None
    gone = next((word for word in serious if _FATAL.search(word)), "")
    if gone or (serious and not alive):
        return {"trouble": gone or serious[0]}
    return {"doubts": tuple(f"{name}: {word}" for name, word in wrong.items())}


def throttling(facts: Mapping[str, str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return the reasons (first group of `pattern`) whose cells are active."""
    matches = [(pattern.fullmatch(name[:_LONGEST_NAME]), cell) for name, cell in facts.items()]
    return tuple(match[1].replace("_", " ").lower() for match, cell in matches if match and yes(cell))


def readout(
    tool: str,
    text: str,
    sources: Iterable[Mapping[int, Facts]],
    make: Callable[[int, Facts], Gpu],
    absent: re.Pattern[str],
) -> Readout:
    """Build the GPUs from the cells of all `sources`, by GPU number.

    `absent` matches a line that says that there is no GPU. Raise UnreadableError, with the first line, if the
    output is not this tool's.
    """
    cards: dict[int, Facts] = defaultdict(dict)
    for source in sources:
        for index, facts in source.items():
            cards[index].update(facts)
    if cards:
        return Readout(tuple(make(index, facts) for index, facts in sorted(cards.items())))
    if missing := next((line.strip() for line in lines(text) if absent.search(line)), ""):
        return Readout(absent=missing)
    raise UnreadableError(f"{tool} says nothing of GPUs: '{first_line(text)}'")
