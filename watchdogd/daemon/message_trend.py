"""Trend of an incident's metric, for its message."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import WatchdogError
from watchdogd.incidents.models import EventKind, IncidentEvent, Observation
from watchdogd.notify.sparkline import trend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from watchdogd.daemon.registry.check_factory import Check

    Series = Callable[[str, float], Mapping[tuple[str, str], Sequence[tuple[float, float]]]]

SPAN = 86_400.0
AT_ONCE = 10
"""Events of one round whose trend is looked up."""
_SHOWN = (EventKind.OPENED, EventKind.WORSE, EventKind.REMINDER, EventKind.ESCALATION)


def with_trends(
    events: Iterable[IncidentEvent],
    checks: Iterable[Check],
    latest: Mapping[str, Iterable[Observation]],
    series: Series,
) -> tuple[IncidentEvent, ...]:
    """Return the events with a sparkline of the last day among their notes.

    It shows the metric that the check declares, in the unit of its `latest` results; of many events only the
    first AT_ONCE have one.
    """
    known = {check.name: trend for check in checks if (trend := check.entry.declared.trend)}
    found, left = [], AT_ONCE
    for event in events:
        asks = left > 0 and event.check in known and event.kind in _SHOWN and not event.quiet
        found.append(_with_trend(event, known, latest, series) if asks else event)
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
