"""A check's results as a Nagios plugin prints them (Plugin Development Guidelines): text | perfdata."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from watchdogd.cli.output import clean, one_line
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.incidents.models import Observation
    from watchdogd.plugin import Metric


_LINES = 50
"""Results and lines of details behind the first line: Nagios and NRPE cut off what is long."""
_NAMED = 5
"""Subjects named in the first line."""
_DATA = 4000
"""Characters of numbers: with the text they fit into the 8 KiB that Nagios reads."""


def worst(observations: Sequence[Observation]) -> Status:
    """The worst status; UNKNOWN where nothing was seen."""
    found = [seen.result.status for seen in observations]
    return max(found, key=lambda status: status.severity, default=Status.UNKNOWN)


def nagios(name: str, observations: Sequence[Observation]) -> str:
    """Status and a first line that stands for all, perfdata; then the other results and the details."""
    ordered = sorted(observations, key=lambda seen: -seen.result.status.severity)
    if not ordered:
        return f"{name} UNKNOWN - the check said nothing"
    first, *others = ordered
    head = f"{name} {worst(observations).name} - {_text(first.result.summary)}{_rest(ordered)}"
    data = _bounded([_perfdata(label, metric) for seen in ordered for label, metric in _labelled(seen)])
    lines = [f"{seen.result.status.name} - {_text(seen.result.summary)}" for seen in others]
    lines += [_text(line) for line in clean(first.result.details).splitlines()]
    left = len(lines) - _LINES
    more = [f"and {left} more: watchdogd check {_text(name)} --json"] if left > 0 else []
    return "\n".join([f"{head} | {data}" if data else head, *lines[:_LINES], *more])


def _rest(ordered: Sequence[Observation]) -> str:
    """How many others there are, and which of all are not OK; empty where there is one alone."""
    if len(ordered) == 1:
        return ""
    bad = [seen.result.subject or "itself" for seen in ordered if seen.result.status is not Status.OK]
    if not bad:
        return f" (all {len(ordered)} OK)"
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f" ({len(bad)} of {len(ordered)} not OK: {', '.join(map(_text, bad[:_NAMED]))}{more})"


def _bounded(items: Sequence[str]) -> str:
    """As many whole items as fit."""
    ends = itertools.accumulate(len(item.encode()) + 1 for item in items)
    return " ".join(item for item, end in zip(items, ends, strict=True) if end <= _DATA)


def _labelled(seen: Observation) -> list[tuple[str, Metric]]:
    subject = seen.result.subject
    return [
        (f"{subject}.{label}" if subject else label, metric)
        for label, metric in seen.result.metrics.items()
        if math.isfinite(metric.value)
    ]


def _perfdata(label: str, metric: Metric) -> str:
    """`'label'=value[unit];[warn];[crit]`; thresholds that alert below are ranges (`10:`)."""
    name = _text(label).replace("'", "").replace("=", "_")
    quoted = f"'{name}'" if " " in name else name
    below = metric.warn is not None and metric.crit is not None and metric.crit < metric.warn
    bounds = [
        "" if bound is None else f"{bound:.15g}{':' if below else ''}" for bound in (metric.warn, metric.crit)
    ]
    return f"{quoted}={metric.value:.15g}{metric.unit};{bounds[0]};{bounds[1]}".rstrip(";")


def _text(text: str) -> str:
    """One line without the bar that begins perfdata."""
    return one_line(text).replace("|", "¦")
