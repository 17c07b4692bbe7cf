"""The statements of a round, compiled by SQLAlchemy once and run with plain tuples.

Its own handling of each parameter of each row would cost more than the database does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import bindparam, delete, literal_column, update

from watchdogd.history import tables
from watchdogd.history.inserting import insert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Table
    from sqlalchemy.engine.default import DefaultDialect

Row = tuple[Any, ...]


class Statement:
    """One statement, compiled for one kind of database, run for many rows at a time."""

    def __init__(self, statement: Any, dialect: DefaultDialect, names: Sequence[str] | None = None) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=names)
        self._sql = str(compiled)
        self._names = compiled.positiontup or list(compiled.params)
        self._positional = dialect.positional

    def run(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Run it once for each row: values in the order of the statement's parameters."""
        if rows:
            named = rows if self._positional else [dict(zip(self._names, row, strict=True)) for row in rows]
            connection.exec_driver_sql(self._sql, cast("Any", named))


class Statements:
    """All that a round may need, for one kind of database. Rows are in the order of the table's columns."""

    def __init__(self, dialect: DefaultDialect) -> None:
        def new(table: Table) -> Statement:
            """Rows that are there already stay as they are: a record that is stored again changes nothing."""
            return Statement(insert(dialect.name, table).on_conflict_do_nothing(), dialect, _names(table))

        def latest(table: Table) -> Statement:
            return Statement(_upsert(dialect, table), dialect, _names(table))

        self.subjects, self.series = new(tables.subjects), new(tables.series)
        self.readings, self.changes = new(tables.readings), new(tables.changes)
        self.events, self.gaps, self.touches = new(tables.events), new(tables.gaps), new(tables.touches)
        self.notifications = new(tables.notifications)
        self.standings, self.pulses = latest(tables.standings), latest(tables.pulses)
        self.incidents, self.facts = latest(tables.incidents), latest(tables.facts)
        self.memories, self.starts = latest(tables.memories), latest(tables.starts)
        self.outcomes = Statement(_settling(dialect), dialect, _names(tables.notifications))
        self.gone = tuple(
            Statement(delete(table).where(table.c.id == bindparam("gone")), dialect)
            for table in (tables.standings, tables.pulses)
        )
        subjects = tables.subjects
        self.statuses = Statement(
            update(subjects)
            .values(status=bindparam("new_status"))
            .where(subjects.c.id == bindparam("subject")),
            dialect,
            ["status"],
        )


@lru_cache(maxsize=1)
def statements(dialect: DefaultDialect) -> Statements:
    """The statements of a database, made once for each opening."""
    return Statements(dialect)


def _names(table: Table) -> list[str]:
    """The columns that rows fill: all, but the id that the database gives to a notification."""
    return [
        column.name for column in table.columns if table is not tables.notifications or column.name != "id"
    ]


def _upsert(dialect: DefaultDialect, table: Table) -> Any:
    statement = insert(dialect.name, table)
    keys = [column.name for column in table.primary_key]
    rest = {name: statement.excluded[name] for name in _names(table) if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=rest)


def _settling(dialect: DefaultDialect) -> Any:
    statement = insert(dialect.name, tables.notifications)
    fields = ("state", "attempts", "next_try", "sent_at", "failure", "receipt")
    return statement.on_conflict_do_update(
        index_elements=["key"],
        set_={name: statement.excluded[name] for name in fields},
        where=tables.notifications.c.state.in_([literal_column("'waiting'"), literal_column("'diverted'")]),
    )
