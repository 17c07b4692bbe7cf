"""The newest readings of all series in memory: those that are not folded yet.

In the database they lie in order of time. Without this, each check that wants its past would have all of the
last hour's readings of all checks read, every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from watchdogd.history.folded import Folded
from watchdogd.history.parts import series_of
from watchdogd.history.tables import readings, subjects
from watchdogd.system.course import Course

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from sqlalchemy import Connection

    from watchdogd.history.parts import Series
    from watchdogd.history.statements import Row


class Tail:
    """Readings from `begin` on (seconds since the epoch), and before it `folded`."""

    def __init__(self, connection: Connection, begin: int) -> None:
        self.begin = begin
        self.folded = Folded()
        self._courses: dict[int, Course] = {}
        self._series: dict[str, list[Series]] = {}
        query = select(readings).where(readings.c.at >= begin * 1000).order_by(readings.c.at)
        self.add(connection.execute(query).all())

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows of the table `readings`; those whose value was no number are left out."""
        for at, series, value in rows:
            course = self._courses.get(series)
            if course is None:
                course = self._courses[series] = Course()
                self._series = {}  # it may be one of a check whose series are known
            if value is not None:
                course.add(at / 1000, value)

    def series(self, connection: Connection, checks: Collection[str]) -> Iterator[Series]:
        """Return the series of checks; the database is asked for those that it was not asked for before."""
        missing = [check for check in checks if check not in self._series]
        if missing:
            self._series |= {check: [] for check in missing}
            for each in series_of(connection, (subjects.c.check.in_(missing),)):
                self._series[each.check].append(each)
        for check in checks:
            yield from self._series[check]

    def points(self, series: int, since: float) -> Course:
        """Return the readings of one series since a time."""
        course = self._courses.get(series)
        return course.since(since) if course else Course()

    def trim(self, begin: int) -> None:
        """Forget what lies before `begin`."""
        for course in self._courses.values():
            course.forget(begin)
        self.begin = max(self.begin, begin)
        self.folded.clear()
