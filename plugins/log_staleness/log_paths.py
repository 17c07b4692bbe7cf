"""Obstacles in place of a log (a folder, a FIFO, a broken link), in words, and what to do about them."""

from __future__ import annotations

import errno
import glob
import os
import stat as modes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.system import pathname

if TYPE_CHECKING:
    from collections.abc import Collection

_TO_A_FILE = "have the run write to a file, and set log to that"
_KINDS = (
    (modes.S_ISDIR, "a folder", "set log to the files in it, as {path}/*"),
    (modes.S_ISFIFO, "a FIFO, which only one can read", _TO_A_FILE),
    (modes.S_ISSOCK, "a socket", _TO_A_FILE),
    (modes.S_ISCHR, "a device", _TO_A_FILE),
    (modes.S_ISBLK, "a device", _TO_A_FILE),
)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is there instead of a log (`what`), and the `fix`; empty if none is known."""

    what: str
    fix: str = ""

    def __str__(self) -> str:
        """Return it as a summary says it."""
        return f"{self.what} ({self.fix})" if self.fix else self.what


def find(pattern: str, written: Collection[str] = ()) -> Obstacle | None:
    """Return why this pattern finds no log; None if there simply is none (yet).

    `written`: files that watchdogd writes itself.
    """
    paths = sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else [pattern]
    return next((told for path in paths if (told := _instead(path, written))), None) or _folder(pattern)


def _instead(path: str, written: Collection[str]) -> Obstacle | None:
    """Return what is there instead of a log."""
    if path in written:
        return Obstacle(f"{path} is what watchdogd itself writes", "set log to what the run writes")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        if not os.path.islink(path):
            return None
        return Obstacle(f"{path} is a link to {os.readlink(path)}, which is not there", "mend it or log")
    for is_one, what, fix in _KINDS:
        if is_one(mode):
            return Obstacle(f"{path} is {what}", fix.format(path=path))
    return None


def _folder(pattern: str) -> Obstacle | None:
    """Return what is wrong with the log's folder; to glob an unreadable folder looks empty."""
    folder = pathname.wildcard_folder(pattern)
    try:
        os.stat(folder)
        if glob.has_magic(pattern):
            os.listdir(folder)
    except FileNotFoundError:
        return Obstacle(f"there is no folder {folder}", "correct log, if it should be there")
    except OSError as error:
        return refused(error, folder)
    return None


def refused(error: OSError, path: str) -> Obstacle:
    """Return that a path cannot be read, why, and who can change that."""
    where = str(error.filename or path)
    return Obstacle(f"{where} cannot be read: {error.strerror}", _fix(error.errno, where))


def _fix(number: int | None, where: str) -> str:
    if number == errno.ENOTDIR:
        return "a file stands where a folder should be; correct log"
    if number == errno.ELOOP:
        return "its links lead in a circle; mend them"
    if number not in (errno.EACCES, errno.EPERM):
        return ""
    folder = os.path.dirname(where) or "."
    if os.path.isdir(where):
        return f"have its owner run: chmod g+rx {where}"
    if not os.access(folder, os.X_OK):
        return f"have the owner of {folder} run: chmod g+x {folder}"
    return f"have its owner run: chmod g+r {where}"
