"""Words for what a database throws: one line that says what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from watchdogd.home.layout import no_file

FAULTS = (SQLAlchemyError, sqlite3.Error, OSError, ImportError, ValueError)
"""Everything that a database, its driver or its file system throws; ValueError: a row that makes no sense."""

_SQLITE = {
    "SQLITE_FULL": "its file system is full: free space",
    "SQLITE_READONLY_DBMOVED": "it was moved or removed while in use",
    "SQLITE_READONLY": "it cannot be written: is the file system read-only, or the file another user's?",
    "SQLITE_CANTOPEN": "it or its journal cannot be opened: is the folder there, writable, with inodes left?",
    "SQLITE_BUSY": "another process holds it: is a second watchdogd running on this home?",
    "SQLITE_LOCKED": "another process holds it: is a second watchdogd running on this home?",
    "SQLITE_PROTOCOL": "its file system cannot lock files: set [history] url to a file on one that can",
    "SQLITE_IOERR": "its file system fails: is it over quota, full, read-only or gone?",
    "SQLITE_CORRUPT": "it is damaged: it is set aside and restored from its backup at the next use",
    "SQLITE_NOTADB": "it is damaged: it is set aside and restored from its backup at the next use",
}
_DISK = {
    errno.ENOSPC: "its file system is full (bytes or inodes): free space",
    errno.EDQUOT: "the quota is used up: free space or ask for more",
    errno.EROFS: "its file system is mounted read-only",
    errno.EACCES: "access is denied: the history belongs to another user, or its folder is closed",
    errno.ENOENT: "its folder is gone: is the file system mounted?",
    errno.ESTALE: "its file system is gone (stale file handle): mount it again",
}


def is_damage(error: BaseException) -> bool:
    """Return whether the database file itself is broken, and trying again is of no use."""
    return _code(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def sentence(error: BaseException, place: Path | str) -> str:
    """Return one line: which history, what is wrong with it, and the mend."""
    return f"history {place}: {misfits(place) or _reason(error)}"


def misfits(place: Path | str) -> str:
    """Return what lies there, or in the place of its journal, that is no file, or empty.

    SQLite opens the journal whatever it is, and waits for ever for somebody who writes into a pipe: it is to
    be asked before.
    """
    paths = (f"{place}", f"{place}-journal")  # the address of a server is the name of no file
    return "; ".join(no_file(path) for path in paths if os.path.lexists(path) and not os.path.isfile(path))


def _reason(error: BaseException) -> str:
    code = _code(error)
    for prefix, repair in _SQLITE.items():
        if code.startswith(prefix):
            return repair
    if isinstance(error, OSError):
        return _DISK.get(error.errno or 0) or f"{error.strerror or error}: check its file system"
    if isinstance(error, NoSuchModuleError | ImportError):
        return f"{error}: install the driver that [history] url names"
    if isinstance(error, ValueError):
        return f"a row cannot be read ({_first_line(error)}): restore history.backup.db over it"
    return f"{_first_line(_origin(error))}: check [history] url and that its server answers"


def _origin(error: BaseException) -> BaseException:
    """Return what the driver threw, where SQLAlchemy wrapped it."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _code(error: BaseException) -> str:
    return getattr(_origin(error), "sqlite_errorname", None) or ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
