"""Places of readings: raw, folded into five minutes, or into hours; each time in one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Connection, Select, Table, case, cast, select

from watchdogd.history import retention
from watchdogd.history.retention import FIVE, HOUR, Thinned
from watchdogd.history.schema import fives, hours, readings, series, subjects

if TYPE_CHECKING:
    from collections.abc import Iterator

    Wanted = tuple[ColumnElement[bool], ...]
    """Conditions on `subjects`."""


class Series(NamedTuple):
    """One metric of one subject, with the names that rows spare."""

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
    """Everything as exactly as it is kept."""
    return retention.load(connection) or Thinned(0, 0, 0)


def coarse(connection: Connection) -> Thinned:
    """Return how far readings are folded, as if raw ones were dropped as soon as they are.

    They lie in order of time, each series among all others: to read one is to read all.
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
    """Select readings as they came, in the form of folded ones."""
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
    """Select hours, and then fives, as far as they reach back to `since`."""
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
