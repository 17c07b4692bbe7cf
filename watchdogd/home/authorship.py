"""Whether a file of the inbox is its owner's word: in a folder that a group shares, a member may move or link
there what another one owns, and change what its rights let them. Light: strings and numbers.
"""

from __future__ import annotations

import stat

TYPE_CHECKING = False  # without the import of typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    import os

SHARED, PRIVATE = 0o640, 0o600
"""Rights of what is handed in where a group shares the inbox, and where nobody does."""
_FIT = 300.0
"""Seconds from the last word of a file until it has its place, on a file system that is busy."""


def flaw(found: os.stat_result, *, shared: bool) -> str:
    """Why this file is not taken for its owner's word, or empty; `shared`: a group shares the inbox.

    Whoever renames or links a file, or dates it back, changes its ctime, which nobody can set.
    """
    if not stat.S_ISREG(found.st_mode):
        return "it is no plain file"
    if found.st_nlink != 1:
        return "it has more than one name: its owner may not have put it there"
    if not shared:
        return ""
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others than its owner may write it: hand it in with 'chmod go-w'"
    if abs(found.st_ctime - found.st_mtime) > _FIT:
        return "its time does not fit: it was moved here, changed or dated after it was written"
    return ""
