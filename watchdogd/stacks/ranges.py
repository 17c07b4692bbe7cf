"""Many numbers and names in few letters: `0-3,7`, `node[1-4,7]`."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def numbers(values: Iterable[int], width: int = 0) -> str:
    """`0-3,7,8`: three in a row become a range; `width` fills up with zeros."""
    return ",".join(_span(first, last, width) for first, last in _spans(sorted(set(values))))


def names(values: Iterable[str]) -> str:
    """Host names as Slurm writes a list of them: `login1,node[01-16]`; short of their domains."""
    numbered: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    plain = []
    for name in dict.fromkeys(values):
        match = re.fullmatch(r"(.*?)(\d+)(\D*)", name)
        if match:
            padded = len(match[2]) if match[2].startswith("0") else 0
            numbered[match[1], padded, match[3]].append(digits(match[2]))
        else:
            plain.append(name)
    return ",".join(sorted([*plain, *_joined(numbered)]))


def _joined(numbered: dict[tuple[str, int, str], list[int]]) -> Iterator[str]:
    """Names that differ in one number; `09` and `10` go together."""
    for (prefix, width, suffix), found in list(numbered.items()):
        if width == 0:
            for other in [key for key in numbered if key[0] == prefix and key[2] == suffix and key[1]]:
                fitting = [number for number in found if len(str(number)) == other[1]]
                numbered[other] += fitting
                found[:] = [number for number in found if number not in fitting]
    for (prefix, width, suffix), found in numbered.items():
        if len(found) == 1:
            yield f"{prefix}{found[0]:0{width}d}{suffix}"
        elif found:
            yield f"{prefix}[{numbers(found, width)}]{suffix}"


def _spans(values: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for value in values:
        if spans and value == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], value)
        else:
            spans.append((value, value))
    return spans


def _span(first: int, last: int, width: int) -> str:
    if first == last:
        return f"{first:0{width}d}"
    return f"{first:0{width}d}{'-' if last > first + 1 else ','}{last:0{width}d}"
