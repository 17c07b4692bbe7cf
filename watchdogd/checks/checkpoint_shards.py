"""Shards of a checkpoint, and what it lacks compared with the complete one before it. Pure.

Files whose names differ only in their numbers are shards of one kind: `mp_rank_03.pt`, `__3_0.distcp`. The
numbers within a kind show which one is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from watchdogd.system.number import digits
from watchdogd.units import format_size

KINDS = 64
"""How many kinds of shards are distinguished; nothing is known about a checkpoint with more."""
_SHORT = 0.5
_TELLING = 1024
"""The size of a smaller shard (bytes) says nothing."""
_NUMBERS = re.compile(r"\d+")
_DECIMALS = re.compile(r"\d+(?:\.\d+)*")


class Shards(NamedTuple):
    """Shards of one kind: their `number`, the smallest with its bytes, and the highest number in their names.

    `total` is the sum of the last numbers of all names.
    """

    number: int = 0
    least: int = 0
    smallest: str = ""
    top: int = -1
    total: int = 0

    def and_one(self, name: str, size: int) -> Shards:
        """Add a shard."""
        numbers = _NUMBERS.findall(name)
        last = digits(numbers[-1]) if numbers else 0
        small = not self.number or size < self.least
        least, smallest = (size, name) if small else (self.least, self.smallest)
        return Shards(self.number + 1, least, smallest, max(self.top, last), self.total + last)


def steps(names: Sequence[str]) -> dict[str, int]:
    """Return the step in each of these names, which are sorted by time of writing.

    The step is the only number that differs between names of the same form, or else the one that grows most
    from one to the next. Names without it are left out.
    """
    shapes: dict[str, list[str]] = {}
    for name in names:
        shapes.setdefault(_DECIMALS.sub("#", name), []).append(name)
    found: dict[str, int] = {}
    for alike in shapes.values():
        texts = zip(*map(_DECIMALS.findall, alike), strict=True)
        columns = [[digits(each) for each in column] for column in texts if "." not in "".join(column)]
        varying = [column for column in columns if len({*column}) > 1]
        if len(varying) > 1:
            varying = [column for column in varying if column == sorted(column)]
        if varying:
            found |= zip(alike, max(varying, key=lambda column: len({*column})), strict=True)
    return found


def add(kinds: dict[str, Shards], name: str, size: int, *, alone: bool = False) -> None:
    """Add a file, by its path inside the checkpoint, to its kind; a file that is `alone` joins any kind."""
    kind = "" if alone else _NUMBERS.sub("#", name)
    if kind in kinds or len(kinds) < KINDS:
        kinds[kind] = kinds.get(kind, Shards()).and_one(name, size)


def flaw(kinds: Mapping[str, Shards], before: Mapping[str, Shards]) -> str:
    """Return in words what a checkpoint lacks compared with the complete one before it, or empty."""
    if len(kinds) >= KINDS or len(before) >= KINDS or "" in before.keys() - kinds.keys():
        return ""
    if "" in kinds and len(before) > 1:  # the rest of several
        kinds = {_NUMBERS.sub("#", kinds[""].smallest): kinds[""]}
    return next(filter(None, (_lacks(kind, kinds.get(kind), had) for kind, had in before.items())), "")


def _lacks(kind: str, has: Shards | None, had: Shards) -> str:
    if has is None:
        said = f"it has no {_shown(kind, had)}, the one before it has {had.number}"
        return said if had.least >= _TELLING else ""
    if has.number < had.number and not _fewer_ranks(has, had):
        return f"{has.number} of {had.number} {_shown(kind, had)} are there{_missing(kind, has, had)}"
    if not has.least < had.least:
        return ""
    if not has.least:
        return f"{has.smallest} is empty"
    if had.least >= _TELLING and has.least < _SHORT * had.least:
        return f"{has.smallest} has {format_size(has.least)}, before it was {format_size(had.least)} at least"
    return ""


def _fewer_ranks(has: Shards, had: Shards) -> bool:
    """Return True if the run continues with a fraction of its ranks and this is all that they save."""
    return has.number > 1 and had.number % has.number == 0 and has.top < had.top


def _missing(kind: str, has: Shards, had: Shards) -> str:
    """Name the missing shard, if the numbers show which it is."""
    if has.number + 1 != had.number or kind.count("#") != 1:
        return ""
    (digits_before,) = _NUMBERS.findall(had.smallest)
    return f" ({kind.replace('#', str(had.total - has.total).zfill(len(digits_before)))} is missing)"


def _shown(kind: str, shards: Shards) -> str:
    return kind.replace("#", "*") if shards.number > 1 else shards.smallest
