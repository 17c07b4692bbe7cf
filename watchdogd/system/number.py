"""Numbers in foreign text: the one place where digits written by other programs become values.

int() and float() accept more than any tool prints (`nan`, `1_000`, digits of all scripts), and raise where
isdigit says yes (`²`) or for more than 4,300 digits. Here anything but a plain, finite number is None.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import TypeVar

Number = TypeVar("Number", int, float)

LONGEST = 18
"""Maximum digits of an integer: what fits into 64 bits, even after an addition."""
LARGEST = 10**LONGEST - 1
_LEAP = re.compile(r":60(?![0-9])")
_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{LONGEST}}}")
_REAL = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?")


def whole(text: object) -> int | None:
    """Return an integer (`12`, `-1`, 12, 12.0) of LONGEST digits at most, else None; also for a bool."""
    if isinstance(text, bool):
        return None
    if isinstance(text, float):
        return int(text) if text.is_integer() and abs(text) < 10**LONGEST else None
    if isinstance(text, int):
        return text if abs(text) < 10**LONGEST else None
    return int(text.strip()) if isinstance(text, str) and _WHOLE.fullmatch(text.strip()) else None


def count(text: object) -> int | None:
    """Return a non-negative integer without sign, or None."""
    signed = isinstance(text, str) and text.strip()[:1] in ("+", "-")
    number = None if signed else whole(text)
    return number if number is not None and number >= 0 else None


def real(text: object) -> float | None:
    """Return a finite number (`1.5`, `2e-3`, `.5`, 7), else None; also for a bool."""
    if isinstance(text, str):
        number = float(text) if _REAL.fullmatch(text.strip()) else math.nan
    elif isinstance(text, int | float) and not isinstance(text, bool):
        try:
            number = float(text)
        except OverflowError:
            return None
    else:
        return None
    return number if math.isfinite(number) else None


def digits(text: str) -> int:
    """Return the value of digits matched by a pattern: LARGEST where there are more than LONGEST."""
    return LARGEST if len(text) > LONGEST and len(text.lstrip("0")) > LONGEST else int(text[-LONGEST:])


def needed(number: Number | None) -> Number:
    """Return the number; ValueError where it is None."""
    if number is None:
        raise ValueError("a number is missing")
    return number


def moment(text: str, form: str = "") -> float | None:
    """Return seconds since the epoch of an ISO 8601 time, or one in strptime's `form`; local without offset.

    A leap second counts as the one before. None where it is no time, or beyond the clock's range.
    """
    text = _LEAP.sub(":59", text.strip())
    try:
        at = datetime.strptime(text, form).astimezone() if form else datetime.fromisoformat(text)
        return at.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
