"""Slurm's node lists: `node[1-4,7],login1`, as names."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from watchdogd.system.number import count

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 20_000
"""Names that are told of one list; no cluster has jobs of more nodes."""
_LONGEST = 4 * 1024 * 1024
"""Letters of a list that are read; of 20,000 names none is longer than 200."""
_TOKEN = re.compile(r"\[([^\[\]]*+)\]|([^,\[\]]++)|(,)")
_BRACKETS = 8
"""Brackets in one name that are read; Slurm itself knows two dimensions."""
_NAME = 1024
"""Letters of a name of which there are many; none that a machine has is longer than 255."""


def expand(text: str) -> tuple[str, ...]:
    """The names, in their order, each once. Padding is kept (`nid[098-100]`), several brackets multiply.

    LIMIT at most: what stands for more is expanded no further than that.
    """
    found: dict[str, None] = {}
    for pieces in _parts(text[:_LONGEST]):
        found.update(dict.fromkeys(_names(pieces, LIMIT - len(found))))
        if len(found) >= LIMIT:
            break
    return tuple(found)


Piece = tuple[str, str]
"""What stands between brackets, or a word."""


def _parts(text: str) -> Iterator[list[Piece]]:
    """The pieces of each name between commas."""
    pieces: list[Piece] = []
    for inside, word, comma in _TOKEN.findall(text):
        if comma:
            yield pieces
            pieces = []
        else:
            pieces.append((inside, word.strip()))
    yield pieces


def _names(pieces: list[Piece], most: int) -> Iterator[str]:
    """Up to `most` of the names that one part stands for, without building more of them than that."""
    if sum(bool(inside) for inside, _ in pieces) > _BRACKETS:
        return iter(())
    choices = [
        list(itertools.islice(_numbers(inside), most)) if inside else [word] for inside, word in pieces
    ]
    many = any(len(choice) > 1 for choice in choices)
    if many and sum(max(map(len, choice), default=0) for choice in choices) > _NAME:
        return iter(())
    names = ("".join(combination) for combination in itertools.product(*choices))
    return itertools.islice(filter(None, names), most)


def _numbers(inside: str) -> Iterator[str]:
    """`1-3,07` as 1, 2, 3, 07."""
    for span in inside.split(","):
        first, dash, last = (each.strip() for each in span.partition("-"))
        begin, end = count(first), count(last)
        if dash and begin is not None and end is not None:
            yield from (str(number).zfill(len(first)) for number in range(begin, end + 1))
        else:
            yield span.strip()
