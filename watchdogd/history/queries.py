"""Queries of the history: incidents, events, notifications, gaps, users' actions and readings.

Also the state from which a starting daemon continues.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import inf, nan
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, or_, select

from watchdogd.history.measurements import fine, rows, series_of
from watchdogd.history.models import Change, Gap, Happening, Past, Reading, UserAction
from watchdogd.history.schema import (
    changes,
    check_states,
    events,
    facts,
    gaps,
    incidents,
    memories,
    notifications,
    pulses,
    starts,
    subjects,
    touches,
)
from watchdogd.history.sql import about, unpacked
from watchdogd.incidents.models import AlertState, CheckState, Incident, Silence
from watchdogd.notify.notification import Message, Notification
from watchdogd.plugin import Status
from watchdogd.system.smallfile import parse_json


def incidents_of(
    connection: Connection, *, open_only: bool = False, since: float | None = None, target: str | None = None
) -> list[Incident]:
    """Return incidents, newest first: those still open, or not resolved before `since`."""
    wanted: list[ColumnElement[bool]] = []
    if open_only:
        wanted.append(incidents.c.state != "resolved")
    if since is not None:
        wanted.append(or_(incidents.c.resolved_at.is_(None), incidents.c.resolved_at >= since))
    return unpacked_incidents(connection, *wanted, *about(incidents, target))


def incident_of(connection: Connection, identity: int) -> Incident | None:
    """Return an incident, or None where there is none with that number."""
    found = unpacked_incidents(connection, incidents.c.id == identity)
    return found[0] if found else None


def unpacked_incidents(connection: Connection, *wanted: ColumnElement[bool]) -> list[Incident]:
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
    """Return notifications created since a time and stored after the id `after`, in that order.

    `limit`: only so many of the last.
    """
    query = select(notifications).where(notifications.c.id > after, notifications.c.created_at >= since)
    if state is not None:
        query = query.where(notifications.c.state == state)
    rows = connection.execute(query.order_by(notifications.c.id.desc()).limit(limit)).mappings().all()
    return [_notification(row) for row in reversed(rows)]


def notification_of(connection: Connection, key: str) -> Notification | None:
    row = connection.execute(select(notifications).where(notifications.c.key == key)).mappings().first()
    return _notification(row) if row else None


def _notification(row: RowMapping) -> Notification:
    """Return the notification in a row, whose columns have the fields' names."""
    return Notification(**{**row, "message": unpacked(Message, row["message"])})


def events_of(connection: Connection, target: str | None = None, since: float = 0.0) -> list[Happening]:
    """Return events, oldest first."""
    query = select(events).where(events.c.at >= since * 1000, *about(events, target)).order_by(events.c.at)
    return [
        Happening(
            row.at / 1000, row.kind, row.run, row.check, row.incident or None, row.summary, bool(row.quiet)
        )
        for row in connection.execute(query)
    ]


def gaps_since(connection: Connection, since: float = 0.0) -> list[Gap]:
    """Return the gaps that ended after `since`, oldest first."""
    query = select(gaps).where(gaps.c.end >= since).order_by(gaps.c.begin)
    return [Gap(row.begin, row.end, row.reason) for row in connection.execute(query)]


def touches_since(connection: Connection, since: float = 0.0) -> list[UserAction]:
    """Return users' actions, oldest first."""
    query = select(touches).where(touches.c.at >= since * 1000).order_by(touches.c.at)
    return [UserAction(row.at / 1000, row.line) for row in connection.execute(query)]


def past(connection: Connection) -> tuple[Past, tuple[str, ...]]:
    """Return the state after the last round, and a line for each part of it that cannot be read."""
    known = _pairs(connection, facts.c.name, facts.c.value)
    alerts, troubles = _alerts(connection, known)
    round_at = known.get("last_round")
    kept = _pairs(connection, memories.c.check, memories.c.value)
    sound = {check: text for check, text in kept.items() if _is_object(text)}
    lost = [f"what {check} remembers cannot be read: it begins anew" for check in kept if check not in sound]
    return Past(
        alerts=alerts,
        memories=sound,
        started=_pairs(connection, starts.c.check, starts.c.at),
        last_round=float(round_at) if round_at else None,
        waiting=tuple(notifications_of(connection, state="waiting")),
    ), (*troubles, *lost)


def memories_of(connection: Connection, checks: Collection[str]) -> dict[str, str]:
    """Return the memories of checks as JSON; unreadable ones are left out."""
    asked = select(memories.c.check, memories.c.value).where(memories.c.check.in_(checks))
    return {row[0]: row[1] for row in connection.execute(asked) if _is_object(row[1])}


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_json(text), dict)
    except (TypeError, ValueError):
        return False


def _pairs(connection: Connection, key: ColumnElement[Any], value: ColumnElement[Any]) -> dict[str, Any]:
    return {row[0]: row[1] for row in connection.execute(select(key, value))}


def _alerts(connection: Connection, known: dict[str, str]) -> tuple[AlertState, tuple[str, ...]]:
    opened = {each.id: each for each in unpacked_incidents(connection, _REFERRED)}
    found: dict[tuple[str, str], CheckState] = {}
    troubles = []
    for check, subject, incident, value, at, streak, summary in connection.execute(_CHECK_STATES):
        try:
            state = unpacked(CheckState, value)
        except ValueError:
            troubles.append(
                f"what was known of {check} {subject}".rstrip() + " cannot be read: it is judged anew"
            )
            continue
        found[check, subject] = replace(
            state, at=at, attempts=streak, summary=summary, incident=opened.get(incident)
        )
    newest = connection.execute(select(func.max(incidents.c.id))).scalar() or 0
    alerts = AlertState(
        states=found,
        silences=unpacked(tuple[Silence, ...], known.get("silences", "[]")),
        next_id=max(int(known.get("next_id", 1)), newest + 1),
        pending_recoveries=unpacked(tuple[Incident, ...], known.get("pending_recoveries", "[]")),
    )
    return alerts, tuple(troubles)


_CHECK_STATES = select(
    check_states.c.check,
    check_states.c.subject,
    check_states.c.incident,
    check_states.c.value,
    pulses.c.at,
    pulses.c.streak,
    pulses.c.summary,
).join(pulses, pulses.c.id == check_states.c.id)
_REFERRED = incidents.c.id.in_(select(check_states.c.incident).where(check_states.c.incident.is_not(None)))


_STATUSES = tuple(Status)


def changes_of(connection: Connection, target: str | None = None, since: float = 0.0) -> list[Change]:
    """Return changes of status, oldest first; a target is a run, a disk or a check."""
    return [change for _subject, change in _changes(connection, target, since)]


def readings_of(connection: Connection, target: str | None = None, since: float = 0.0) -> list[Reading]:
    """Return all stored measurements and changes of status, oldest first."""
    wanted = about(subjects, target)
    known = {each.id: each for each in series_of(connection, wanted)}
    states = _States(connection, target, since)
    found: list[Reading] = []
    for identity, at, low, mean, high, _count in rows(connection, fine(connection), since, wanted):
        _, subject, run, check, name, metric, unit = known[identity]
        time = at / 1000
        found += states.turns(time)
        status, summary = states.now.get(subject, (Status.UNKNOWN, ""))
        value = nan if mean is None else mean
        found.append(Reading(time, run, check, name, status, metric, value, unit, summary, low, high))
    found += states.turns(inf)
    return found


class _States:
    """Status and summary of each subject as time proceeds."""

    def __init__(self, connection: Connection, target: str | None, since: float) -> None:
        self._since = since
        self._coming = list(_changes(connection, target, 0.0))
        self._coming.reverse()
        self.now: dict[int, tuple[Status, str]] = {}

    def turns(self, time: float) -> list[Reading]:
        """Proceed to `time`; return the changes of status on the way as readings without a value."""
        found = []
        while self._coming and self._coming[-1][1].at <= time:
            subject, (at, run, check, name, status, summary) = self._coming.pop()
            self.now[subject] = (status, summary)
            if at >= self._since:
                found.append(Reading(at, run, check, name, status, "", None, "", summary, None, None))
        return found


def _changes(connection: Connection, target: str | None, since: float) -> Iterator[tuple[int, Change]]:
    query: Any = (
        select(
            subjects.c.id,
            changes.c.at,
            subjects.c.run,
            subjects.c.check,
            subjects.c.subject,
            changes.c.status,
            changes.c.summary,
        )
        .join(subjects, subjects.c.id == changes.c.subject_id)
        .where(changes.c.at >= since * 1000, *about(subjects, target))
        .order_by(changes.c.at)
    )
    for identity, at, run, check, subject, status, summary in connection.execute(query):
        yield identity, Change(at / 1000, run, check, subject, _STATUSES[status], summary)
