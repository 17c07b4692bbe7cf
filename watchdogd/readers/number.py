"""Numbers in foreign text: the one place in which digits that somebody else wrote become values.

int() and float() take more than a tool ever prints (`nan`, `1_000`, digits of all scripts), and end where
isdigit says yes (`²`) or more than 4,300 digits stand. Here what is no plain, finite number is None.
"""

from __future__ import annotations

import math
import re

LONGEST = 18
"""Digits of the longest whole number that is one: what fits into 64 bits, whatever is added to it."""
_WHOLE = re.compile(rf"[+-]?[0-9]{{1,{LONGEST}}}")
_REAL = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,5})?")


def whole(text: object) -> int | None:
    """A whole number (`12`, `-1`, 12, 12.0) of LONGEST digits at most, or None; a truth value is none."""
    if isinstance(text, bool):
        return None
    if isinstance(text, float):
        return int(text) if text.is_integer() and abs(text) < 10**LONGEST else None
    if isinstance(text, int):
        return text if abs(text) < 10**LONGEST else None
    return int(text.strip()) if isinstance(text, str) and _WHOLE.fullmatch(text.strip()) else None


def count(text: object) -> int | None:
    """A whole number that is not negative and bears no sign, or None."""
    signed = isinstance(text, str) and text.strip()[:1] in ("+", "-")
    number = None if signed else whole(text)
    return number if number is not None and number >= 0 else None


def real(text: object) -> float | None:
    """A finite number (`1.5`, `2e-3`, `.5`, 7), or None: NaN, infinite, endless; a truth value is none."""
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
