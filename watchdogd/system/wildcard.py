"""What is plain of a path with wildcards, as glob(3) knows them: by its letters alone, nothing is asked."""

from __future__ import annotations

import os
import re

_WILD = re.compile(r"[*?\[]")


def is_wild(pattern: str) -> bool:
    """Whether it has any."""
    return _WILD.search(pattern) is not None


def plain(pattern: str) -> str:
    """What stands before the first wildcard; all of it where there is none."""
    return _WILD.split(pattern, maxsplit=1)[0]


def folder(pattern: str) -> str:
    """The folder in which the first wildcard is looked up, or a plain path lies; `.` of a bare name."""
    return os.path.dirname(plain(pattern)) or "."
