"""Store: the history as the rest of the program uses it, and its archive for export and import."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import groupby
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, func, select, text

from watchdogd.errors import HistoryError
from watchdogd.history import measurements, queries, retention
from watchdogd.history.database import Database
from watchdogd.history.database_file import FAULTS, sentence
from watchdogd.history.measurements import Tail
from watchdogd.history.models import Past, Record
from watchdogd.history.schema import HEAD, metadata, notifications
from watchdogd.history.writer import Writer, settle
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Notification
from watchdogd.system.smallfile import parse_json

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _reading(
    query: Callable[Concatenate[Connection, Arguments], Found],
) -> Callable[Concatenate[Store, Arguments], Found]:
    """Make a method of Store from a query, in a transaction of its own."""

    @wraps(query)
    def read(store: Store, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        with store._transaction() as connection:
            return query(connection, *args, **kwargs)

    return read


class Store:
    """One history. Every method raises HistoryError, in one line that says what to do, where it fails.

    After an error the next call opens the database again. Thread-safe; a call that waits for another that
    hangs in the file system gives up after three seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer: Writer | None = None
        self._tail: Tail | None = None
        self._unreadable: tuple[str, ...] = ()

    @classmethod
    def open(cls, url: str, home: Home, *, owner: bool = True) -> Store:
        """Open the history at `url` (SQLite paths are relative to home); create or migrate it if necessary.

        A damaged SQLite file is set aside and restored from its backup, see `troubles`. `owner=False`: only
        read, since a daemon may be at work; nothing is created, migrated or repaired.
        """
        store = cls.at(url, home, owner=owner)
        with store._database.transaction():
            return store

    @classmethod
    def at(cls, url: str, home: Home, *, owner: bool = True) -> Store:
        """Return a home's history, opened at its first use; see `open`."""
        return cls(Database(url, home, owner=owner))

    @property
    def folder(self) -> str:
        """Return the folder of its file; empty where a server keeps it."""
        file = self._database.file
        return str(file.path.parent) if file else ""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return damage found and repaired, one line each; the list only grows."""
        return self._database.troubles + self._unreadable

    def close(self) -> None:
        with self._database.alone():
            self._forget()
            self._database.close()

    @contextmanager
    def _transaction(self, *, writing: bool = False) -> Iterator[Connection]:
        with self._database.alone():
            try:
                with self._database.transaction(writing=writing) as connection:
                    yield connection
            except BaseException:
                self._forget()
                raise

    def _forget(self) -> None:
        """Drop what is cached of the database: after a failed transaction it may not be there."""
        self._writer = self._tail = None

    def past(self) -> Past:
        """Return the state from which a starting daemon continues."""
        with self._transaction() as connection:
            past, self._unreadable = queries.past(connection)
        return past

    def record(self, record: Record) -> None:
        """Store one round in one transaction. Storing it again changes nothing."""
        with self._database.alone():
            with self._transaction(writing=True) as connection:
                self._writer = self._writer or Writer(connection)
                measured = self._writer.write(connection, record)
            if self._tail is not None:
                self._tail.add(measured)

    def settle(self, outcomes: Sequence[Notification]) -> None:
        """Store the outcome of notifications. One that no longer waits stays unchanged."""
        with self._transaction(writing=True) as connection:
            settle(connection, outcomes)

    def waiting(self) -> list[Notification]:
        """Return notifications to be sent, in the order in which they were stored."""
        return self.notifications(state="waiting")

    memories = _reading(queries.memories_of)
    notification = _reading(queries.notification_of)
    notifications = _reading(queries.notifications_of)
    incidents = _reading(queries.incidents_of)
    incident = _reading(queries.incident_of)
    events = _reading(queries.events_of)
    changes = _reading(queries.changes_of)
    readings = _reading(queries.readings_of)
    measures = _reading(measurements.measures_of)
    gaps = _reading(queries.gaps_since)
    touches = _reading(queries.touches_since)

    def series(self, check: str, since: float) -> measurements.PastOfCheck:
        """Return a check's readings: (time, value) by (subject, metric), oldest first.

        Raw ones of the last hour or so, before that means of five minutes, then of hours.
        """
        return self.series_of((check,), since)[check]

    def series_of(self, checks: Collection[str], since: float) -> dict[str, measurements.PastOfCheck]:
        """Return the readings of several checks, which takes little longer than those of one."""
        with self._transaction() as connection:
            found, self._tail = measurements.points(connection, self._tail, checks, since)
        return found

    def export(self, say: Callable[[str], object]) -> None:
        """Pass all rows to `say`, line by line, as of one moment."""

        with self._transaction() as connection:
            for line in lines_of(connection):
                say(line)

    def bring_in(self, lines: Iterable[str]) -> int:
        """Fill an empty history with exported lines; return the number of rows."""

        with self._transaction(writing=True) as connection:
            return bring_in(connection, lines)

    def thin(self, now: float, keep: float) -> None:
        """Aggregate and drop old readings; call it about hourly. `keep` in seconds."""
        with self._transaction() as connection:
            thinned = retention.load(connection)
        if thinned is None:
            return
        steps = deque(retention.plan(now, keep, thinned))
        while steps:
            with self._transaction(writing=True) as connection:
                if retention.load(connection) != thinned:  # a late reading came: the next call continues
                    return
                thinned = retention.execute(connection, steps)
                if self._tail is not None:
                    self._tail.trim(thinned.folded)

    def backup(self) -> None:
        """Replace `history.backup.db` by a verified copy; other databases have their own tools."""
        file = self._database.file
        if file is None:
            return
        try:
            file.back_up()
        except FAULTS as error:
            problem = sentence(error, file.path).about("no backup was made: ")
            raise HistoryError(problem.what, fix=problem.fix) from error


_MANY = 2000
"""Rows in one statement."""
_WORD = "watchdogd history"
_FAR = {float("inf"): "1e999", float("-inf"): "-1e999"}


def lines_of(connection: Connection) -> Iterator[str]:
    """Yield a history as lines of JSON: the schema, then a line for each row, last their number.

    A row has its table's name under `table`, and its columns, in the order of the primary keys. By the number
    a truncated file is recognised.
    """
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
