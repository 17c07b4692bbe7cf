"""A check's results as a Nagios plugin prints them (Plugin Development Guidelines): text | perfdata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.cli.output import clean, one_line
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.incident import Observation
    from watchdogd.plugin import Metric


def worst(observations: Sequence[Observation]) -> Status:
    """The worst status; UNKNOWN where nothing was seen."""
    found = [seen.result.status for seen in observations]
    return max(found, key=lambda status: status.severity, default=Status.UNKNOWN)


def nagios(name: str, observations: Sequence[Observation]) -> str:
    """Status, first line, perfdata; then the other results and the details as long output."""
    ordered = sorted(observations, key=lambda seen: -seen.result.status.severity)
    if not ordered:
        return f"{name} UNKNOWN - the check said nothing"
    first, *others = ordered
    data = " ".join(_perfdata(label, metric) for seen in observations for label, metric in _labelled(seen))
    head = f"{name} {worst(observations).name} - {_text(first.result.summary)}"
    lines = [f"{head} | {data}" if data else head]
    lines += [f"{seen.result.status.name} - {_text(seen.result.summary)}" for seen in others]
    lines += [_text(line) for line in clean(first.result.details).splitlines()]
    return "\n".join(lines)


def _labelled(seen: Observation) -> list[tuple[str, Metric]]:
    subject = seen.result.subject
    return [
        (f"{subject}.{label}" if subject else label, metric) for label, metric in seen.result.metrics.items()
    ]


def _perfdata(label: str, metric: Metric) -> str:
    """`'label'=value[unit];[warn];[crit]`; thresholds that alert below are ranges (`10:`)."""
    name = label.replace("'", "").replace("=", "_")
    quoted = f"'{name}'" if " " in name else name
    below = metric.warn is not None and metric.crit is not None and metric.crit < metric.warn
    bounds = [
        "" if bound is None else f"{bound:.15g}{':' if below else ''}" for bound in (metric.warn, metric.crit)
    ]
    return f"{quoted}={metric.value:.15g}{metric.unit};{bounds[0]};{bounds[1]}".rstrip(";")


def _text(text: str) -> str:
    """One line without the bar that begins perfdata."""
    return one_line(text).replace("|", "¦")
