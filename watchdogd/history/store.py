"""The history as the rest of the program sees it: rounds are stored, and past facts are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from watchdogd.errors import HistoryError
from watchdogd.history import measurements, queries, retention
from watchdogd.history.database import Database
from watchdogd.history.database_file import FAULTS, sentence
from watchdogd.history.measurements import Tail
from watchdogd.history.models import Past, Record
from watchdogd.history.writer import Writer, settle
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Notification

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _reading(
    query: Callable[Concatenate[Connection, Arguments], Found],
) -> Callable[Concatenate[Store, Arguments], Found]:
    """Make a method of Store of a query: it reads in a transaction of its own."""

    @wraps(query)
    def read(store: Store, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        with store._transaction() as connection:
            return query(connection, *args, **kwargs)

    return read


class Store:
    """One history. Every method raises HistoryError, one line that says what to do, where it cannot do it.

    After that it is as usable as before: the next call opens the database anew. Methods may be called from
    any thread; one that finds another hanging in the file system gives up after three seconds.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer: Writer | None = None
        self._tail: Tail | None = None
        self._unreadable: tuple[str, ...] = ()

    @classmethod
    def open(cls, url: str, home: Home, *, owner: bool = True) -> Store:
        """Open the history at `url` (relative SQLite paths hang on home), making or migrating it as needed.

        A damaged SQLite file is set aside and restored from its backup, see `troubles`. `owner=False` is for
        verbs that look while a daemon may be at work: it makes, migrates and mends nothing.
        """
        store = cls.at(url, home, owner=owner)
        with store._database.transaction():
            return store

    @classmethod
    def at(cls, url: str, home: Home, *, owner: bool = True) -> Store:
        """Return the history of a home, opened at its first use; see `open`."""
        return cls(Database(url, home, owner=owner))

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return what was found broken and repaired since the opening, one line each; it only grows."""
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
        """Forget what is remembered of the database; after a broken transaction it may be in no table."""
        self._writer = self._tail = None

    # ------------------------------------------------------------------ the round

    def past(self) -> Past:
        """Return what a starting daemon goes on from."""
        with self._transaction() as connection:
            past, self._unreadable = queries.past(connection)
        return past

    def record(self, record: Record) -> None:
        """Store one round: all of it or nothing. Storing the same round again changes nothing."""
        with self._database.alone():
            with self._transaction(writing=True) as connection:
                self._writer = self._writer or Writer(connection)
                measured = self._writer.write(connection, record)
            if self._tail is not None:
                self._tail.add(measured)

    def settle(self, outcomes: Sequence[Notification]) -> None:
        """Store what became of notifications. One that is stored as no longer waiting stays as it is."""
        with self._transaction(writing=True) as connection:
            settle(connection, outcomes)

    def waiting(self) -> list[Notification]:
        """Return notifications that are to be sent, in the order in which they were stored."""
        return self.notifications(state="waiting")

    # ------------------------------------------------------------------ looking back

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
        """Return what a check measured: (time, value) by (subject, metric), oldest first.

        The last hour or so as it was measured, before that means of five minutes, and of hours.
        """
        return self.series_of((check,), since)[check]

    def series_of(self, checks: Collection[str], since: float) -> dict[str, measurements.PastOfCheck]:
        """Return the same of many checks at once, which costs little more than of one."""
        with self._transaction() as connection:
            found, self._tail = measurements.points(connection, self._tail, checks, since)
        return found

    # ------------------------------------------------------------------ all of it

    def export(self, say: Callable[[str], object]) -> None:
        """Hand all of it to `say`, line by line, as it is at one moment."""
        from watchdogd.history import archive

        with self._transaction() as connection:
            for line in archive.lines_of(connection):
                say(line)

    def bring_in(self, lines: Iterable[str]) -> int:
        """Fill it with what `export` said; returns how many rows. Refused where it is not empty."""
        from watchdogd.history import archive

        with self._transaction(writing=True) as connection:
            return archive.bring_in(connection, lines)

    # ------------------------------------------------------------------ keeping house

    def thin(self, now: float, keep: float) -> None:
        """Thin out what is old; meant to be called every hour or so. `keep` in seconds."""
        with self._transaction() as connection:
            thinned = retention.load(connection)
        if thinned is None:
            return
        steps = deque(retention.plan(now, keep, thinned))
        while steps:
            with self._transaction(writing=True) as connection:
                if retention.load(connection) != thinned:  # a late reading came: the next call goes on
                    return
                thinned = retention.execute(connection, steps)
                if self._tail is not None:
                    self._tail.trim(thinned.folded)

    def backup(self) -> None:
        """Replace `history.backup.db` by a sound copy; for other databases their own tools do it."""
        file = self._database.file
        if file is None:
            return
        try:
            file.back_up()
        except FAULTS as error:
            raise HistoryError(f"no backup was made: {sentence(error, file.path)}") from None
