"""Paths as strings: home, file names made of a run's name, and wildcards. Few imports."""

from __future__ import annotations

import os
import re
import stat

from watchdogd.errors import HomeError

NO_HOME = "HOME is not set, and this machine knows no folder of this user"
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~")


def home_folder(option: str | None) -> str:
    """Return `--home`, else $WATCHDOGD_HOME, else ~/.watchdogd, absolute; it need not exist. HomeError."""
    chosen = os.path.expanduser(option or os.environ.get("WATCHDOGD_HOME") or "~/.watchdogd")
    if chosen.startswith("~/"):
        raise HomeError(f"{NO_HOME}: say --home DIR, or set WATCHDOGD_HOME")
    return os.path.abspath(chosen)


def group_of(folder: str) -> int | None:
    """Return the Unix group that shares a folder of home, by its mode (2770), or None. OSError."""
    found = os.stat(folder)
    return found.st_gid if found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IWGRP else None


def file_name(name: str) -> str:
    """Return a run's name for a file name: percent-encoded, including a leading dot."""
    quoted = "".join(
        char
        if char in _PLAIN
        else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in name
    )
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def run_name(quoted: str) -> str:
    """Return the run's name that `file_name` encoded."""
    from urllib.parse import unquote

    return unquote(quoted, errors="surrogateescape")


_WILD = re.compile(r"[*?\[]")


def is_path(text: str) -> bool:
    """Return whether the system takes it as a path or a name."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def is_wild(pattern: str) -> bool:
    return _WILD.search(pattern) is not None


def before_wildcard(pattern: str) -> str:
    """Return the part before the first wildcard; all of it where there is none."""
    return _WILD.split(pattern, maxsplit=1)[0]


def wildcard_folder(pattern: str) -> str:
    """Return the folder in which the first wildcard is expanded, or a plain path lies; else `.`."""
    return os.path.dirname(before_wildcard(pattern)) or "."
