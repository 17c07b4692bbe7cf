"""Whose files lie on a disk: the runs that an incident about it concerns. Pure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from watchdogd.system import pathname

if TYPE_CHECKING:
    from collections.abc import Iterable


def uses(disk: str, places: Iterable[str]) -> bool:
    """Return whether one of a run's files (wildcards allowed) lies under a disk's path.

    By the paths as they are written: links are not followed, since the file system may hang.
    """
    top = os.path.normpath(disk).rstrip("/") + "/"
    return any(_plain(place).startswith(top) for place in places if place)


def _plain(place: str) -> str:
    """Return the part of a path before its first wildcard."""
    plain = pathname.before_wildcard(place)
    return os.path.normpath(plain) + "/" if plain == place else plain
