"""Whether what a run saves grows: a sign that it works, though its log may be silent meanwhile.

A first save of terabytes takes an hour in which no line is written. Counted are bytes that came since the
last look, in checkpoints and in what is marked as an unfinished one beside them, and files written anew in
place; not what logs in the same folder grew by.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdogd.checks.checkpoint import FILES, LARGE, Entry, Saved, content, drafts
from watchdogd.checks.shelf import SETTLED
from watchdogd.plugin import Sign
from watchdogd.units import format_duration, format_size, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.checks.shelf import Shelf

KIND = "checkpoints"
ON = 600.0
"""Seconds between two times of growth that are one and the same."""
TOLD_FOR = 3600.0
"""Seconds for which a growth is remembered."""
_SLACK = 300.0
"""Seconds by which the file server's clock may be behind."""


@dataclass(slots=True)
class Growth:
    """What each checkpoint held when they were looked at, at that time, and the last growth."""

    seen: dict[str, Saved] = field(default_factory=dict)
    at: float | None = None
    sign: Sign | None = None


def look(pattern: str, shelf: Shelf, growth: Growth, now: float, *, stands: bool) -> tuple[Sign, ...]:
    """The last growth, if it is not long ago, by what the shelf shows just now.

    `stands`: the run's log tells no progress now: what is unfinished beside them, and the newest one though
    it counts as written, are looked into as well. OSError where the file system does not answer.
    """
    seen = {path: one.saved for path, one in shelf.known.items()}
    if stands:
        again = [Entry(path, one.own_mtime) for path, one in list(shelf.known.items())[:1] if one.settled]
        files = 0
        for entry in (*drafts(pattern, list(shelf.known)), *again):
            if files >= FILES:
                break  # nobody walks through all of a large file system each minute
            with contextlib.suppress(FileNotFoundError):
                found = content(entry)
                seen[entry.path], files = found.saved, files + found.files
    last, since = growth.sign, growth.at
    if since is not None and since < now and (what := _grown(growth.seen, seen, since, now)):
        began = last.since if last and 0 <= now - last.at < ON else since
        last = Sign(KIND, what, now, began)
    if since is None and (lately := _lately(seen, now)):
        last = Sign(KIND, f"its checkpoints were written to at {iso(lately)}", lately, lately)
    growth.seen, growth.at, growth.sign = seen, now, last
    return (last,) if last and 0 <= now - last.at < TOLD_FOR else ()


def _lately(seen: Mapping[str, Saved], now: float) -> float:
    """When a part of a checkpoint was written to, by the file server's clock, if that was just before a first
    look; 0: it was not."""
    newest = max((one.large for one in seen.values()), default=0.0)
    return newest if now - SETTLED <= newest <= now else 0.0


def _grown(before: Mapping[str, Saved], seen: Mapping[str, Saved], since: float, now: float) -> str:
    """What came since then, in words; empty: too little. What came to light only because a newer one was
    removed, or renamed, is not new."""
    newest = max([since - _SLACK, *(each.mtime for each in before.values())])
    new = [one for path, one in seen.items() if path not in before and one.mtime > newest]
    pairs = [(before[path], one) for path, one in seen.items() if path in before and one.files < FILES]
    came = sum(one.size for one in new) + sum(max(one.size - old.size, 0) for old, one in pairs)
    within = f"within {format_duration(now - since)}"
    if came >= LARGE:
        return f"its checkpoints grew by {format_size(came)} {within}"
    anew = any(one[:2] == old[:2] and one.large > old.large for old, one in pairs)
    return f"its checkpoints were written to {within}" if anew else ""
