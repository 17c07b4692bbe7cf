"""Sparklines: a series as one line of text, for any channel and a phone's lock screen. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from watchdogd.units import format_duration, format_size

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Bars in a line: what a phone shows without a break."""


def trend(what: str, points: Sequence[tuple[float, float]], unit: str = "") -> str:
    """Return `free in the last 23h: █▇▆▅▃▂▁ from 9.3 TB to 1.1 TB` for (time, value) pairs, oldest first.

    Empty for fewer than three readings, or readings of one moment. `unit`: the metric's.
    """
    known = [(at, value) for at, value in points if math.isfinite(value)]
    if len(known) < 3 or known[-1][0] <= known[0][0]:
        return ""
    first, last = (_amount(known[end][1], unit) for end in (0, -1))
    span = format_duration(known[-1][0] - known[0][0])
    return f"{what} in the last {span}: {sparkline(known)} from {first} to {last}"


def sparkline(points: Sequence[tuple[float, float]], width: int = WIDTH) -> str:
    """Return bars for `width` equal spans of time, as high as their means; an empty span repeats."""
    begin, end = points[0][0], points[-1][0]
    slots: list[list[float]] = [[] for _ in range(width)]
    for at, value in points:
        slots[min(int((at - begin) / (end - begin) * width), width - 1)].append(value)
    means: list[float] = []
    for slot in slots:
        means.append(sum(slot) / len(slot) if slot else means[-1])  # the first slot has the first reading
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)


def _amount(value: float, unit: str) -> str:
    if unit == "B":
        return format_size(value)
    return f"{value:,.6g}" + (f" {unit}" if unit else "")
