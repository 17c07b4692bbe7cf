"""Whose files are run: only those that nobody but the owner, root or the configured group can write.

The same holds for every folder above; sticky folders such as /tmp, where only the owner can replace a
file, and folders of the configured group are fine.
"""

from __future__ import annotations

import grp
import os
import shlex
import stat
import time
from pathlib import Path

FRESH = 1.0
"""Seconds for which what was found of a folder holds for the files in it."""


def distrust(path: Path, group: int | None = None) -> str:
    """Why this file or folder shall not be used, in one line with the mend; empty where it may."""
    real = os.path.realpath(path)
    return _distrust(real, group) or _above(os.path.dirname(real), group)


class Folders:
    """Looks at many files of few folders: at each file itself, at its folders once every `FRESH` seconds."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int | None], tuple[float, str, str]] = {}

    def distrust(self, path: str, group: int | None = None) -> str:
        """As `distrust` says it."""
        folder, name = os.path.split(path)
        try:
            found = os.lstat(path)
        except OSError as error:
            return _unseen(path, error)
        if stat.S_ISLNK(found.st_mode):
            return distrust(Path(path), group)
        real, reason = self._folder(folder, group)
        return _reason(f"{real}/{name}", found, group, itself=True) or reason

    def _folder(self, folder: str, group: int | None) -> tuple[str, str]:
        """Where it lies, and why it shall not be used."""
        now = time.monotonic()
        at, real, reason = self._found.get((folder, group), (-FRESH, "", ""))
        if now - at >= FRESH:
            real = os.path.realpath(folder)
            reason = _above(real, group)
            self._found[folder, group] = now, real, reason
        return real, reason


def _above(place: str, group: int | None) -> str:
    """Why nothing in this folder shall be used."""
    while True:  # plain text: for each drop-in, each minute, a Path would cost more than the looks themselves
        reason, above = _distrust(place, group, itself=False), os.path.dirname(place)
        if reason or above == place:
            return reason
        place = above


def _distrust(place: str, group: int | None, *, itself: bool = True) -> str:
    try:
        found = os.stat(place)
    except OSError as error:
        return _unseen(place, error)
    return _reason(place, found, group, itself=itself)


def _unseen(place: str, error: OSError) -> str:
    return f"{place} cannot be looked at: {error.strerror}"


def exposed(path: Path, group: int | None = None) -> str:
    """Who else can read this file of a secret, in one line with the mend; empty where nobody can, where the
    configured group may, or where it cannot be looked at."""
    real = Path(os.path.realpath(path))
    try:
        found = real.stat()
    except OSError:
        return ""
    mend = f"chmod {'640' if found.st_gid == group else '600'} {shlex.quote(str(real))}"
    if found.st_mode & stat.S_IROTH:
        return f"{real} can be read by everybody: {mend}"
    if found.st_mode & stat.S_IRGRP and found.st_gid not in (0, group) and not _private(found.st_gid):
        return f"{real} can be read by group {_group_name(found.st_gid)}: {mend}"
    return ""


def _reason(place: str, found: os.stat_result, group: int | None, *, itself: bool) -> str:
    sticky = bool(found.st_mode & stat.S_ISVTX) and not itself
    if found.st_uid not in (0, os.geteuid()) and not (group is not None and found.st_gid == group):
        return f"{place} belongs to uid {found.st_uid}: only your own, root's or your group's files are used"
    if found.st_mode & stat.S_IWOTH and not sticky:
        return f"{place} can be written by everybody: chmod o-w {shlex.quote(place)}"
    others = found.st_mode & stat.S_IWGRP and found.st_gid not in (0, group) and not sticky
    if others and not (found.st_gid == os.getegid() and _private(found.st_gid)):
        name = _group_name(found.st_gid)
        mend = f"chmod g-w {shlex.quote(place)}, or set [daemon] group to it"
        return f"{place} can be written by group {name}: {mend}"
    return ""


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _private(gid: int) -> bool:
    """A user-private group (Debian's default): named as the user and without other members."""
    import pwd

    try:
        entry = grp.getgrgid(gid)
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}
