"""Records of what was decided, said and done: incidents, events, notifications, gaps, touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_, select

from watchdogd.history.forms import unpacked
from watchdogd.history.record import Gap, Happening, UserAction
from watchdogd.history.tables import events, gaps, incidents, notifications, touches
from watchdogd.history.target import about
from watchdogd.incidents.models import Incident
from watchdogd.notify.notification import Message, Notification

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, RowMapping


def incidents_of(
    connection: Connection, *, open_only: bool, since: float | None, target: str | None
) -> list[Incident]:
    """Incidents, newest first: those still open, or not resolved before `since`."""
    wanted: list[ColumnElement[bool]] = []
    if open_only:
        wanted.append(incidents.c.state != "resolved")
    if since is not None:
        wanted.append(or_(incidents.c.resolved_at.is_(None), incidents.c.resolved_at >= since))
    return unpacked_incidents(connection, *wanted, *about(incidents, target))


def incident_of(connection: Connection, identity: int) -> Incident | None:
    """One incident, or None where there is none of that number."""
    found = unpacked_incidents(connection, incidents.c.id == identity)
    return found[0] if found else None


def unpacked_incidents(connection: Connection, *wanted: ColumnElement[bool]) -> list[Incident]:
    """Incidents that meet all conditions, newest first."""
    query = select(incidents.c.value).where(*wanted).order_by(incidents.c.id.desc())
    return [unpacked(Incident, value) for (value,) in connection.execute(query)]


def notifications_of(
    connection: Connection,
    *,
    state: str | None = None,
    since: float = 0.0,
    after: int = 0,
    limit: int | None = None,
) -> list[Notification]:
    """Return notifications in the order in which they were stored; with `limit`, the last ones."""
    query = select(notifications).where(notifications.c.id > after, notifications.c.created_at >= since)
    if state is not None:
        query = query.where(notifications.c.state == state)
    rows = connection.execute(query.order_by(notifications.c.id.desc()).limit(limit)).mappings().all()
    return [_notification(row) for row in reversed(rows)]


def notification_of(connection: Connection, key: str) -> Notification | None:
    """One notification, or None where there is none of that key."""
    row = connection.execute(select(notifications).where(notifications.c.key == key)).mappings().first()
    return _notification(row) if row else None


def _notification(row: RowMapping) -> Notification:
    """Columns bear the fields' names."""
    return Notification(**{**row, "message": unpacked(Message, row["message"])})


def events_of(connection: Connection, target: str | None, since: float) -> list[Happening]:
    """Events, oldest first."""
    query = select(events).where(events.c.at >= since * 1000, *about(events, target)).order_by(events.c.at)
    return [
        Happening(
            row.at / 1000, row.kind, row.run, row.check, row.incident or None, row.summary, bool(row.quiet)
        )
        for row in connection.execute(query)
    ]


def gaps_since(connection: Connection, since: float) -> list[Gap]:
    """Read the times in which nobody watched that ended after `since`, oldest first."""
    query = select(gaps).where(gaps.c.end >= since).order_by(gaps.c.begin)
    return [Gap(row.begin, row.end, row.reason) for row in connection.execute(query)]


def touches_since(connection: Connection, since: float) -> list[UserAction]:
    """Who pressed what, oldest first."""
    query = select(touches).where(touches.c.at >= since * 1000).order_by(touches.c.at)
    return [UserAction(row.at / 1000, row.line) for row in connection.execute(query)]
