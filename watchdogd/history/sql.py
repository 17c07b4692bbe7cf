"""SQL statements that write rows, for both databases, and conversion of values.

Rows are tuples in the order of the columns. SQLAlchemy compiles each statement once in a process. Values are
JSON: missing fields take their defaults, unknown ones are ignored. Names of fifty bytes that rows repeat
become ids.
"""

from __future__ import annotations

import json
from functools import cache
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Table,
    bindparam,
    delete,
    literal_column,
    or_,
    update,
)

from watchdogd.history.schema import (
    changes,
    check_states,
    events,
    facts,
    gaps,
    incidents,
    memories,
    notifications,
    pulses,
    readings,
    series,
    starts,
    subjects,
    touches,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence

    from pydantic import TypeAdapter


Row = tuple[Any, ...]
_SETTLED = ("state", "attempts", "next_try", "sent_at", "failure", "receipt")


def add(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows; existing ones stay unchanged, so that storing a record again changes nothing."""
    _run(connection, _adding, table, rows)


def put(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, or replace those with the same key."""
    _run(connection, _putting, table, rows)


def settle(connection: Connection, rows: Sequence[Row]) -> None:
    """Update notifications; one that no longer waits stays unchanged."""
    _run(connection, _settling, notifications, rows)


def remove(connection: Connection, table: Table, ids: Iterable[int]) -> None:
    """Delete the rows with these ids."""
    if gone := [{"gone": number} for number in ids]:
        connection.execute(delete(table).where(table.c.id == bindparam("gone")), gone)


def set_statuses(connection: Connection, statuses: Sequence[tuple[int, int]]) -> None:
    """Set the last status of subjects, given as (status, id)."""
    _run(connection, _turning, subjects, statuses)


def prepare(connection: Connection) -> None:
    """Compile the statements of a round, a millisecond each, so that the first incident need not wait."""
    for make, tables in _MAKERS.items():
        for table in tables:
            _compiled(connection.dialect, make, table)


def insert(dialect: str, table: Table) -> Any:
    """Return an INSERT with `on_conflict_do_update`; `dialect`: `sqlite` or `postgresql`.

    Only that dialect is imported, since every verb that reads the history waits for it.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def upsert(new: Any, table: Table) -> Any:
    """Return the INSERT that replaces rows with the same key."""
    keys = [column.name for column in table.primary_key]
    rest = {name: new.excluded[name] for name in _columns(table) if name not in keys}
    return new.on_conflict_do_update(index_elements=keys, set_=rest)


def _adding(dialect: str, table: Table) -> Any:
    return insert(dialect, table).on_conflict_do_nothing()


def _putting(dialect: str, table: Table) -> Any:
    return upsert(insert(dialect, table), table)


def _settling(dialect: str, table: Table) -> Any:
    new = insert(dialect, table)
    return new.on_conflict_do_update(
        index_elements=["key"],
        set_={name: new.excluded[name] for name in _SETTLED},
        where=table.c.state.in_([literal_column("'waiting'"), literal_column("'diverted'")]),
    )


def _turning(_dialect: str, table: Table) -> Any:
    return update(table).values(status=bindparam("new_status")).where(table.c.id == bindparam("changed"))


_MAKERS: Mapping[Callable[[str, Table], Any], Sequence[Table]] = {
    _adding: (subjects, series, readings, changes, events, notifications, gaps, touches),
    _putting: (check_states, pulses, incidents, facts, memories, starts),
    _settling: (notifications,),
    _turning: (subjects,),
}
"""Statements of a round: the function that makes each, and its tables."""
_TEXTS: dict[tuple[str, Callable[[str, Table], Any], Table], tuple[str, Sequence[str]]] = {}


def _compiled(dialect: Dialect, make: Callable[[str, Table], Any], table: Table) -> tuple[str, Sequence[str]]:
    """Return a statement's text and parameter names, compiled once in a process."""
    key = dialect.name, make, table
    if key not in _TEXTS:
        names = _columns(table) if make is not _turning else None
        compiled = make(dialect.name, table).compile(dialect=dialect, column_keys=names)
        _TEXTS[key] = str(compiled), tuple(compiled.positiontup or compiled.params)
    return _TEXTS[key]


def _run(
    connection: Connection, make: Callable[[str, Table], Any], table: Table, rows: Sequence[Row]
) -> None:
    if rows:
        text, names = _compiled(connection.dialect, make, table)
        if connection.dialect.positional:  # by SQLite's own driver: SQLAlchemy is six times slower
            if not connection.in_transaction():
                connection.begin()
            connection.connection.cursor().executemany(text, rows)
        else:
            connection.exec_driver_sql(text, [dict(zip(names, row, strict=True)) for row in rows])


@cache
def _columns(table: Table) -> tuple[str, ...]:
    """Return the columns that rows contain: all but a notification's id, which the database assigns."""
    return tuple(column.name for column in table.columns if table is not notifications or column.name != "id")


Value = TypeVar("Value")


@cache
def adapter(form: Any) -> TypeAdapter[Any]:
    """Return pydantic's adapter of a type, made once (a millisecond).

    pydantic is imported here, since queries of numbers and changes do without it.
    """
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def packed(form: Any, value: Any, exclude: set[str] | None = None) -> str:
    """Return `value` as JSON; a byte that is not UTF-8 becomes a question mark."""
    from pydantic_core import PydanticSerializationError

    try:
        return adapter(form).dump_json(value, exclude=exclude).decode()
    except PydanticSerializationError:
        plain = adapter(form).dump_python(value, exclude=exclude)
        return storable(json.dumps(plain, ensure_ascii=False))


def unpacked(form: Callable[..., Value], text: str) -> Value:
    """Return the value that `packed` wrote. ValueError where the text is invalid."""
    value: Value = adapter(form).validate_json(text)
    return value


def storable(text: str) -> str:
    """Return text for any database: without lone surrogates and NUL (which PostgreSQL rejects)."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def number(value: Any) -> float | None:
    """Return a metric's value as a float; None for anything else, and for NaN.

    SQLite stores NaN as NULL; in PostgreSQL it would make every mean NaN.
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isnan(found) else found


class Ids:
    """Ids of one table by key; a new key gets the next number. There is one writer."""

    def __init__(self, rows: Iterable[Any]) -> None:
        """Take the table's `rows`: id first, then the key."""
        self._known: dict[Row, int] = {tuple(key): number for number, *key in rows}
        self._last = max(self._known.values(), default=0)

    def of(self, key: Row) -> int:
        """Return the id of `key`."""
        found = self._known.get(key)
        return self._found_or_new(key) if found is None else found

    def keys(self) -> KeysView[Row]:
        return self._known.keys()

    def forget(self, key: Row) -> int:
        """Remove `key`; return its id."""
        return self._known.pop(key)

    def _found_or_new(self, key: Row) -> int:
        """Return the id of a key, a new one if necessary; text is changed as `storable` does."""
        clean = tuple(storable(part) if isinstance(part, str) else part for part in key)
        number = self._known.get(clean)
        if number is None:
            number = self._given(clean)
        self._known[key] = number
        return number

    def _given(self, _key: Row) -> int:
        self._last += 1
        return self._last


class NotedIds(Ids):
    """Ids that collect new ones as rows, to be taken with `new_rows`."""

    def __init__(self, rows: Iterable[Any]) -> None:
        """Take the table's rows: id first, then the key."""
        super().__init__(rows)
        self._new: list[Row] = []

    def new_rows(self) -> list[Row]:
        """Return id and key of new entries since the last call."""
        rows, self._new = self._new, []
        return rows

    def _given(self, key: Row) -> int:
        number = super()._given(key)
        self._new.append((number, *key))
        return number


def about(table: Table, target: str | None) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on a table with the columns run, target and check; none without a target."""
    return (named(table, target),) if target is not None else ()


def named(table: Table, target: str) -> ColumnElement[bool]:
    """Return the condition that a row is about `target`."""
    return or_(table.c.run == target, table.c.target == target, table.c.check == target)
