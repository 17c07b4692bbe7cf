"""Room on a file system, counted in checkpoints that runs save there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from watchdogd.checks import checkpoint_inventory
from watchdogd.checks.checkpoint_inventory import Cadence, CheckpointInventory
from watchdogd.system import pathname
from watchdogd.system.times import fresh
from watchdogd.units import format_duration, format_size

AGAIN = 600.0
"""Seconds between two looks at the checkpoints."""
_LIVES_FOR = 2 * 86400.0
"""A run has stopped saving after so many seconds, or three of its own intervals, without a checkpoint."""


def largest_cadence(
    patterns: Sequence[str], device: int, inventories: dict[str, CheckpointInventory], now: float
) -> Cadence | None:
    """Return the cadence of the run with the largest checkpoints on this device, or None. Never raise.

    `inventories`: the known checkpoints by pattern, which are updated here.
    """
    found = []
    for pattern in patterns:
        kept = inventories.setdefault(pattern, CheckpointInventory())
        with contextlib.suppress(OSError):
            if os.stat(pathname.wildcard_folder(pattern)).st_dev != device:
                continue
            if not fresh(kept.looked or 0.0, now, AGAIN):
                checkpoint_inventory.update_inventory(pattern, kept, now)
            usual = checkpoint_inventory.usual_cadence(kept)
            newest = max((at for at, _ in kept.written.values()), default=0.0)
            if usual and now - newest <= max(_LIVES_FOR, 3 * (usual.every or 0.0)):
                found.append(usual)
    return max(found, key=lambda each: each.size, default=None)


def describe_room(usual: Cadence, free: float) -> str:
    """Return the room in words: `room for 4 more checkpoints of 2.3 TB (one every 3h)`."""
    rhythm = f" (one every {format_duration(usual.every)})" if usual.every else ""
    number = usual.room(free)
    more = "checkpoint" if number == 1 else "checkpoints"
    return f"room for {number:,} more {more} of {format_size(usual.size)}{rhythm}"
