"""State from which a starting daemon goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from watchdogd.history.decided import notifications_of, unpacked_incidents
from watchdogd.history.forms import unpacked
from watchdogd.history.record import Past
from watchdogd.history.tables import facts, incidents, memories, pulses, standings, starts
from watchdogd.incidents.models import AlertState, CheckState, Incident, Silence

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import ColumnElement, Connection


def past(connection: Connection) -> tuple[Past, tuple[str, ...]]:
    """Return what was known after the last round, and one line for each thing in it that cannot be read."""
    known = _pairs(connection, facts.c.name, facts.c.value)
    book, troubles = _book(connection, known)
    round_at = known.get("last_round")
    kept = _pairs(connection, memories.c.check, memories.c.value)
    sound = {check: text for check, text in kept.items() if _is_object(text)}
    lost = [f"what {check} remembers cannot be read: it begins anew" for check in kept if check not in sound]
    return Past(
        book=book,
        memories=sound,
        started=_pairs(connection, starts.c.check, starts.c.at),
        last_round=float(round_at) if round_at else None,
        waiting=tuple(notifications_of(connection, state="waiting")),
    ), (*troubles, *lost)


def memories_of(connection: Connection, checks: Collection[str]) -> dict[str, str]:
    """Return what these checks remember, as JSON text, by check; what cannot be read is left out."""
    asked = select(memories.c.check, memories.c.value).where(memories.c.check.in_(checks))
    return {row[0]: row[1] for row in connection.execute(asked) if _is_object(row[1])}


def _is_object(text: str) -> bool:
    """Return whether a memory is what one is kept as: an object in JSON."""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def _pairs(connection: Connection, key: ColumnElement[Any], value: ColumnElement[Any]) -> dict[str, Any]:
    return {row[0]: row[1] for row in connection.execute(select(key, value))}


def _book(connection: Connection, known: dict[str, str]) -> tuple[AlertState, tuple[str, ...]]:
    opened = {each.id: each for each in unpacked_incidents(connection, _REFERRED)}
    found: dict[tuple[str, str], CheckState] = {}
    troubles = []
    for check, subject, incident, value, at, streak, summary in connection.execute(_STANDINGS):
        try:
            standing = unpacked(CheckState, value)
        except ValueError:
            troubles.append(
                f"what was known of {check} {subject}".rstrip() + " cannot be read: it is judged anew"
            )
            continue
        found[check, subject] = replace(
            standing, at=at, attempts=streak, summary=summary, incident=opened.get(incident)
        )
    book = AlertState(
        states=found,
        silences=unpacked(tuple[Silence, ...], known.get("silences", "[]")),
        next_id=max(int(known.get("next_id", 1)), _next_free(connection)),
        pending_recoveries=unpacked(tuple[Incident, ...], known.get("pending_recoveries", "[]")),
    )
    return book, tuple(troubles)


_STANDINGS = select(
    standings.c.check,
    standings.c.subject,
    standings.c.incident,
    standings.c.value,
    pulses.c.at,
    pulses.c.streak,
    pulses.c.summary,
).join(pulses, pulses.c.id == standings.c.id)
_REFERRED = incidents.c.id.in_(select(standings.c.incident).where(standings.c.incident.is_not(None)))


def _next_free(connection: Connection) -> int:
    return (connection.execute(select(func.max(incidents.c.id))).scalar() or 0) + 1
