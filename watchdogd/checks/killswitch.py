"""The kill switch of a run as it lies on its file system."""

from __future__ import annotations

import os
import pwd
import stat

from watchdogd.checks.past import Switch
from watchdogd.readers import switch

_LIMIT = 64 * 1024


def kill_switch(path: str) -> Switch | None:
    """The kill switch as it lies there, or None. One that cannot be read is set all the same.

    A folder is none: it is a mistake in config.toml, and no Guard stops for it.
    """
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return None
    touches = switch.read(_text(path)) if stat.S_ISREG(found.st_mode) else ()  # a pipe would keep its reader
    first = touches[0] if touches else switch.Touch()
    return Switch(first.at or found.st_mtime, first.by or _user(found.st_uid), first.reason)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LIMIT)
    except OSError:
        return ""


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
