"""Folded readings of the checks that want their past, kept in memory from one fold to the next.

Each round asks for it, and it changes once an hour: reading two weeks of it costs 25 ms a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.history.parts import folded_parts
from watchdogd.history.tables import subjects
from watchdogd.system.course import Course

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from watchdogd.history.parts import Series
    from watchdogd.history.retention import Thinned


class Folded:
    """Means of five minutes and of hours. Whoever folds or drops something calls `clear`."""

    def __init__(self) -> None:
        self._kept: Thinned | None = None
        self._reach: dict[str, float] = {}
        self._courses: dict[int, Course] = {}

    def clear(self) -> None:
        """Forget all: it is not what the database holds any more."""
        self._reach, self._courses = {}, {}

    def look(self, connection: Connection, kept: Thinned, checks: Collection[str], since: float) -> None:
        """Have these checks here from a time on; what is here already is not read again."""
        if kept != self._kept:
            self.clear()
            self._kept = kept
        missing = [check for check in checks if self._reach.get(check, since + 1.0) > since]
        if not missing:
            return
        found: dict[int, list[tuple[float, float]]] = {}
        for query in folded_parts(kept, since, (subjects.c.check.in_(missing),)):
            for identity, at, _low, mean, _high, count in connection.execute(query):
                if count:
                    found.setdefault(identity, []).append((at / 1000, mean))
        self._courses |= {identity: Course(sorted(points)) for identity, points in found.items()}
        self._reach |= dict.fromkeys(missing, since)

    def points(self, series: Series, since: float) -> Course:
        """Return what `look` found of a series."""
        course = self._courses.get(series.id)
        return course.since(since) if course else Course()
