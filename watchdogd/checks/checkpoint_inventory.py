"""Newest checkpoints of a run across rounds: sizes, cadence, which are complete, and how they grow.

Growth is a sign that the run works even if its log stands still: a first save of terabytes can take an hour
without a log line. Counted are bytes added since the last look, in checkpoints, in unfinished ones beside
them, and in files rewritten in place; not the growth of logs in the same folder.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from watchdogd.checks import checkpoint_shards
from watchdogd.checks.checkpoint_files import (
    FILES,
    LARGE,
    CheckpointPath,
    Content,
    Saved,
    content,
    find_checkpoints,
    unfinished_beside,
)
from watchdogd.checks.checkpoint_shards import Shards
from watchdogd.plugin import Sign
from watchdogd.system.smallfile import check_answers
from watchdogd.units import format_duration, format_size, local_time


@dataclass(frozen=True, slots=True)
class Cadence:
    """Interval and size of a run's saves.

    `size`: bytes of a usual checkpoint. `every`: seconds between two, None if not known yet.
    """

    size: float
    every: float | None = None

    def room(self, free: float) -> int:
        """Return how many more checkpoints fit into `free` bytes."""
        return int(max(free, 0.0) / self.size)

    def lasts(self, free: float) -> float | None:
        """Return the seconds from one checkpoint until the first that does not fit, if none is removed."""
        return (self.room(free) + 1) * self.every if self.every else None


def cadence(written: Iterable[tuple[float, float]], every: float | None = None) -> Cadence | None:
    """Return how a run saves, from its last complete checkpoints as (time, bytes); None if there is none.

    `every` is the configured interval in seconds; by default it is the median interval, which a pause between
    two jobs does not shift. The usual size is a median too, so that a checkpoint cut short does not count.
    """
    known = sorted((at, size) for at, size in written if size > 0)
    if not known:
        return None
    gaps = [after - before for (before, _), (after, _) in itertools.pairwise(known) if after > before]
    return Cadence(
        statistics.median(size for _, size in known), every or (statistics.median(gaps) if gaps else None)
    )


SETTLED = 120.0
"""Seconds without a change, after which a checkpoint counts as written."""
KEPT = 5
WRITTEN_KEPT = 12


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint as last seen: its content (see Content) and its own mtime.

    `changed`: when it was last written to, by our clock if we saw it happen.
    `settled`: it counts as completely written.
    `began`: when its first file was finished, or when it was first seen.
    `flaw`: what it lacks compared with the complete one before it, in words.
    """

    size: int
    files: int
    mtime: float
    mark: str
    saved: Saved
    own_mtime: float
    changed: float
    settled: bool
    began: float = 0.0
    shards: dict[str, Shards] = field(default_factory=dict)
    flaw: str = ""

    @property
    def whole(self) -> bool:
        """True if it is written and its content was counted completely."""
        return self.settled and self.files < FILES

    @property
    def sound(self) -> bool:
        """True if it is written and has no known flaw."""
        return self.settled and self.size > 0 and not self.flaw


@dataclass(slots=True)
class CheckpointInventory:
    """Newest checkpoints of a run by path (`known`), newest first, and when they were `looked` at.

    `written`: time and bytes of the last complete ones, including removed ones. `took`: seconds for which
    each of them was written, if known.
    """

    known: dict[str, Checkpoint] = field(default_factory=dict)
    looked: float | None = None
    written: dict[str, tuple[float, int]] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)

    @property
    def save_time(self) -> float | None:
        """Median number of seconds that recent saves took; None if not known."""
        return statistics.median(self.took.values()) if self.took else None


def update_inventory(pattern: str, inventory: CheckpointInventory, now: float) -> bool:
    """Examine the newest checkpoint if it changes; return True if there is any. May raise OSError."""
    entries = find_checkpoints(pattern)
    if not entries:
        check_answers(pattern)
    before = {  # the clock may have been set back: an age would be wrong for hours
        path: replace(one, changed=min(one.changed, now)) for path, one in inventory.known.items()
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
        kept[entry.path] = _seen(entry, found, known, inventory.looked, now)
    written = inventory.written | {path: (one.changed, one.size) for path, one in kept.items() if one.whole}
    inventory.written = dict(sorted(written.items(), key=lambda item: item[1][0])[-WRITTEN_KEPT:])
    took = inventory.took | {
        path: one.changed - one.began for path, one in kept.items() if one.whole and one.changed > one.began
    }
    inventory.took = {path: seconds for path, seconds in took.items() if path in inventory.written}
    inventory.known, inventory.looked = _with_flaws(kept), now
    return bool(entries)


def _with_flaws(kept: dict[str, Checkpoint]) -> dict[str, Checkpoint]:
    """Compare each checkpoint that was just completed with the last sound one before it; newest first."""
    sound: Checkpoint | None = None
    for path, one in reversed(list(kept.items())):
        if one.whole and one.shards and sound is not None and not one.flaw:
            kept[path] = replace(one, flaw=checkpoint_shards.flaw(one.shards, sound.shards))
        if kept[path].sound and one.shards:
            sound = kept[path]
    return kept


def _seen(
    entry: CheckpointPath, found: Content, before: Checkpoint | None, looked: float | None, now: float
) -> Checkpoint:
    if before and (before.size, before.mtime) == (found.size, found.mtime):
        changed = before.changed
    else:  # the file server's time counts if it lies between our last two looks
        unlikely = looked is not None and not looked <= found.mtime <= now
        changed = now if unlikely else min(found.mtime, now)
    settled = now - changed >= SETTLED and not found.mark
    began = min(found.began, before.began) if before else min(found.began, now)
    return Checkpoint(
        found.size,
        found.files,
        found.mtime,
        found.mark,
        found.saved,
        entry.mtime,
        changed,
        settled,
        began,
        dict(found.shards),
    )


def usual_cadence(
    inventory: CheckpointInventory, *, without: str = "", every: float | None = None
) -> Cadence | None:
    """Return how the run saves, by its complete checkpoints except `without`.

    `every` is the configured interval in seconds.
    """
    return cadence(((at, size) for path, (at, size) in inventory.written.items() if path != without), every)


GROWTH_KIND = "checkpoints"
ON = 600.0
"""Growth at two times less than this many seconds apart counts as continuous."""
TOLD_FOR = 3600.0
"""Seconds for which growth is remembered."""
_SLACK = 300.0
"""Seconds by which the file server's clock may be behind ours."""


@dataclass(slots=True)
class Growth:
    """Content of each checkpoint at the last look, the time of that look, and the last growth."""

    seen: dict[str, Saved] = field(default_factory=dict)
    at: float | None = None
    sign: Sign | None = None


def growth_signs(
    pattern: str, inventory: CheckpointInventory, growth: Growth, now: float, *, stands: bool
) -> tuple[Sign, ...]:
    """Return the last growth of checkpoints, if recent, as signs of work.

    `stands`: the run's log reports no progress, so unfinished checkpoints beside these, and the newest one
    even if it counts as written, are examined too. Raise OSError if the file system does not answer.
    """
    seen = {path: one.saved for path, one in inventory.known.items()}
    if stands:
        newest, known = find_checkpoints(pattern)[:1], inventory.known
        again = [each for each in newest if each.path in known and known[each.path].settled]
        files = 0
        for entry in (*unfinished_beside(pattern, list(inventory.known)), *again):
            if files >= FILES:
                break  # too slow to repeat each minute on a large file system
            with contextlib.suppress(FileNotFoundError):
                found = content(entry)
                seen[entry.path], files = found.saved, files + found.files
    last, since = growth.sign, growth.at
    if since is not None and since < now and (what := _grown(growth.seen, seen, since, now)):
        began = last.since if last and 0 <= now - last.at < ON else since
        last = Sign(GROWTH_KIND, what, now, began)
    if since is None and (lately := _lately(seen, now)):
        last = Sign(GROWTH_KIND, f"its checkpoints were written to at {local_time(lately)}", lately, lately)
    growth.seen, growth.at, growth.sign = seen, now, last
    return (last,) if last and 0 <= now - last.at < TOLD_FOR else ()


def _lately(seen: Mapping[str, Saved], now: float) -> float:
    """Return when a part of a checkpoint was written, if just before the first look; else 0."""
    newest = max((one.large for one in seen.values()), default=0.0)
    return newest if now - SETTLED <= newest <= now else 0.0


def _grown(before: Mapping[str, Saved], seen: Mapping[str, Saved], since: float, now: float) -> str:
    """Return in words what was added since then; empty if too little.

    A checkpoint that comes to light only because a newer one was removed or renamed is not new.
    """
    newest = max([since - _SLACK, *(each.mtime for each in before.values())])
    new = [one for path, one in seen.items() if path not in before and one.mtime > newest]
    pairs = [(before[path], one) for path, one in seen.items() if path in before and one.files < FILES]
    came = sum(one.size for one in new) + sum(max(one.size - old.size, 0) for old, one in pairs)
    within = f"within {format_duration(now - since)}"
    if came >= LARGE:
        return f"its checkpoints grew by {format_size(came)} {within}"
    anew = any(one[:2] == old[:2] and one.large > old.large for old, one in pairs)
    return f"its checkpoints were written to {within}" if anew else ""
