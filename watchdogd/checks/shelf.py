"""The newest checkpoints of a run, over rounds: their sizes, when each came, and which are whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from watchdogd.checks.checkpoint import FILES, Content, Entry, Saved, content, find
from watchdogd.checks.saving import Saving, saving
from watchdogd.system.smallfile import must_answer

SETTLED = 120.0
"""Seconds without a change, after which a checkpoint counts as written."""
KEPT = 5
WRITTEN_KEPT = 12


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One as it was seen last: what it holds (see Content), its own mtime, when it was last written to, on
    our clock where we saw it happen, and whether it counts as written (`settled`)."""

    size: int
    files: int
    mtime: float
    mark: str
    saved: Saved
    own_mtime: float
    changed: float
    settled: bool

    @property
    def whole(self) -> bool:
        """Whether all of it is written and was counted."""
        return self.settled and self.files < FILES


@dataclass(slots=True)
class Shelf:
    """The newest ones by path (`known`), newest first, when they were `looked` at, and time and bytes of the
    last whole ones (`written`), those since cleaned up too."""

    known: dict[str, Checkpoint] = field(default_factory=dict)
    looked: float | None = None
    written: dict[str, tuple[float, int]] = field(default_factory=dict)


def look(pattern: str, shelf: Shelf, now: float) -> bool:
    """Look into the newest checkpoint while it changes; True where there is any. OSError where it fails."""
    entries = find(pattern)
    if not entries:
        must_answer(pattern)
    before = {  # the clock may have been set back: an age would be wrong for hours
        path: replace(one, changed=min(one.changed, now)) for path, one in shelf.known.items()
    }
    kept: dict[str, Checkpoint] = {}
    files = 0
    for entry in entries[:KEPT]:
        known = before.get(entry.path)
        if known and known.settled and known.own_mtime == entry.mtime:
            kept[entry.path] = known
            continue
        if files >= FILES:
            break  # the older ones have time: next round
        try:
            found = content(entry)
        except FileNotFoundError:
            continue  # cleaned up while we looked
        files += found.files
        kept[entry.path] = _seen(entry, found, known, shelf.looked, now)
    written = shelf.written | {path: (one.changed, one.size) for path, one in kept.items() if one.whole}
    shelf.written = dict(sorted(written.items(), key=lambda item: item[1][0])[-WRITTEN_KEPT:])
    shelf.known, shelf.looked = kept, now
    return bool(entries)


def _seen(
    entry: Entry, found: Content, before: Checkpoint | None, looked: float | None, now: float
) -> Checkpoint:
    if before and (before.size, before.mtime) == (found.size, found.mtime):
        changed = before.changed
    else:  # the file server's clock is believed where it lies between two looks of ours
        unlikely = looked is not None and not looked <= found.mtime <= now
        changed = now if unlikely else min(found.mtime, now)
    settled = now - changed >= SETTLED and not found.mark
    return Checkpoint(
        found.size, found.files, found.mtime, found.mark, found.saved, entry.mtime, changed, settled
    )


def usual(shelf: Shelf, *, without: str = "", every: float | None = None) -> Saving | None:
    """How the run saves, by all whole checkpoints but one; `every` is the configured rhythm in seconds."""
    return saving(((at, size) for path, (at, size) in shelf.written.items() if path != without), every)
