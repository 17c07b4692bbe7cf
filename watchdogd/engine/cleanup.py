"""Removal of the daemon's own old files, so that it never eats the inodes it guards.

Outputs of drop-in jobs and rotated logs in logs/, drafts that a crash left, heartbeats of processes that are
long gone, samples and stacks that nobody renews or fetches.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from typing import TYPE_CHECKING

from watchdogd.home.inbox import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from watchdogd.home.layout import Home

DRAFTS = 86400.0
BEATS = 7 * 86400.0
LEFT = 86400.0
"""Seconds after which drafts, heartbeats that nobody renews, and samples, stacks and requests for them go."""
_OUTPUT = re.compile(r"cron\..+-\d+\.out|(?:daemon|link)\.log\.\d+")
_STACKS = re.compile(r"(?!\.).+\.stacks(?:-request|\.[^.]+\.\d+\.(?:txt|json))")
_DRAFT = re.compile(r"\..+\.\d+\.(?:[0-9a-f]{8}|new)")

log = logging.getLogger(__name__)


def clean_up(home: Home, keep_logs: float, now: float) -> int:
    """Remove what is too old; returns how many files went. What cannot be removed stays."""
    places: list[tuple[Path, float, Callable[[str], bool]]] = [
        (home.logs, keep_logs, lambda name: bool(_OUTPUT.fullmatch(name))),
        (home.inbox, BEATS, lambda name: kind_of(name) == "beat"),
        (home.inbox, LEFT, lambda name: bool(kind_of(name) == "sample" or _STACKS.fullmatch(name))),
        *((folder, DRAFTS, is_draft) for folder in (home.path, home.inbox, home.switches, home.logs)),
    ]
    gone = sum(_remove(folder, now - age, wanted) for folder, age, wanted in places)
    if gone:
        log.info("removed %d old files of our own", gone)
    return gone


def is_draft(name: str) -> bool:
    """Return whether it is the name of a file that was still being written: of home, draft or the Guard."""
    return bool(_DRAFT.fullmatch(name))


def _remove(folder: Path, before: float, wanted: Callable[[str], bool]) -> int:
    gone = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if wanted(entry.name) and _is_old(entry, before):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    gone += 1
    return gone


def _is_old(entry: os.DirEntry[str], before: float) -> bool:
    """Return whether this is a plain file of an age; never what a link leads to."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < before
