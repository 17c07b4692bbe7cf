"""Routes: where an event goes, by its check, its severity, and what was reported of the incident. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdogd.incidents.models import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.incidents.models import IncidentEvent


@dataclass(frozen=True, slots=True)
class Route:
    """Route of one check's messages, and what to read when they come.

    `foreign`: its plugin is the user's own, so that any of its subjects may be one of many. `only`: the
    severities that go to some of the channels.
    """

    channels: tuple[str, ...] = ()
    runbook: str = ""
    foreign: bool = False
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageRules:
    """Rules that hold for all messages.

    `channels` for checks without a route. `threaded` are those that can take what is quiet without waking
    anybody, `standing` those at which what was told stands until it is told to be over. `only` are the
    severities that come to some channels, whatever the route. `name` is the daemon's.
    `host` is where it watches from. `command` is how its verbs are called for this home.
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
    """Return where one event goes, each channel once."""
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
    if event.calm:  # of people: everybody reads it, and no pager is woken
        return [name for name in dict.fromkeys(channels) if name not in rules.standing]
    if not event.quiet:
        return list(dict.fromkeys(channels))
    ended = sorted(rules.standing) if event.kind is EventKind.RESOLVED else ()
    fit = rules.threaded | rules.standing if _lowers(event) else rules.threaded
    return [name for name in dict.fromkeys((*channels, *ended)) if name in fit]


def _severities(event: IncidentEvent) -> frozenset[str]:
    """Return by which it is routed: an end and what eases by all that was told of the incident."""
    incident = event.incident
    if incident is None or event.kind is EventKind.NOTICE:
        return frozenset({word_of(event)})
    told = {status.name for status in (*incident.notified_as, incident.notified) if status is not None}
    ends = event.kind in (EventKind.RESOLVED, EventKind.EASED) and told
    return frozenset(told if ends else {incident.status.name})


def _lowers(event: IncidentEvent) -> bool:
    """Return whether less stands by it than was told: also the end of a check that is no more."""
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
