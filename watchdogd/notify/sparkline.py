"""Sparklines: a series as one line of text, and the last day of an incident's metric in its message."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import WatchdogError
from watchdogd.incidents.models import EventKind, IncidentEvent, Observation
from watchdogd.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Series = Callable[[str, float], Mapping[tuple[str, str], Sequence[tuple[float, float]]]]

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Bars in a line: what a phone shows without a break."""
SPAN = 86_400.0
AT_ONCE = 10
"""Events of one round whose trend is looked up."""
_SHOWN = (EventKind.OPENED, EventKind.WORSE, EventKind.REMINDER, EventKind.ESCALATION)


def with_trends(
    events: Iterable[IncidentEvent],
    metrics: Mapping[str, str],
    latest: Mapping[str, Iterable[Observation]],
    series: Series,
) -> tuple[IncidentEvent, ...]:
    """Return the events with a sparkline of the last day among their notes.

    It shows the metric that the check declares (`metrics`, by the check's name), in the unit of its `latest`
    results; of many events only the first AT_ONCE have one.
    """
    found, left = [], AT_ONCE
    for event in events:
        asks = left > 0 and event.check in metrics and event.kind in _SHOWN and not event.quiet
        found.append(_with_trend(event, metrics, latest, series) if asks else event)
        left -= asks
    return tuple(found)


def _with_trend(
    event: IncidentEvent,
    metrics: Mapping[str, str],
    latest: Mapping[str, Iterable[Observation]],
    series: Series,
) -> IncidentEvent:
    """Return the event with its sparkline, if there are readings."""
    if event.incident is None:
        return event
    metric = metrics[event.check]
    subject = event.incident.subject
    try:
        points = series(event.check, event.at - SPAN).get((subject, metric), ())
    except WatchdogError:
        return event  # the message goes out without it
    seen = (each.result for each in latest.get(event.check, ()) if each.result.subject == subject)
    unit = next((result.metrics[metric].unit for result in seen if metric in result.metrics), "")
    line = trend(metric, points, unit)
    return replace(event, notes=(line, *event.notes)) if line else event


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
