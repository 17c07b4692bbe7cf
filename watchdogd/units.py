"""Durations (`90s`, `1h30m`) and sizes (`2TB`, `500GiB`, `10%`), read and written.

Inside the program a duration is float seconds and a size is int bytes; a share is a float from 0 to 1.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from watchdogd.errors import UnitError

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 36_525 * 86_400.0
"""Seconds of the longest duration that is one, 100 years: what is added to now must stay a date."""
_FIRST, _LAST = -62_135_424_000.0, 253_402_128_000.0  # two days within years 1 and 9999, for any offset
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_DURATION_PART = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)([smhdw])")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe]?)(i?)b?", re.IGNORECASE)
_RATE = re.compile(r"([^/]+)/\s*(s|m|h|d|w)")


def parse_duration(text: object) -> float:
    """Seconds of `90s`, `15m`, `2h`, `3d`, `1w`, `1h30m`; a bare number is seconds. LONGEST at most."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        seconds: float = text
    else:
        compact = str(text).replace(" ", "").lower()
        if not _DURATION.fullmatch(compact):
            raise UnitError(f"'{text}' is no duration: write it as 90s, 15m, 2h, 3d or 1h30m")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(compact))
    if seconds > LONGEST:
        raise UnitError(f"'{text}' is longer than 100 years: write it as 90s, 15m, 2h, 3d or 1h30m")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """Return the two largest units: 5400 becomes `1h30m`, 0.4 becomes `0s`; parse_duration reads it."""
    left = round(seconds)
    parts = []
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if left >= length:
            parts.append(f"{left // length}{unit}")
            left %= length
    return "".join(parts[:2]) or "0s"


def parse_size(text: object) -> int:
    """Bytes of `2TB` (powers of 1000), `500GiB` (powers of 1024), `18.4TB`; a bare number is bytes."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _SIZE.fullmatch(str(text).strip())
    if not match:
        raise UnitError(f"'{text}' is no size: write it as 500GB, 2TB or 64GiB")
    number, prefix, binary = match.groups()
    power = "kmgtpe".index(prefix.lower()) + 1 if prefix else 0
    size: float = float(number) * (1024 if binary else 1000) ** power
    if not math.isfinite(size):
        raise UnitError(f"'{str(text)[:80]}' is no size that there is: write it as 500GB, 2TB or 64GiB")
    return round(size)


def format_size(count: float) -> str:
    """Three figures at most, in powers of 1000: 18400000000000 becomes `18.4 TB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if abs(size) < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} EB"


def parse_share(text: object) -> float:
    """0.8 of `80%`; a float from 0 to 1 is one already."""
    if isinstance(text, float) and 0 <= text <= 1:
        return text
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", str(text).strip())
    if not match or float(match[1]) > 100:
        raise UnitError(f"'{text}' is no percentage: write it as 80%")
    return float(match[1]) / 100


def parse_percent(text: object) -> float:
    """90.0 of `90%`, `90` and 90."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%?", str(text).strip())
    if not match or float(match[1]) > 100:
        raise UnitError(f"'{text}' is no percentage: write it as 90 or 90%")
    return float(match[1])


@dataclass(frozen=True)
class Amount:
    """A threshold that may be absolute or a share of the whole: `10TB`, `10%`, for inodes also `500000`."""

    absolute: int | None = None
    share: float | None = None

    def of(self, total: float) -> float:
        """Return its value where the whole is `total`."""
        return float(self.absolute) if self.absolute is not None else (self.share or 0.0) * total

    def __str__(self) -> str:
        """Return it as a person would write it."""
        return f"{self.absolute}" if self.absolute is not None else f"{(self.share or 0) * 100:g}%"


def parse_amount(text: object) -> Amount:
    """Return an Amount of `10TB`, `500000` or `10%`."""
    if isinstance(text, Amount):
        return text
    if str(text).strip().endswith("%"):
        return Amount(share=parse_share(text))
    try:
        return Amount(absolute=parse_size(text))
    except UnitError:
        raise UnitError(f"'{text}' is no size or percentage: write it as 2TB, 500GiB or 10%") from None


def parse_rate(text: object) -> float:
    """Bytes per second of `18.4TB/d`; a float is that already."""
    if isinstance(text, float) and text >= 0:
        return text
    match = _RATE.fullmatch(str(text).strip())
    if not match:
        raise UnitError(f"'{text}' is no writing rate: write it as 18.4TB/d or 500MB/s")
    return parse_size(match[1]) / _SECONDS[match[2]]


def iso(time: float) -> str:
    """Return a time (seconds since the epoch) as ISO 8601 with the local offset; the nearest that exists."""
    return (
        datetime.fromtimestamp(max(_FIRST, min(time, _LAST)), UTC).astimezone().isoformat(timespec="seconds")
    )


def local_time(time: float) -> str:
    """Return a time for people: `28 Nov 22:05:20 CET`, in the zone of this machine, with its name."""
    local = datetime.fromtimestamp(max(_FIRST, min(time, _LAST)), UTC).astimezone()
    return f"{local.day} {local:%b %H:%M:%S} {zone_name(time)}"


def zone_name(time: float) -> str:
    """Return the name of this machine's zone at a time: `CET`, `UTC+03` where it has none."""
    name = datetime.fromtimestamp(max(_FIRST, min(time, _LAST)), UTC).astimezone().tzname() or ""
    return name if name.isalpha() else f"UTC{name}"


def age(seconds: float) -> str:
    """Return a length of time for people: `90s`, `3m9s`, `4h10m`, `2d3h`."""
    step = 3600 if seconds >= 86400 else 60 if seconds >= 3600 else 1
    left = int(round(max(seconds, 0.0)) // step) * step
    return f"{left}s" if left < 120 and left % 60 else format_duration(left)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Marks a type as written by people: the configuration reads it with `parse` (pydantic finds it here)."""

    parse: Callable[[object], Any]

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> Any:
        """Return the schema for pydantic; imported late, since workers need no pydantic."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.parse)


Duration = Annotated[float, Parsed(parse_duration)]
Size = Annotated[int, Parsed(parse_size)]
Share = Annotated[float, Parsed(parse_share)]
Percent = Annotated[float, Parsed(parse_percent)]
AmountField = Annotated[Amount, Parsed(parse_amount)]
Rate = Annotated[float, Parsed(parse_rate)]


def finite(value: float | None) -> float | None:
    """Return a number as JSON can say it: None for NaN and infinity. All else as it is."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
