"""The past line by line: every number that is kept, every turn to another status."""

from __future__ import annotations

from math import inf, nan
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from watchdogd.history.parts import fine, rows, series_of
from watchdogd.history.record import Change, Reading
from watchdogd.history.tables import changes, subjects
from watchdogd.history.target import about
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_STATUSES = tuple(Status)


def changes_of(connection: Connection, target: str | None, since: float) -> list[Change]:
    """Read turns to another status, oldest first."""
    return [change for _subject, change in _changes(connection, target, since)]


def readings_of(connection: Connection, target: str | None, since: float) -> list[Reading]:
    """Numbers and turns, oldest first."""
    wanted = about(subjects, target)
    known = {each.id: each for each in series_of(connection, wanted)}
    states = _States(connection, target, since)
    found: list[Reading] = []
    for identity, at, low, mean, high, _count in rows(connection, fine(connection), since, wanted):
        _, subject, run, check, name, metric, unit = known[identity]
        time = at / 1000
        found += states.turns(time)
        status, summary = states.now.get(subject, (Status.UNKNOWN, ""))
        found.append(
            Reading(
                time,
                run,
                check,
                name,
                status,
                metric,
                nan if mean is None else mean,
                unit,
                summary,
                low,
                high,
            )
        )
    found += states.turns(inf)
    return found


class _States:
    """Status and summary of each subject, as time goes on."""

    def __init__(self, connection: Connection, target: str | None, since: float) -> None:
        self._since = since
        self._coming = list(_changes(connection, target, 0.0))
        self._coming.reverse()
        self.now: dict[int, tuple[Status, str]] = {}

    def turns(self, time: float) -> list[Reading]:
        """Go on to `time`; what turned on the way, as lines without a number."""
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
