"""Measurements: series for plugins; minima, means and maxima for people.

Two caches spare each round a search: folded readings, which change once an hour (reading two weeks of them
costs 25 ms a disk), and the newest ones, which lie in the database in order of time, all checks mixed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import inf
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, select

from watchdogd.history.models import Measure
from watchdogd.history.parts import Series, coarse, folded_parts, raw_part, series_of
from watchdogd.history.retention import Thinned
from watchdogd.history.schema import readings, subjects
from watchdogd.history.sql import Row, about
from watchdogd.system.course import Course


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


PastOfCheck = dict[tuple[str, str], Course]
"""By subject and metric, each oldest first."""


def points(
    connection: Connection, tail: Tail | None, checks: Collection[str], since: float
) -> tuple[dict[str, PastOfCheck], Tail]:
    """Return per check, subject and metric means of five minutes or an hour, the newest as they came.

    All but what `tail` lacks is taken from there; it is returned, made where it is None or does not reach
    back.
    """
    kept = coarse(connection)
    if tail is None or tail.begin > kept.raw:
        tail = Tail(connection, kept.raw)
    tail.folded.look(connection, kept, checks, since)
    by_check: dict[str, PastOfCheck] = {check: {} for check in checks}
    for each in tail.series(connection, checks):
        newest = tail.points(each.id, max(since, kept.raw))
        if found := tail.folded.points(each, since).then(newest):
            by_check[each.check][each.subject, each.metric] = found
    return by_check, tail


class _Total(NamedTuple):
    """Many values of one series as a few numbers."""

    number: int = 0
    low: float = inf
    total: float = 0.0
    high: float = -inf

    def with_(self, count: int, low: float, total: float, high: float) -> _Total:
        return _Total(self.number + count, min(self.low, low), self.total + total, max(self.high, high))

    def of(self, each: Series) -> Measure:
        mean = self.total / self.number
        return Measure(
            each.run, each.check, each.subject, each.metric, each.unit, self.number, self.low, mean, self.high
        )


def measures_of(connection: Connection, target: str | None = None, since: float = 0.0) -> list[Measure]:
    """Sum up each metric in one line, by run, check, subject and metric; what was no number is left out."""
    kept, wanted = coarse(connection), about(subjects, target)
    totals: dict[int, _Total] = {}
    for part in (*folded_parts(kept, since, wanted), raw_part(kept, since, wanted)):
        for identity, count, *numbers in connection.execute(_totals(part)):
            if count:
                totals[identity] = totals.get(identity, _Total()).with_(count, *numbers)
    return sorted(totals[each.id].of(each) for each in series_of(connection, wanted) if each.id in totals)


def _totals(query: Select[Any]) -> Select[Any]:
    part = query.subquery()
    return select(
        part.c.series_id,
        func.sum(part.c.count),
        func.min(part.c.low),
        func.sum(part.c.mean * part.c.count),
        func.max(part.c.high),
    ).group_by(part.c.series_id)
