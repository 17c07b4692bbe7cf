"""When ticks began: between two of them nothing runs, and only this says whether they still come."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from watchdogd.system.document import document
from watchdogd.system.number import needed, real
from watchdogd.system.plainfile import read_plain

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.home.layout import Home

UNKNOWN = 900.0
"""Seconds from one tick to the next where only one was seen."""
_KEPT = 7
_SIZE = 256
_LATE = 60.0
AHEAD = 3600.0
"""Seconds by which another node's clock may be ahead of ours: no tick began later than that."""
_YEAR_5000 = 1e11


def every(begins: tuple[float, ...]) -> float:
    """Seconds from one tick to the next, from when the last ones began (seconds since the epoch).

    The median: one that is run by hand in between, or a night without any, changes nothing.
    """
    steps = [later - earlier for earlier, later in pairwise(begins) if later > earlier]
    return median(steps) if steps else UNKNOWN


def overdue_at(begins: tuple[float, ...]) -> float:
    """When the next tick is overdue: half a step, and a minute for its round, after it should have begun."""
    return begins[-1] + 1.5 * every(begins) + _LATE if begins else 0.0


def put(home: Home, now: float) -> None:
    """A tick began. OSError, but for a full home: there the last mark is written over."""
    begins = [*(each for each in read(home) if each < now), round(now, 1)]
    text = (json.dumps(begins[-_KEPT:]) + "\n").ljust(_SIZE)
    try:
        home.write(_path(home), text)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            home.overwrite(_path(home), text)


def read(home: Home) -> tuple[float, ...]:
    """When the last ticks began, oldest first; nothing where there were none, or a daemon came since."""
    try:
        told = [needed(real(each)) for each in document(read_plain(_path(home)))]
    except (OSError, ValueError, TypeError):
        return ()
    return tuple(each for each in told if 0 < each < _YEAR_5000)


def remove(home: Home) -> None:
    """A daemon watches, or it was stopped: nobody waits for a tick. OSError."""
    with contextlib.suppress(FileNotFoundError):
        _path(home).unlink()


def _path(home: Home) -> Path:
    return home.path / ".ticks"
