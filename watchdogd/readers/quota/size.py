"""Amounts as quota tools print them: `617.5G`, `[1048576]`, `163840*`, `1,7G`, `4.88 GiB`, `0 Byte`."""

from __future__ import annotations

import re

from watchdogd.errors import UnreadableError

_AMOUNT = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)([KMGTPE]?)(I?)(?:B|BYTES?)?", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)", re.ASCII)
_ENDLESS = 2.0**63
"""As a size eight exbibytes: more than any file system holds."""
_POWERS = " KMGTPE"
_NOTHING = frozenset({"", "-", "none", "unlimited", "null", "n/a", "unknown", "∞", "inf", "infinity", "-1"})


def amount(text: str, *, bare: float = 1.0, base: int = 1024) -> float:
    """The number that a tool means. `bare` is the unit of one without a suffix, `base` what a `k` is.

    Marks for "over the limit" (`*`) and "inaccurate" (`[]`) are no part of it. A suffix with an `i` always
    means powers of 1024. UnreadableError for anything else, also for a counter that ran below zero
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


def limit(text: str, *, bare: float = 1.0, base: int = 1024) -> float | None:
    """A limit: 0, -1, `-`, `none` and `unlimited` mean that there is none, and so does the largest number."""
    if text.strip().strip("[]*").lower() in _NOTHING:
        return None
    try:
        return amount(text, bare=bare, base=base) or None
    except UnreadableError:
        if re.fullmatch(r"[0-9]{16,20}", text.strip()) and float(text) * bare >= _ENDLESS:
            return None
        raise
