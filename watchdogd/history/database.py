"""The history's database: opened, created, migrated and repaired; all transactions go through here."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from watchdogd.config.secret import without_passwords
from watchdogd.errors import HistoryError, NoHistoryError
from watchdogd.history import schema
from watchdogd.history.database_file import BUSY, FAULTS, HistoryFile, is_damage, misfits, sentence
from watchdogd.home.layout import Home

DIALECTS = ("sqlite", "postgresql")


class Database:
    """One database. After an error all connections are closed, and the next transaction opens it again.

    `owner` is False for readers, which never create, migrate or repair. `troubles`: damage found and
    repaired, one line each.
    """

    def __init__(self, url: str, home: Home, *, owner: bool = True) -> None:
        self._url = _absolute(url, home)
        self._home = home
        self._owner = owner
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self._suspect = owner
        self._opened_before = False
        self.troubles: tuple[str, ...] = ()
        self.file = _file(self._url, home)
        self.place = (
            str(self.file.path)
            if self.file
            else without_passwords(self._url.render_as_string(hide_password=True))
        )

    @property
    def dialect(self) -> str:
        """Return `sqlite` or `postgresql`."""
        return self._url.get_backend_name()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other threads from the database in this block; HistoryError where one hangs in it."""
        if not self._lock.acquire(timeout=BUSY):
            raise HistoryError(f"history {self.place}: an earlier use has not come back for {BUSY:.0f} s")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def transaction(self, *, writing: bool = False) -> Iterator[Connection]:
        """Open a transaction, committed if the block succeeds. HistoryError for any error."""
        with self.alone():
            try:
                with self._opened().connect().execution_options(writing=writing) as connection:
                    yield connection
                    if writing:
                        connection.commit()
            except FAULTS as error:
                self._suspect = self._suspect or (self._owner and is_damage(error))
                self.close()
                problem = sentence(error, self.place)
                raise HistoryError(problem.what, fix=problem.fix) from error

    def close(self) -> None:
        """Close all connections; the next transaction opens it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _opened(self) -> Engine:
        if self._engine is None:
            if self.file is not None:
                if odd := misfits(self.file.path):
                    wrong = odd.about(f"history {self.place}: ")
                    raise HistoryError(wrong.what, fix=wrong.fix) from IsADirectoryError(errno.EISDIR, odd)
                self._check(self.file)
            engine = _engine(self._url)
            try:
                self._migrate(engine)
            except BaseException:
                engine.dispose()
                raise
            self._engine, self._opened_before = engine, True
        return self._engine

    def _check(self, file: HistoryFile) -> None:
        if not self._owner:
            if not file.path.exists():
                raise self._none_yet()
            return
        gone = not file.path.exists()
        # A file that was there, in a home that is gone, is on an unmounted disk: do not create a new one.
        if gone and self._opened_before and not self._home.config.exists():
            raise HistoryError(f"history {self.place}: it is gone with its home: is its file system mounted?")
        if self._suspect or gone:
            repaired = file.repair()
            self.troubles += (repaired,) if repaired else ()
            self._suspect = False

    def _none_yet(self) -> NoHistoryError:
        start = self._home.command("start")
        return NoHistoryError(f"history {self.place}: there is none yet; start with '{start}'")

    def _migrate(self, engine: Engine) -> None:
        with engine.connect() as connection:
            present = schema.revision(connection)
        if present == schema.HEAD:
            return
        if not self._owner and present is None:
            raise self._none_yet()
        if not self._owner:
            raise HistoryError(
                f"history {self.place}: its schema is {present}, this watchdogd's {schema.HEAD}: "
                "restart the daemon with this version"
            )
        with engine.connect().execution_options(writing=True) as connection:
            schema.upgrade(connection)
            connection.commit()
        if present is None and self.file is not None and not self.troubles:
            lost = self.file.lost()  # set aside by an earlier try that failed to create a new one
            self.troubles += (lost,) if lost else ()


def _absolute(url: str, home: Home) -> URL:
    """Return the URL, for SQLite with an absolute path."""
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, ValueError):  # the text may hold a password: do not repeat it
        raise HistoryError("history: [history] url is no URL: write 'sqlite:///history.db'") from None
    if backend not in DIALECTS:
        raise HistoryError(f"history: [history] url names {backend}: SQLite and PostgreSQL are supported")
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise HistoryError("history: [history] url names no file: write 'sqlite:///history.db'")
        path = os.path.expandvars(os.path.expanduser(str(parsed.database)))
        parsed = parsed.set(database=os.path.normpath(os.path.join(home.path, path)))
    return parsed


def _file(url: URL, home: Home) -> HistoryFile | None:
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    return HistoryFile(Path(url.database), home)


def _engine(url: URL) -> Engine:
    """Create an engine with a single connection, since there is one writer."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=1, max_overflow=0)
    engine = create_engine(url, pool_size=1, max_overflow=0, connect_args={"timeout": BUSY})
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _record: object) -> None:
    """Configure SQLite for a disk across a network.

    Journal: WAL needs shared memory, and fails or corrupts on NFS, Lustre and GPFS; the rollback journal
    needs only locks. PERSIST, not DELETE or TRUNCATE: one file whose beginning is overwritten, not one
    created or extended each round, which burdens the metadata server of a parallel file system, takes a third
    of the commit on a local disk, and needs space and an inode each time. FULL: the journal is on disk before
    the database changes, and its end before the commit returns; so a power cut leaves the old state or the
    new. (EXTRA adds a sync of the folder after the journal is deleted; PERSIST deletes none.) Temporary
    tables in memory: /tmp may be the file system that is full.
    """
    connection.isolation_level = None  # transactions are begun by _begin only
    for pragma in (
        "journal_mode=PERSIST",
        f"journal_size_limit={1 << 20}",
        "synchronous=FULL",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """Begin a transaction; a writer locks at once, since one that has read first cannot wait for another."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
