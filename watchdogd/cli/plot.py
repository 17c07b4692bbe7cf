"""Numbers over time, drawn in the terminal with block elements: a column a span of time. Pure."""

from __future__ import annotations

import itertools
import math
from datetime import datetime
from typing import TYPE_CHECKING

from watchdogd.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    Points = Sequence[tuple[float, float]]

HEIGHT = 8
"""Lines that a chart is high, without its title and its times."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL = 9
"""Signs for the numbers at the left."""


def chart(title: str, unit: str, points: Points, since: float, until: float, width: int) -> list[str]:
    """Lines no wider than `width`. `points` are (seconds since the epoch, value), oldest first; what is no
    number is left out, and a time without any is blank."""
    columns = columns_of(points, since, until, max(width - _LABEL - 2, 8))
    known = [value for value in columns if value is not None]
    if not known:
        return [f"{title}: nothing was measured"]
    low, high = _range(min(known), max(known))
    lines = [f"{title}: {label(known[-1], unit)} at last"]
    for row in range(HEIGHT - 1, -1, -1):
        mark = label(high, unit) if row == HEIGHT - 1 else label(low, unit) if row == 0 else ""
        drawn = "".join(_sign(value, row, low, high) for value in columns)
        lines.append(f"{mark:>{_LABEL}} ┤{drawn}".rstrip())
    return [*lines, _times(since, until, len(columns))]


def columns_of(points: Points, since: float, until: float, count: int) -> list[float | None]:
    """The mean of each of `count` equal spans; where two readings lie further apart than a span, the column
    between them has the earlier one's, up to three times the usual distance."""
    span = max(until - since, 1.0) / count
    sums = [(0.0, 0)] * count
    good = [(at, value) for at, value in points if math.isfinite(value) and since <= at <= until]
    for at, value in good:
        index = min(int((at - since) / span), count - 1)
        sums[index] = (sums[index][0] + value, sums[index][1] + 1)
    means: list[float | None] = [total / number if number else None for total, number in sums]
    gaps = sorted(after - before for (before, _), (after, _) in itertools.pairwise(good))
    reach = math.ceil(3 * gaps[len(gaps) // 2] / span) if gaps else 0
    return _filled(means, reach)


def _filled(means: list[float | None], reach: int) -> list[float | None]:
    """Short holes between two values take the earlier one; the end stays as it is."""
    filled, last = list(means), None
    for index, value in enumerate(means):
        if value is None:
            continue
        if last is not None and index - last <= reach:
            filled[last + 1 : index] = [means[last]] * (index - last - 1)
        last = index
    return filled


def label(value: float, unit: str) -> str:
    """A number with its unit, short."""
    if unit == "B":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 10 else f"{value:.3g} s"
    shown = f"{value:.4g}" if abs(value) < 1e6 else f"{value:.3g}"
    return f"{shown} {unit}".rstrip()


def _range(low: float, high: float) -> tuple[float, float]:
    """From the lowest to the highest; a line in the middle where nothing changed."""
    if high > low:
        return low, high
    margin = abs(low) or 1.0
    return low - margin, high + margin


def _sign(value: float | None, row: int, low: float, high: float) -> str:
    if value is None:
        return " "
    filled = (value - low) / (high - low) * (HEIGHT * 8 - 1) + 1
    return _BLOCKS[min(max(round(filled) - row * 8, 0), 8)]


def _times(since: float, until: float, width: int) -> str:
    """The line below: when it begins and ends."""
    form = "%H:%M" if until - since <= 86400 else "%d %b %H:%M"
    begin, end = (datetime.fromtimestamp(at).astimezone().strftime(form) for at in (since, until))
    return " " * (_LABEL + 1) + "└" + begin + end.rjust(width - len(begin))
