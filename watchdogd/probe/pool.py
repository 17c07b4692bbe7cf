"""Memory whose exhaustion ends processes of this machine: their own control groups, not watchdogd's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from watchdogd import training
from watchdogd.training import Pool


def tightest(pids: Iterable[int]) -> Pool | None:
    """Return the control group above one of these processes, or else the node, with the least left.

    None where all have ended.
    """
    seen: set[str] = set()
    found: set[Pool] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
            if groups not in seen:
                seen.add(groups)
                found.update(training.pools(pid=pid))
    return min(found, key=lambda pool: pool.left, default=None)
