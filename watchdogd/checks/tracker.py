"""Which checkpoint a framework's own tracker file names as the last that was finished.

DeepSpeed writes `latest`, with the tag of a folder (`global_step1000`); Megatron
`latest_checkpointed_iteration.txt`, with the iteration, or `release` for a converted model. Both lie beside
the checkpoints, and are written when all parts of one are.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat as modes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("latest", "latest_checkpointed_iteration.txt")
_LONGEST = 256
"""Bytes; what is longer is no tracker."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Tracker:
    """A tracker file: what it says, the step that this means, and when it was written."""

    path: str
    said: str
    step: int
    mtime: float


def read(path: str, text: str, mtime: float) -> Tracker | None:
    """A tracker's text as a value; None where it names no step."""
    said = text.strip()
    step = 0 if said == "release" else _step(said)
    if step is None or not said.isprintable() or len(said) >= _LONGEST:
        return None
    return Tracker(path, said, step, mtime)


def find(folder: str) -> Tracker | None:
    """The tracker in this folder, of two the one written last; None where there is none that can be read:
    a checkpoint is then judged by its content alone."""
    found = []
    for path in (os.path.join(folder, name) for name in NAMES):
        with contextlib.suppress(OSError):
            seen = os.stat(path)
            if modes.S_ISREG(seen.st_mode):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found.append(read(path, file.read(_LONGEST), seen.st_mtime))
    return max(filter(None, found), key=lambda each: each.mtime, default=None)


def unfinished(tracker: Tracker, entries: Iterable[tuple[str, float]]) -> str:
    """Of checkpoints as (path, mtime) the one that is being written, or empty.

    It was begun after the tracker was written, and is further than what the tracker names. Where there are
    several of these nobody keeps the tracker (DeepSpeed's `save_latest=False`), and it tells nothing.
    """
    newer = {}
    for path, mtime in entries:
        step = _step(os.path.basename(path))
        if mtime > tracker.mtime and step is not None and step > tracker.step:
            newer[step] = path
    return next(iter(newer.values())) if len(newer) == 1 else ""


def _step(name: str) -> int | None:
    """`global_step1000`, `iter_0001000`: the last number."""
    numbers = _NUMBER.findall(name)
    return digits(numbers[-1]) if numbers else None
