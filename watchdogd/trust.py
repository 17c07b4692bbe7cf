"""Whose files are run: only those that nobody but the owner, root or the configured group can write.

The same holds for every folder above; sticky folders such as /tmp, where only the owner can replace a
file, and folders of the configured group are fine.
"""

from __future__ import annotations

import grp
import os
import shlex
import stat
from pathlib import Path


def distrust(path: Path, group: int | None = None) -> str:
    """Why this file or folder shall not be used, in one line with the mend; empty where it may."""
    real = place = os.path.realpath(path)
    while True:  # plain text: for each drop-in, each minute, a Path would cost more than the looks themselves
        try:
            found = os.stat(place)
        except OSError as error:
            return f"{place} cannot be looked at: {error.strerror}"
        reason = _reason(place, found, group, itself=place == real)
        above = os.path.dirname(place)
        if reason or above == place:
            return reason
        place = above


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
