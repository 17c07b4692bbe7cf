"""Values as rows, in the order of the columns of their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.history.forms import packed, storable
from watchdogd.incidents.models import LABELS, CheckState, EventKind, Incident
from watchdogd.notify.notification import Message

if TYPE_CHECKING:
    from watchdogd.history.statements import Row
    from watchdogd.incidents.models import IncidentEvent
    from watchdogd.notify.notification import Notification


def milliseconds(time: float) -> int:
    """Convert a time to what readings and changes have."""
    return round(time * 1000)


def standing_row(identity: int, standing: CheckState) -> Row:
    """Make the row of a standing; its incident is a row of its own."""
    incident = standing.incident.id if standing.incident else None
    value = packed(CheckState, standing, {"incident"})
    return (identity, storable(standing.check), storable(standing.subject), incident, value)


def incident_row(incident: Incident) -> Row:
    """Make the row of an incident: what is asked for as columns, and all of it as JSON."""
    return (
        incident.id,
        storable(incident.check),
        storable(incident.run),
        storable(incident.target),
        storable(incident.subject),
        int(incident.status),
        incident.state,
        incident.opened_at,
        incident.resolved_at,
        storable(incident.summary),
        storable(incident.details),
        packed(Incident, incident),
    )


def kind_of(event: IncidentEvent) -> str:
    """Return what happened: a notice is one (INFO), or is named by its label: `action`, `warning`."""
    told = event.kind is EventKind.NOTICE and event.label != LABELS[0]
    return event.label.lower() if told else event.kind.value


def event_row(event: IncidentEvent) -> Row:
    """Make the row of an event; what it says beyond its first line is in incident and notification."""
    return (
        milliseconds(event.at),
        kind_of(event),
        storable(event.check),
        storable(event.summary),
        event.incident.id if event.incident else 0,
        storable(event.run),
        storable(event.target),
        event.quiet,
    )


def notification_row(notification: Notification) -> Row:
    """Make the row of a notification without its id, which the database gives."""
    return (
        storable(notification.key),
        storable(notification.channel),
        notification.created_at,
        notification.state,
        notification.attempts,
        notification.next_try,
        notification.sent_at,
        storable(notification.failure),
        storable(notification.receipt),
        packed(Message, notification.message),
    )
