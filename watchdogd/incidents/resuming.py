"""What was known before, found only after rounds had to begin without it: one book of both. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents.models import Book, Event, Kind
from watchdogd.incidents.telling import event

if TYPE_CHECKING:
    from watchdogd.incidents.models import Incident


def resumed(past: Book, book: Book, now: float) -> tuple[Book, tuple[Event, ...]]:
    """The book to go on with, and what became of incidents, quietly.

    What is open in both was told anew: it goes on under its new number, with what people did about it, and
    the old number ends. What was open and is not any more is settled, and told, by the results that come.
    """
    standings = dict(book.standings)
    events = []
    for key, before in past.standings.items():
        present = standings.get(key)
        if present is None or (present.incident is None and before.incident is not None):
            standings[key] = before
        elif present.incident is not None and before.incident is not None:
            standings[key] = replace(present, incident=_going_on(before.incident, present.incident))
            events.append(_renumbered(before.incident, present.incident.id, now))
    silences = {each.target: each for each in (*past.silences, *book.silences)}
    next_id = max(past.next_id, book.next_id)
    return Book(standings, tuple(silences.values()), next_id, past.owed + book.owed), tuple(events)


def _going_on(before: Incident, present: Incident) -> Incident:
    """`present`, which is `before` seen anew."""
    taken = present if present.acknowledged_by else before
    turned = before.turned_at if before.fault == present.fault else present.fault_began
    return replace(
        present,
        opened_at=min(before.opened_at, present.opened_at),
        since=min(before.began, present.began),
        turned_at=turned,
        acknowledged_by=taken.acknowledged_by,
        acknowledged_at=taken.acknowledged_at,
        escalated_at=before.escalated_at or present.escalated_at,
    )


def _renumbered(before: Incident, number: int, now: float) -> Event:
    words = f"it goes on as incident {number}"
    ended = replace(before, resolved_at=max(now, before.opened_at), recovery=words)
    return event(Kind.RESOLVED, ended, now, summary=words, details="", quiet=True)
