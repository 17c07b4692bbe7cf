"""Cells of smi tools as numbers: N/A in its many forms, units by text, error words."""

from __future__ import annotations

import json
import re

from watchdogd.errors import UnreadableError
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
"""Letters of a line that are read: no tool prints more in one."""


def lines(text: str) -> list[str]:
    """The lines of an output as they were meant: without colours, without blanks at their ends."""
    return [line.rstrip()[:LONGEST] for line in _ANSI.sub("", text).replace("\r", "\n").split("\n")]


def first_line(text: str) -> str:
    """The first line that says something, of a traceback the last, to be quoted; `nothing` without one."""
    told = [line.strip()[:200] for line in lines(text) if line.strip(" =+-|")]
    return told[-1 if any(line.startswith("Traceback (most") for line in told) else 0] if told else "nothing"


def broken_json(tool: str, text: str, error: ValueError | RecursionError) -> UnreadableError:
    """What to raise of JSON that is broken, or cut: with the line where that shows.

    No more is known where it holds a number of thousands of digits, or is nested without end.
    """
    if not isinstance(error, json.JSONDecodeError):
        return UnreadableError(f"{tool}'s JSON cannot be read: '{text.strip()[:200]}'")
    if not error.doc[error.pos :].strip():
        last = text.rstrip().rpartition("\n")[2].strip()[:200]
        return UnreadableError(f"{tool}'s JSON is cut after '{last}'")
    line = error.doc.splitlines()[error.lineno - 1].strip()[:200]
    return UnreadableError(f"{tool}'s JSON is broken at '{line}'")


def absent(cell: str) -> bool:
    """Whether the cell is one of the words for nothing: N/A, [N/A], None, N/A (Secondary die)."""
    return _ABSENT.fullmatch(cell.strip()) is not None


def error(cell: str) -> str:
    """The error word in a cell (`ERR!`, `Unknown Error`, `GPU is lost`), or empty."""
    match = _ERROR.search(cell)
    return match[0] if match else ""


def fatal(word: str) -> bool:
    """Whether an error word says that the GPU is gone, not only a reading of it."""
    return _FATAL.search(word) is not None


def number(cell: str) -> float | None:
    """The number with which a cell begins (`45.0°C`, `97 %`, `303.0W`), or None."""
    match = _NUMBER.match(cell.strip())
    return real(match[0]) if match else None


def count(cell: str) -> int | None:
    """A whole number, or None."""
    value = number(cell)
    return None if value is None else int(value)


def megahertz(cell: str) -> float | None:
    """The number before MHz (`1410 MHz`, `800Mhz`, `1: (300Mhz)`), or None."""
    match = _CLOCK.search(cell)
    return float(match[1]) if match else None


def size(cell: str, unit: int = 1) -> int | None:
    """Bytes of `81559 MiB`, `0.3 GB`, or of a bare number of `unit`; MB and GB are powers of 1024 here."""
    match = _SIZE.fullmatch(cell.strip())
    if not match:
        return None
    power = " KMGT".index(match[2].upper() or " ")
    bare = real(match[1])
    return None if bare is None else round(bare * (1024**power if match[2] else unit))


def mebibytes(cell: str) -> int | None:
    """Bytes of a cell whose bare numbers are MiB: nvidia-smi's, with `nounits`."""
    return size(cell, MIB)


def text(cell: str) -> str | None:
    """The cell, or None where it is a word for nothing, or for an error."""
    return None if absent(cell) or error(cell) else cell.strip()


def yes(cell: str) -> bool | None:
    """True of Yes, False of No, None of all else; `Active`, `1` and their opposites too."""
    return {"yes": True, "active": True, "true": True, "1": True}.get(
        cell.strip().lower(), False if cell.strip().lower() in ("no", "not active", "false", "0") else None
    )
