"""What lies beneath a directory, counted by du(1) in the background: slow, and only when asked for.

The counting outlives a round: a thread of this process waits for du, later rounds take its answer from here.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from watchdogd.command import ask
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.units import format_duration

DEADLINE = 6 * 3600.0
"""Seconds after which a count is given up."""
AGAIN = 3600.0
"""Seconds between two counts."""


@dataclass(slots=True)
class _Count:
    """One count that runs; `found` and `trouble` are there when `done` is set."""

    done: threading.Event = field(default_factory=threading.Event)
    found: dict[str, int] = field(default_factory=dict)
    trouble: str = ""


_counts: dict[str, _Count] = {}


def usage(path: str, memory: dict[str, Any], now: float) -> tuple[tuple[Limit, ...], str]:
    """What the last finished count found (no limits: du knows none), and what went wrong with the newest.

    Starts the next one where it is time.
    """
    count = _counts.get(path)
    trouble = ""
    if count and count.done.is_set():
        del _counts[path]
        trouble = count.trouble
        memory["du"] = {"at": now, "found": count.found or memory.get("du", {}).get("found", {})}
    elif not count and now - memory.get("du", {}).get("at", 0.0) >= AGAIN:
        _counts[path] = _started(path)
    known = memory.get("du", {})
    age = format_duration(now - known.get("at", now))
    limits = tuple(
        Limit(kind, f"counted by du {age} ago", float(number), path=path)
        for kind, number in known.get("found", {}).items()
    )
    return limits, trouble


def _started(path: str) -> _Count:
    count = _Count()
    threading.Thread(target=_count, args=(path, count), daemon=True, name=f"du {path}").start()
    return count


def _count(path: str, count: _Count) -> None:
    """Bytes, then inodes, at the lowest priority and within one file system."""
    for kind, unit in ((BYTES, "--block-size=1"), (INODES, "--inodes")):
        answer = ask(["nice", "-n", "19", "du", "-s", "-x", unit, "--", path], deadline=DEADLINE)
        number = answer.output.split("\t")[0]
        if number.isdigit():
            count.found[kind] = int(number)
        if not answer.ok:
            count.trouble = answer.complaint()
    count.done.set()
