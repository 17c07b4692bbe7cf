"""Slurm's node lists: `node[1-4,7],login1`, as names."""

from __future__ import annotations

import itertools
import re

LIMIT = 20_000
"""Names that are told of one list; no cluster has jobs of more nodes."""
_PART = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
_PIECE = re.compile(r"\[([^\]]*)\]|([^\[\]]+)")


def expand(text: str) -> tuple[str, ...]:
    """The names, in their order, each once. Padding is kept (`nid[098-100]`), several brackets multiply."""
    names = itertools.chain.from_iterable(_names(part.strip()) for part in _PART.findall(text))
    return tuple(itertools.islice(dict.fromkeys(name for name in names if name), LIMIT))


def _names(part: str) -> itertools.chain[str]:
    pieces = [_numbers(inside) if inside else [word] for inside, word in _PIECE.findall(part)]
    return itertools.chain("".join(combination) for combination in itertools.product(*pieces))


def _numbers(inside: str) -> list[str]:
    """`1-3,07` as 1, 2, 3, 07."""
    found: list[str] = []
    for span in inside.split(","):
        first, dash, last = span.strip().partition("-")
        if dash and first.isdigit() and last.isdigit():
            numbers = range(int(first), min(int(last), int(first) + LIMIT) + 1)
            found += [str(number).zfill(len(first)) for number in numbers]
        else:
            found.append(span.strip())
    return found
