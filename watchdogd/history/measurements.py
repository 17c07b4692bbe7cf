"""Measurements: series for plugins; minima, means and maxima for people.

Readings are stored raw, as means of five minutes, or as means of hours; each span of time in one form. Two
caches save queries in each round: means, which change once an hour (two weeks of them take 25 ms a disk), and
the newest readings, which the database keeps in order of time for all checks together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple, overload

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, case, cast, func, select

from watchdogd.history import retention
from watchdogd.history.models import Measure
from watchdogd.history.retention import FIVE, HOUR, Thinned
from watchdogd.history.schema import fives, hours, readings, series, subjects
from watchdogd.history.sql import Row, about

Point = tuple[float, float]


class Course(Sequence[Point]):
    """Sequence of points in order of time, equal to the tuple of its points.

    A point has 18 bytes, where a list of tuples takes 113: the last hour of 1,000 runs has 1.2 million.
    """

    __slots__ = ("times", "values")

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self.times, self.values = array("d"), array("d")
        for at, value in points:
            self.add(at, value)

    def add(self, at: float, value: float) -> None:
        """Insert one point in order; a point that is there already is ignored."""
        if not self.times or at > self.times[-1]:
            self.times.append(at)
            self.values.append(value)
            return
        place, end = bisect_left(self.times, at), bisect_right(self.times, at)
        if value not in self.values[place:end]:
            self.times.insert(end, at)
            self.values.insert(end, value)

    def since(self, begin: float) -> Course:
        """Return a copy of the points since `begin`."""
        place = bisect_left(self.times, begin)
        return _course(self.times[place:], self.values[place:])

    def then(self, later: Course) -> Course:
        """Return this series followed by a later one."""
        if not self.times:
            return later
        return _course(self.times + later.times, self.values + later.values)

    def forget(self, before: float) -> None:
        place = bisect_left(self.times, before)
        del self.times[:place], self.values[:place]

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Point]:
        return zip(self.times, self.values, strict=True)

    @overload
    def __getitem__(self, place: int) -> Point: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Point, ...]: ...
    def __getitem__(self, place: int | slice) -> Point | tuple[Point, ...]:
        if isinstance(place, slice):
            return tuple(zip(self.times[place], self.values[place], strict=True))
        return self.times[place], self.values[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment] # it grows

    def __repr__(self) -> str:
        return f"Course({list(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self.times.tobytes(), self.values.tobytes())


def _received(times: bytes, values: bytes) -> Course:
    return _course(array("d", times), array("d", values))


def _course(times: array[float], values: array[float]) -> Course:
    course = Course()
    course.times, course.values = times, values
    return course


Wanted = tuple[ColumnElement[bool], ...]
"""Conditions on `subjects`."""


class Series(NamedTuple):
    """One metric of one subject, with the names that rows of readings leave out."""

    id: int
    subject_id: int
    run: str
    check: str
    subject: str
    metric: str
    unit: str


def series_of(connection: Connection, wanted: Wanted) -> list[Series]:
    """Return the series whose subject meets the conditions."""
    query = (
        select(
            series.c.id,
            series.c.subject_id,
            subjects.c.run,
            subjects.c.check,
            subjects.c.subject,
            series.c.metric,
            series.c.unit,
        )
        .join(subjects, subjects.c.id == series.c.subject_id)
        .where(*wanted)
    )
    return [Series(*row) for row in connection.execute(query)]


def fine(connection: Connection) -> Thinned:
    """Return the state of aggregation, raw readings included as long as they are kept."""
    return retention.load(connection) or Thinned(0, 0, 0)


def coarse(connection: Connection) -> Thinned:
    """Return the state of aggregation as if raw readings were dropped once they are aggregated.

    Raw ones are in order of time, all series mixed: to read one series is to read all.
    """
    kept = fine(connection)
    return replace(kept, raw=kept.folded)


def rows(connection: Connection, kept: Thinned, since: float, wanted: Wanted) -> Iterator[Any]:
    """Yield (series, milliseconds, low, mean, high, count) of every reading, oldest first."""
    for part in (*folded_parts(kept, since, wanted), raw_part(kept, since, wanted)):
        at, identity = part.selected_columns.at, part.selected_columns.series_id
        for some in connection.execute(part.order_by(at, identity)).partitions(10_000):
            yield from some


def raw_part(kept: Thinned, since: float, wanted: Wanted) -> Select[Any]:
    """Select raw readings, with the columns of aggregated ones."""
    value = readings.c.value
    return select(
        readings.c.series_id,
        readings.c.at.label("at"),
        value.label("low"),
        value.label("mean"),
        value.label("high"),
        case((value.is_(None), 0), else_=1).label("count"),
    ).where(readings.c.at >= max(since, kept.raw) * 1000, *_among(readings, wanted))


def folded_parts(kept: Thinned, since: float, wanted: Wanted) -> list[Select[Any]]:
    """Select means of hours, then of five minutes, back to `since`."""
    spans = ((hours, HOUR, since, kept.fives), (fives, FIVE, max(since, kept.fives), kept.raw))
    return [
        _folded_part(table, length, begin, end, wanted) for table, length, begin, end in spans if begin < end
    ]


def _folded_part(table: Table, length: int, begin: float, end: int, wanted: Wanted) -> Select[Any]:
    at = (cast(table.c.slot, BigInteger) * length + table.c.offset) * 1000
    return select(
        table.c.series_id, at.label("at"), table.c.low, table.c.mean, table.c.high, table.c.count
    ).where(table.c.slot >= int(begin // length), table.c.slot < end // length, *_among(table, wanted))


def _among(table: Table, wanted: Wanted) -> Wanted:
    if not wanted:
        return ()
    chosen = select(series.c.id).join(subjects, subjects.c.id == series.c.subject_id).where(*wanted)
    return (table.c.series_id.in_(chosen),)


class Folded:
    """Cache of means of five minutes and of hours. Call `clear` after aggregating or dropping any."""

    def __init__(self) -> None:
        self._kept: Thinned | None = None
        self._reach: dict[str, float] = {}
        self._courses: dict[int, Course] = {}

    def clear(self) -> None:
        """Empty the cache: the database has changed."""
        self._reach, self._courses = {}, {}

    def look(self, connection: Connection, kept: Thinned, checks: Collection[str], since: float) -> None:
        """Read these checks' means since a time into the cache, unless they are there."""
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
        """Return the cached means of a series."""
        course = self._courses.get(series.id)
        return course.since(since) if course else Course()


class Tail:
    """Cache of raw readings from `begin` on (seconds since the epoch); older means are in `folded`."""

    def __init__(self, connection: Connection, begin: int) -> None:
        self.begin = begin
        self.folded = Folded()
        self._courses: dict[int, Course] = {}
        self._series: dict[str, list[Series]] = {}
        query = select(readings).where(readings.c.at >= begin * 1000).order_by(readings.c.at)
        self.add(connection.execute(query).all())

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows of the table `readings`; those without a value are left out."""
        for at, identity, value in rows:
            course = self._courses.get(identity)
            if course is None:
                course = self._courses[identity] = Course()
                self._series = {}  # it may belong to a check whose series are cached
            if value is not None:
                course.add(at / 1000, value)

    def series(self, connection: Connection, checks: Collection[str]) -> Iterator[Series]:
        """Yield the series of checks; the database is asked only for checks not asked for before."""
        missing = [check for check in checks if check not in self._series]
        if missing:
            self._series |= {check: [] for check in missing}
            for each in series_of(connection, (subjects.c.check.in_(missing),)):
                self._series[each.check].append(each)
        for check in checks:
            yield from self._series[check]

    def points(self, series: int, since: float) -> Course:
        """Return the readings of a series since a time."""
        course = self._courses.get(series)
        return course.since(since) if course else Course()

    def trim(self, begin: int) -> None:
        """Drop readings before `begin`."""
        for course in self._courses.values():
            course.forget(begin)
        self.begin = max(self.begin, begin)
        self.folded.clear()


PastOfCheck = dict[tuple[str, str], Course]
"""Readings by subject and metric, oldest first."""


def points(
    connection: Connection, tail: Tail | None, checks: Collection[str], since: float
) -> tuple[dict[str, PastOfCheck], Tail]:
    """Return, by check, subject and metric, means of five minutes or an hour, and the newest raw readings.

    `tail` is the cache; it is returned, or a new one where it is None or does not reach back far enough.
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
    """Aggregate of many values of one series."""

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
    """Return the aggregate of each metric, by run, check, subject and metric; invalid values are left out."""
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
