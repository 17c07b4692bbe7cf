"""The newest checkpoints of a run, remembered over rounds: their sizes, when each came, and which are whole.

`memory` is a check's own, or a part of it; plain values. In it: `known` (the newest ones by path, newest
first), `looked` (when), and `written` (time and bytes of the last whole ones, those since cleaned up too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.checks.checkpoint import FILES, Content, Entry, content, find
from watchdogd.checks.saving import Saving, saving
from watchdogd.system.unanswered import must_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLED = 120.0
"""Seconds without a change, after which a checkpoint counts as written."""
KEPT = 5
WRITTEN_KEPT = 12


def look(pattern: str, memory: dict[str, Any], now: float) -> bool:
    """Look into the newest checkpoint while it changes; True where there is any. OSError where it fails."""
    entries = find(pattern)
    if not entries:
        must_answer(pattern)
    looked, before = memory.get("looked"), memory.get("known", {})
    for one in before.values():  # the clock may have been set back: an age would be wrong for hours
        one["changed"] = min(one["changed"], now)
    kept: dict[str, Any] = {}
    files = 0
    for entry in entries[:KEPT]:
        known = before.get(entry.path)
        if known and known["settled"] and known["own_mtime"] == entry.mtime:
            kept[entry.path] = known
            continue
        if files >= FILES:
            break  # the older ones have time: next round
        try:
            found = content(entry)
        except FileNotFoundError:
            continue  # cleaned up while we looked
        files += found.files
        kept[entry.path] = _noted(entry, found, known, looked, now)
    written = memory.get("written", {})
    written |= {path: [one["changed"], one["size"]] for path, one in kept.items() if _whole(one)}
    newest = sorted(written.items(), key=lambda item: float(item[1][0]))[-WRITTEN_KEPT:]
    memory["known"], memory["looked"], memory["written"] = kept, now, dict(newest)
    return bool(entries)


def _whole(one: Mapping[str, Any]) -> bool:
    return bool(one["settled"]) and one["files"] < FILES


def _noted(
    entry: Entry, found: Content, before: Mapping[str, Any] | None, looked: float | None, now: float
) -> dict[str, Any]:
    """`changed`: when it was last written to, on our clock where we saw it happen."""
    same = before is not None and (before["size"], before["mtime"]) == (found.size, found.mtime)
    if before and same:
        changed = before["changed"]
    else:  # the file server's clock is believed where it lies between two looks of ours
        seen = looked is not None and not looked <= found.mtime <= now
        changed = now if seen else min(found.mtime, now)
    return {
        "size": found.size,
        "saved": found.saved,
        "files": found.files,
        "mtime": found.mtime,
        "own_mtime": entry.mtime,
        "mark": found.mark,
        "changed": changed,
        "settled": now - changed >= SETTLED and not found.mark,
    }


def usual(memory: Mapping[str, Any], *, without: str = "", every: float | None = None) -> Saving | None:
    """How the run saves, by all whole checkpoints but one; `every` is the configured rhythm in seconds."""
    return saving(
        ((at, size) for path, (at, size) in memory.get("written", {}).items() if path != without), every
    )
