"""Writer of rounds: differences from the last one written, as rows; one statement for each table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter

from sqlalchemy import Connection, select

from watchdogd.history import retention, schema, sql
from watchdogd.history.models import STALLED, Record
from watchdogd.history.schema import check_states, series, starts, subjects
from watchdogd.history.sql import Ids, NotedIds, Row, add, number, packed, put, remove, set_statuses, storable
from watchdogd.incidents.models import (
    LABELS,
    AlertState,
    CheckState,
    EventKind,
    Incident,
    IncidentEvent,
    Observation,
    Silence,
)
from watchdogd.notify.notification import Message, Notification


def milliseconds(time: float) -> int:
    """Return a time in the unit of readings and changes."""
    return round(time * 1000)


def check_state_row(identity: int, state: CheckState) -> Row:
    """Return the row of a check state, without its incident, which has its own."""
    incident = state.incident.id if state.incident else None
    value = packed(CheckState, state, {"incident"})
    return (identity, storable(state.check), storable(state.subject), incident, value)


def incident_row(incident: Incident) -> Row:
    """Return the row of an incident: searchable fields as columns, and all of it as JSON."""
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
    """Return the kind of an event; a notice is named by its label, unless that is INFO: `action`."""
    labelled = event.kind is EventKind.NOTICE and event.label != LABELS[0]
    return event.label.lower() if labelled else event.kind.value


def event_row(event: IncidentEvent) -> Row:
    """Return the row of an event; all but its first line is in incident and notification."""
    return (
        milliseconds(event.at),
        kind_of(event),
        storable(event.check),
        storable(event.told),
        event.incident.id if event.incident else 0,
        storable(event.run),
        storable(event.target),
        event.quiet,
    )


def notification_row(notification: Notification) -> Row:
    """Return the row of a notification without its id, which the database assigns."""
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


_PULSE = frozenset({"at", "attempts", "summary"})
_steady = attrgetter(*(field.name for field in fields(CheckState) if field.name not in _PULSE))
"""Fields of a check state that most results leave unchanged."""


class Writer:
    """Writer that knows the ids in the database and what it wrote last, until a transaction fails."""

    def __init__(self, connection: Connection) -> None:
        sql.prepare(connection)
        for form in (CheckState, Incident, Message):  # milliseconds each, which no incident should wait for
            sql.adapter(form)
        self._measured = _Measured(connection)
        self._ids = Ids(
            connection.execute(select(check_states.c.id, check_states.c.check, check_states.c.subject))
        )
        self._starts = Ids(connection.execute(select(starts.c.id, starts.c.check)))
        self._check_states: Mapping[tuple[str, str], CheckState] = {}
        self._incidents: dict[int, Incident] = {}
        self._facts: dict[str, str] = {}

    def write(self, connection: Connection, record: Record) -> list[Row]:
        """Write one round in the current transaction; return the rows of `readings`."""
        measured = self._measured.write(connection, record.observations)
        self._write_check_states(connection, record.alerts.states)
        self._write_incidents(connection, record)
        add(connection, schema.events, [event_row(event) for event in record.events])
        add(connection, schema.notifications, [notification_row(each) for each in record.notifications])
        kept = [(storable(check), storable(memory)) for check, memory in record.memories.items()]
        put(connection, schema.memories, kept)
        started = [(self._starts.of((check,)), storable(check), at) for check, at in record.started.items()]
        put(connection, schema.starts, started)
        add(connection, schema.gaps, [(gap.begin, gap.end, storable(gap.reason)) for gap in record.gaps])
        touches = [(milliseconds(record.at), storable(line)) for line in record.touches]
        add(connection, schema.touches, touches)
        self._write_facts(connection, record)
        return measured

    def _write_check_states(
        self, connection: Connection, alerts: Mapping[tuple[str, str], CheckState]
    ) -> None:
        written = self._check_states
        changed: list[Row] = []
        pulses: list[Row] = []
        for key, state in alerts.items():
            before = written.get(key)
            if state is not before:
                identity = self._ids.of(key)
                pulses.append((identity, state.at, state.attempts, storable(state.summary)))
                if before is None or _steady(state) != _steady(before):
                    changed.append(check_state_row(identity, state))
        gone = [self._ids.forget(key) for key in self._ids.keys() - alerts.keys()]
        for table in (schema.check_states, schema.pulses):
            remove(connection, table, gone)
        put(connection, schema.check_states, changed)
        put(connection, schema.pulses, pulses)
        self._check_states = dict(alerts)

    def _write_incidents(self, connection: Connection, record: Record) -> None:
        """Write the incidents of the events, and the open ones."""
        present = {event.incident.id: event.incident for event in record.events if event.incident}
        present |= {each.id: each for each in _in_alerts(record.alerts)}
        changed = [each for number, each in present.items() if self._incidents.get(number) != each]
        put(connection, schema.incidents, [incident_row(each) for each in changed])
        self._incidents = present

    def _write_facts(self, connection: Connection, record: Record) -> None:
        alerts = record.alerts
        present = {
            "last_round": repr(record.at),
            "next_id": str(alerts.next_id),
            "silences": packed(tuple[Silence, ...], alerts.silences),
            "pending_recoveries": packed(tuple[Incident, ...], alerts.pending_recoveries),
        }
        changed = [(name, value) for name, value in present.items() if self._facts.get(name) != value]
        put(connection, schema.facts, changed)
        self._facts = present


class _Measured:
    """Writer of observations: each metric, and changes of status."""

    def __init__(self, connection: Connection) -> None:
        key = (subjects.c.check, subjects.c.run, subjects.c.target, subjects.c.subject)
        self._subjects = NotedIds(connection.execute(select(subjects.c.id, *key)))
        self._series = NotedIds(
            connection.execute(select(series.c.id, series.c.subject_id, series.c.metric, series.c.unit))
        )
        self._statuses = {
            row[0]: row[1] for row in connection.execute(select(subjects.c.id, subjects.c.status))
        }

    def write(self, connection: Connection, observations: Sequence[Observation]) -> list[Row]:
        """Write the observations of one round; return the rows of `readings`."""
        numbers: list[Row] = []
        changed: list[Row] = []
        for seen in observations:
            result = seen.result
            at = milliseconds(seen.at)
            subject = self._subjects.of((seen.check, seen.run, seen.target, result.subject))
            if self._statuses.get(subject) != result.status:
                self._statuses[subject] = result.status
                changed.append((at, subject, int(result.status), storable(result.summary)))
            if result.progress:
                stalled = self._series.of((subject, STALLED, ""))
                numbers.append((at, stalled, float(result.progress.stalled)))
            for name, metric in result.metrics.items():
                numbers.append((at, self._series.of((subject, name, metric.unit)), number(metric.value)))
        add(connection, schema.subjects, [(*row, 0) for row in self._subjects.new_rows()])
        add(connection, schema.series, self._series.new_rows())
        add(connection, schema.readings, numbers)
        add(connection, schema.changes, changed)
        set_statuses(connection, [(status, subject) for _at, subject, status, _summary in changed])
        if numbers:
            _reach_back(connection, min(row[0] for row in numbers) // 1000)
        return numbers


def settle(connection: Connection, outcomes: Iterable[Notification]) -> None:
    """Store the outcome of notifications; one that no longer waits stays unchanged.

    A notification that is not stored yet (it was sent from memory) is stored with its outcome.
    """
    sql.settle(connection, [notification_row(outcome) for outcome in outcomes])


def _reach_back(connection: Connection, first: int) -> None:
    """Have late readings, of a round that waited in memory, aggregated again."""
    present = retention.load(connection)
    if present is None:
        retention.save(connection, retention.Thinned(first, first, first).reaching(first))
    elif first < present.folded:
        retention.save(connection, present.reaching(first))


def _in_alerts(alerts: AlertState) -> Iterable[Incident]:
    yield from alerts.pending_recoveries
    yield from (state.incident for state in alerts.states.values() if state.incident is not None)
