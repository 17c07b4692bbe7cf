"""Measurements: series for plugins, minima, means and maxima for people."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, select

from watchdogd.history.parts import Series, coarse, folded_parts, raw_part, series_of
from watchdogd.history.record import Measure
from watchdogd.history.tables import subjects
from watchdogd.history.tail import Tail
from watchdogd.history.target import about
from watchdogd.system.course import Course

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection, Select

PastOfCheck = dict[tuple[str, str], Course]
"""By subject and metric, each oldest first."""


def points(
    connection: Connection, tail: Tail | None, checks: Collection[str], since: float
) -> tuple[dict[str, PastOfCheck], Tail]:
    """Per check, subject and metric: means of five minutes or an hour, the newest as they came.

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


def measures_of(connection: Connection, target: str | None, since: float) -> list[Measure]:
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
