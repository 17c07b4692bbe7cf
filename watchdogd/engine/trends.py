"""How what runs out went down: the course of the number that an incident is about, for its message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import WatchdogError
from watchdogd.incidents.models import Kind
from watchdogd.notify.sparkline import trend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from watchdogd.engine.checks import Check
    from watchdogd.incidents.models import Event

    Series = Callable[[str, float], Mapping[tuple[str, str], Sequence[tuple[float, float]]]]

COURSES = {"disk_quota": "free", "memory_leak": "left"}
"""By plugin, the metric (in bytes, or a number of inodes) whose course its messages show."""
SPAN = 86_400.0
AT_ONCE = 10
"""Events of one round that get theirs: each asks the history."""
_SHOWN = (Kind.OPENED, Kind.WORSE, Kind.REMINDER, Kind.ESCALATION)


def with_trends(events: Iterable[Event], checks: Iterable[Check], series: Series) -> tuple[Event, ...]:
    """The events, in a storm only the first ones, with the course of the last day among their notes."""
    known = {check.name: check for check in checks if check.entry.name in COURSES}
    found, left = [], AT_ONCE
    for event in events:
        shown = _with_trend(event, known, series) if event.check in known and left else event
        left -= shown is not event
        found.append(shown)
    return tuple(found)


def _with_trend(event: Event, checks: Mapping[str, Check], series: Series) -> Event:
    """The event with its course, where there is one and it can be read."""
    if event.incident is None or event.quiet or event.kind not in _SHOWN:
        return event
    metric = COURSES[checks[event.check].entry.name]
    subject = event.incident.subject
    try:
        points = series(event.check, event.at - SPAN).get((subject, metric), ())
    except WatchdogError:
        return event  # the message goes out without it
    line = trend(metric, points, "" if subject == "inodes" else "B")
    return replace(event, notes=(line, *event.notes)) if line else event
