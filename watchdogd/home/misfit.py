"""What lies in home in the place of something else: a file where a folder belongs, or the other way round.

Somebody untarred, copied or moved a thing there. The configuration, the history and the inbox are left to
those that read them each round, and tell it.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from watchdogd.errors import Problem

if TYPE_CHECKING:
    from watchdogd.home.layout import Home

_NEEDED = ("switches", "evidence", "inbox", "logs")
"""The folders that are made anew where they are missing: a daemon needs them."""
_FOLDERS = frozenset(
    {
        "switches",
        "evidence",
        "logs",
        "cron.hourly",
        "cron.daily",
        "cron.weekly",
        "plugins",
        ".lease",
        ".outbox",
    }
)
_FILES = frozenset({"status.json", ".config.good.toml", ".id"})


def misfits(home: Home) -> tuple[Problem, ...]:
    """Each, with the fix. OSError where home cannot be listed.

    Links are left to whoever follows them, since that may hang.
    """
    with os.scandir(home.path) as entries:
        return tuple(sorted(filter(None, map(_misfit, entries))))


def restore(home: Home) -> tuple[str, ...]:
    """Make the folders anew that a daemon needs and are missing; returns their names. OSError.

    Not where config.toml is missing: home was moved away or unmounted.
    """
    missing = [name for name in _NEEDED if not os.path.lexists(home.path / name)]
    if not missing or not home.config.exists():
        return ()
    for name in missing:
        home.make_folder(home.path / name)
    return tuple(missing)


def no_folder(path: os.PathLike[str] | str) -> NotADirectoryError:
    """What is raised of something in the place of a folder: it says the mend."""
    return NotADirectoryError(errno.ENOTDIR, _no_folder(os.fspath(path)))


def no_file(path: str) -> Problem:
    """What is no file though it should be one, with the fix."""
    what = "a folder" if os.path.isdir(path) else "no plain file"
    return Problem(f"{path} is {what}, and a file belongs there", _away(path))


def _misfit(entry: os.DirEntry[str]) -> Problem | None:
    if entry.is_symlink():
        return None
    if entry.name in _FOLDERS and not entry.is_dir():
        return _no_folder(entry.path)
    return no_file(entry.path) if entry.name in _FILES and not entry.is_file() else None


def _no_folder(path: str) -> Problem:
    return Problem(f"{path} is no folder, and a folder belongs there", _away(path))


def _away(path: str) -> str:
    """The fix."""
    import shlex  # light verbs import this module

    return f"mv {shlex.quote(path)} {shlex.quote(f'{path}.aside')}"
