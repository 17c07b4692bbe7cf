"""Routing: which channels get an event, by its check, its severity, and what was reported before. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdogd.incidents.models import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.incidents.models import IncidentEvent


@dataclass(frozen=True, slots=True)
class Route:
    """Route of one check's messages, and its runbook.

    `foreign`: its plugin is a user's, so that any subject may be one of many. `only`: severities for some of
    the channels.
    """

    channels: tuple[str, ...] = ()
    runbook: str = ""
    foreign: bool = False
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageRules:
    """Rules for all messages.

    channels  for checks without a route
    threaded  channels that can take quiet messages without alerting anybody
    standing  channels that show an alert until its end is sent
    only      severities by channel, whatever the route
    name      of the daemon; `host` is its machine, `command` calls the verbs for its home
    """

    channels: tuple[str, ...] = ()
    escalate_to: tuple[str, ...] = ()
    threaded: frozenset[str] = field(default_factory=frozenset)
    standing: frozenset[str] = field(default_factory=frozenset)
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    name: str = "watchdogd"
    host: str = ""
    command: str = "watchdogd"


def channels_of(event: IncidentEvent, routes: Mapping[str, Route], rules: MessageRules) -> list[str]:
    """Return the channels of an event, without repeats."""
    route = routes.get(event.check)
    only = (route.only if route else {}, rules.only)
    severities = _severities(event)
    channels = tuple(
        name
        for name in (route.channels if route else rules.channels)
        if any(all(each in few.get(name, severities) for few in only) for each in severities)
    )
    if event.kind is EventKind.ESCALATION:
        channels = rules.escalate_to
    elif event.incident and event.incident.escalated_at is not None:
        channels = (*channels, *rules.escalate_to)
    if event.calm:  # an action of a person: everybody reads it, but no pager is alerted
        return [name for name in dict.fromkeys(channels) if name not in rules.standing]
    if not event.quiet:
        return list(dict.fromkeys(channels))
    ended = sorted(rules.standing) if event.kind is EventKind.RESOLVED else ()
    fit = rules.threaded | rules.standing if _lowers(event) else rules.threaded
    return [name for name in dict.fromkeys((*channels, *ended)) if name in fit]


def _severities(event: IncidentEvent) -> frozenset[str]:
    """Return the severities by which it is routed: for an end or an easing, all those reported."""
    incident = event.incident
    if incident is None or event.kind is EventKind.NOTICE:
        return frozenset({word_of(event)})
    told = {status.name for status in (*incident.notified_as, incident.notified) if status is not None}
    ends = event.kind in (EventKind.RESOLVED, EventKind.EASED) and told
    return frozenset(told if ends else {incident.status.name})


def _lowers(event: IncidentEvent) -> bool:
    """Return whether it lowers what was reported, including the end of a removed check."""
    incident = event.incident
    if incident is None or incident.notified is None:
        return False
    return event.kind is EventKind.RESOLVED or (event.kind is EventKind.EASED and not incident.silent)


def word_of(event: IncidentEvent) -> str:
    """Return the word in brackets."""
    if event.kind is EventKind.RESOLVED:
        return "RESOLVED"
    if event.kind is EventKind.REMINDER:
        return "REMINDER"
    if event.kind is EventKind.NOTICE:
        return event.label
    if event.kind is EventKind.ACKNOWLEDGED:
        return "INFO"
    return event.incident.status.name if event.incident else "OK"
