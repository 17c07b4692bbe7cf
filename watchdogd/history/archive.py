"""Archive of a history as lines of JSON, for export and import.

The first line has the archive's schema; then comes a line for each row (its table's name under `table`, and
its columns); the last line has the number of rows, so that a truncated file is recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, func, select, text

from watchdogd.errors import HistoryError
from watchdogd.history.schema import HEAD, metadata, notifications
from watchdogd.system.smallfile import parse_json

_MANY = 2000
"""Rows in one statement."""
_WORD = "watchdogd history"
_FAR = {float("inf"): "1e999", float("-inf"): "-1e999"}


def lines_of(connection: Connection) -> Iterator[str]:
    """Yield every row of every table, in the order of the primary keys."""
    count = 0
    yield json.dumps({"archive": _WORD, "schema": HEAD})
    for table in metadata.sorted_tables:
        query = select(table).order_by(*table.primary_key.columns)
        for some in connection.execution_options(yield_per=_MANY).execute(query).mappings().partitions():
            count += len(some)
            yield from (_line({"table": table.name, **row}) for row in some)
    yield json.dumps({"rows": count})


def _line(row: dict[str, Any]) -> str:
    """Return a row as JSON; infinity is written as a number beyond all floats, which is read as infinity."""
    try:
        return json.dumps(row, allow_nan=False)
    except ValueError:
        pairs = (f"{json.dumps(name)}: {_FAR.get(value) or json.dumps(value)}" for name, value in row.items())
        return f"{{{', '.join(pairs)}}}"


def bring_in(connection: Connection, lines: Iterable[str]) -> int:
    """Fill an empty history with such lines; return the number of rows. HistoryError where it cannot."""
    if any(connection.execute(select(table).limit(1)).first() for table in metadata.sorted_tables):
        raise HistoryError(
            "import: this history is not empty: set [history] url to a new one, or move the old one away"
        )
    rows = _Rows(lines)
    for name, group in groupby(rows, lambda row: row.pop("table", None)):
        table = metadata.tables.get(str(name))
        if table is None:
            raise HistoryError(f"import: line {rows.number}: there is no table {name!r} in a history")
        columns = {column.name for column in table.columns}
        for some in _batches(group):
            if any(row.keys() != columns for row in some):
                raise HistoryError(f"import: near line {rows.number}: a row of {name} has not its columns")
            connection.execute(table.insert(), some)
    if connection.dialect.name == "postgresql":
        _go_on_counting(connection)
    return rows.count


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    some: list[dict[str, Any]] = []
    for row in rows:
        some.append(row)
        if len(some) == _MANY:
            yield some
            some = []
    if some:
        yield some


def _go_on_counting(connection: Connection) -> None:
    """Continue PostgreSQL's own sequence of notification ids after the imported ones."""
    last = connection.execute(select(func.max(notifications.c.id))).scalar()
    if last is not None:
        connection.execute(
            text("SELECT setval(pg_get_serial_sequence('notifications', 'id'), :last)"), {"last": last}
        )


class _Rows:
    """Rows in such lines; HistoryError where the file is another, of another version, or truncated."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.number = 0
        self.count = 0
        head = self._next()
        if head is None or head.get("archive") != _WORD:
            raise HistoryError("import: this is no file that 'watchdogd export' wrote")
        if head.get("schema") != HEAD:
            raise HistoryError(
                f"import: it was written for schema {head.get('schema')}, this watchdogd knows {HEAD}: "
                "export it again with this version"
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while (row := self._next()) is not None:
            if "table" not in row:
                if row.get("rows") == self.count and self._next() is None:
                    return
                raise HistoryError(f"import: line {self.number}: the file is damaged: export it again")
            self.count += 1
            yield row
        raise HistoryError(f"import: the file ends after line {self.number}, cut off: export it again")

    def _next(self) -> dict[str, Any] | None:
        try:
            line = next(self._lines, None)
        except UnicodeDecodeError:
            raise HistoryError("import: this is no text in UTF-8: is it an export?") from None
        if line is None:
            return None
        self.number += 1
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise HistoryError(f"import: line {self.number} is no JSON object: is it an export, and whole?")
        return row
