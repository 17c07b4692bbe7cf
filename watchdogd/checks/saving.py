"""How a run saves: the size of one checkpoint, its rhythm, and what both mean for a disk. Pure."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Saving:
    """`size`: bytes of a usual checkpoint; `every`: seconds between two, None while that is not known."""

    size: float
    every: float | None = None

    def room(self, free: float) -> int:
        """For how many more of them `free` bytes are enough."""
        return int(max(free, 0.0) / self.size)

    def lasts(self, free: float) -> float | None:
        """Seconds from a checkpoint until the first that does not fit any more, were none cleaned up."""
        return (self.room(free) + 1) * self.every if self.every else None


def saving(written: Iterable[tuple[float, float]], every: float | None = None) -> Saving | None:
    """How a run saves, by its last whole checkpoints as (time, bytes); None where there are none.

    `every` is the configured rhythm in seconds; left out: the median distance of two, which a pause between
    two jobs does not move. The usual size is a median too: one that was cut short does not count.
    """
    known = sorted((at, size) for at, size in written if size > 0)
    if not known:
        return None
    gaps = [after - before for (before, _), (after, _) in itertools.pairwise(known) if after > before]
    return Saving(
        statistics.median(size for _, size in known), every or (statistics.median(gaps) if gaps else None)
    )
