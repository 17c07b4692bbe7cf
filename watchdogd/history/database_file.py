"""SQLite file on a disk that may be full, shared or broken: permissions, integrity, backup.

Also the sentences for all database errors.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from watchdogd.errors import Problem
from watchdogd.home.layout import Home, no_file
from watchdogd.units import age, local_time

FAULTS = (SQLAlchemyError, sqlite3.Error, OSError, ImportError, ValueError)
"""All errors of a database, its driver or its file system; ValueError: an invalid row."""

_HELD = Problem("another process holds it", "see whether a second watchdogd runs on this home")
_DAMAGED = Problem("it is damaged", "it is set aside and restored from its backup at the next use")
_SQLITE = {
    "SQLITE_FULL": Problem("its file system is full", "free space"),
    "SQLITE_READONLY_DBMOVED": Problem("it was moved or removed while in use"),
    "SQLITE_READONLY": Problem(
        "it cannot be written", "see whether the file system is read-only, or the file another user's"
    ),
    "SQLITE_CANTOPEN": Problem(
        "it or its journal cannot be opened", "see whether the folder is there, writable, with inodes left"
    ),
    "SQLITE_BUSY": _HELD,
    "SQLITE_LOCKED": _HELD,
    "SQLITE_PROTOCOL": Problem(
        "its file system cannot lock files", "set [history] url to a file on one that can"
    ),
    "SQLITE_IOERR": Problem("its file system fails", "see whether it is over quota, full, read-only or gone"),
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}
_DISK = {
    errno.ENOSPC: Problem("its file system is full (bytes or inodes)", "free space"),
    errno.EDQUOT: Problem("the quota is used up", "free space or ask for more"),
    errno.EROFS: Problem("its file system is mounted read-only"),
    errno.EACCES: Problem("access is denied", "the history belongs to another user, or its folder is closed"),
    errno.ENOENT: Problem("its folder is gone", "see whether the file system is mounted"),
    errno.ESTALE: Problem("its file system is gone (stale file handle)", "mount it again"),
}
_NUMBERS = {
    "SQLITE_FULL": errno.ENOSPC,
    "SQLITE_READONLY_DBMOVED": errno.ENOENT,
    "SQLITE_READONLY": errno.EACCES,
    "SQLITE_CANTOPEN": errno.EACCES,
    "SQLITE_IOERR": errno.EIO,
}
"""What the kernel says of a file in such a state, as far as SQLite tells it."""


def is_damage(error: BaseException) -> bool:
    """Return whether the database file is damaged, so that trying again is useless."""
    return _code(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def number_of(error: BaseException) -> int | None:
    """Return the errno of what failed; None where none is known."""
    if isinstance(error, OSError):
        return error.errno
    code = _code(error)
    return next((number for prefix, number in _NUMBERS.items() if code.startswith(prefix)), None)


def sentence(error: BaseException, place: Path | str) -> Problem:
    """Return which history it is, what is wrong with it, and the fix."""
    return (misfits(place) or _reason(error)).about(f"history {place}: ")


def misfits(place: Path | str) -> Problem:
    """Return what is in place of the file or of its journal and is not a file, or empty.

    SQLite would open it, and wait for ever if it is a pipe.
    """
    paths = (f"{place}", f"{place}-journal")  # the URL of a server is no file's name
    wrong = (no_file(path) for path in paths if os.path.lexists(path) and not os.path.isfile(path))
    return next(wrong, Problem())


def _reason(error: BaseException) -> Problem:
    code = _code(error)
    for prefix, problem in _SQLITE.items():
        if code.startswith(prefix):
            return problem
    if isinstance(error, OSError):
        plain = Problem(f"{error.strerror or error}", "check its file system")
        return _DISK.get(error.errno or 0, plain)
    if isinstance(error, NoSuchModuleError | ImportError):
        return Problem(f"{error}", "install the driver that [history] url names")
    if isinstance(error, ValueError):
        return Problem(f"a row cannot be read ({_first_line(error)})", "restore history.backup.db over it")
    return Problem(f"{_first_line(_origin(error))}", "check [history] url and that its server answers")


def _origin(error: BaseException) -> BaseException:
    """Return the driver's error within SQLAlchemy's."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _code(error: BaseException) -> str:
    return getattr(_origin(error), "sqlite_errorname", None) or ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


BUSY = 3.0
"""Seconds to wait for another process's lock; less than the daemon waits for the history."""
_ASIDE = ".corrupt-"
_STEP = 2048
"""Pages (of 4 KiB) copied at a time by a backup, so that no round waits for all of it."""


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """One SQLite file and the files beside it."""

    path: Path
    home: Home

    @property
    def backup(self) -> Path:
        """Return the path of yesterday's copy: `history.backup.db`."""
        return self.path.with_name(f"{self.path.stem}.backup{self.path.suffix}")

    @property
    def journal(self) -> Path:
        """Return the path of SQLite's rollback journal."""
        return self.path.with_name(self.path.name + "-journal")

    def repair(self) -> str:
        """Make the file usable: create it, or set it aside and restore it. Return what users must know."""
        if not self._exists():
            return self._begin_again("was missing or empty") if self.backup.exists() else self._make()
        problem = flaw(self.path)
        return self._begin_again("was damaged", f" ({problem})") if problem else ""

    def lost(self) -> str:
        """Return a sentence on a new history where a damaged one was set aside; else empty."""
        kept = self._kept()
        return f"{self.path}: the history begins anew{kept}" if kept else ""

    def _kept(self) -> str:
        """Return the name of the damaged file set aside last, in words, or empty."""
        asides = sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}{_ASIDE}*"))
        names = [aside.name for aside in asides if not aside.name.endswith("-journal")]
        return f"; an earlier one was damaged, and is kept as {names[-1]}" if names else ""

    def back_up(self) -> None:
        """Replace the backup with a verified copy. OSError, sqlite3.Error."""
        draft = self.backup.with_name(f".{self.backup.name}.draft")
        draft.unlink(missing_ok=True)
        try:
            self._create(draft)
            with (
                contextlib.closing(sqlite3.connect(self.path, timeout=BUSY)) as source,
                contextlib.closing(sqlite3.connect(draft)) as target,
            ):
                target.execute("PRAGMA journal_mode=OFF")  # a failed draft is discarded
                source.backup(target, pages=_STEP, sleep=0.01)
            if problem := flaw(draft):
                raise sqlite3.DatabaseError(f"the copy is damaged ({problem}); the last backup is kept")
            _sync(draft)
            draft.replace(self.backup)
        finally:
            draft.unlink(missing_ok=True)

    def _exists(self) -> bool:
        """Return whether there is a file with content.

        SQLite would take an empty one for a new database, and the backup would stay unused.
        """
        try:
            return self.path.stat().st_size > 0
        except FileNotFoundError:
            return False

    def _begin_again(self, why: str, how: str = "") -> str:
        """Set the old file aside; restore the backup if it is intact, else create a new file."""
        before, aside = self._kept(), self._set_aside()
        kept = f"; it is kept as {aside.name}" if aside else before
        if self.backup.exists() and not flaw(self.backup):
            saved = self.backup.stat().st_mtime
            old = age(max(time.time() - saved, 1.0))
            self._restore()
            lost = f"what came after {local_time(saved)} is lost"
            return f"{self.path} {why}: restored from its backup, {old} old; {lost}{how}{kept}"
        self._make()
        return f"{self.path} {why} and there is no sound backup: the history begins anew{how}{kept}"

    def _set_aside(self) -> Path | None:
        """Rename the file with its date; first its journal, which would overwrite pages of a new file."""
        mark = f"{_ASIDE}{datetime.now(UTC):%Y%m%dT%H%M%S}"
        aside = self.path.with_name(self.path.name + mark)
        with contextlib.suppress(FileNotFoundError):
            self.journal.rename(aside.with_name(aside.name + "-journal"))
        if not self._exists():
            self.path.unlink(missing_ok=True)
            return None
        return self.path.rename(aside)

    def _restore(self) -> None:
        draft = self.path.with_name(f".{self.path.name}.draft")
        draft.unlink(missing_ok=True)
        try:
            self._create(draft)
            shutil.copyfile(self.backup, draft)
            _sync(draft)
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)

    def _make(self) -> str:
        self.path.unlink(missing_ok=True)
        self._create(self.path)
        return ""

    def _create(self, path: Path) -> None:
        """Create an empty file with home's permissions, which SQLite gives the journal too."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if self.home.group is not None:
                with contextlib.suppress(PermissionError):  # a setgid folder has set the group already
                    os.fchown(descriptor, -1, self.home.group)
            os.fchmod(descriptor, self.home.file_mode)
        finally:
            os.close(descriptor)


def flaw(path: Path) -> str:
    """Return the damage of a SQLite file, or empty. sqlite3.Error where it cannot be read at all."""
    if odd := misfits(path):
        return odd
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY)) as connection:
        try:
            found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return str(error)
    return "" if found == "ok" else found.splitlines()[-1]


def _sync(path: Path) -> None:
    """Write a file's data to disk before it is renamed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
