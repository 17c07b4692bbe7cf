"""`lfs quota`, `lfs project` and `lfs df` as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.limit import BYTES, INODES
from watchdogd.readers.quota.size import amount
from watchdogd.system.number import whole

_TARGET = re.compile(r"(?<!\S)(\S+)_UUID\s(.{0,200})(?<=\s)(\d++)%\s++(\S+)\[(MDT|OST):(\w+)\]")
_INACTIVE = re.compile(r"(\S*(MDT|OST)[0-9a-fA-F]{4}(?:_UUID)?)\s+:\s")
_PROJECT = re.compile(r"^[ \t]*+(\d++)\s+[P-]?\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Target:
    """One storage target (OST or MDT): `of` says what is counted, BYTES, or INODES with `lfs df -i`.

    Without figures (`size` is 0) it is not active, or they could not be read.
    """

    name: str
    kind: str
    size: float
    used: float
    free: float
    of: str = BYTES


def read_targets(text: str) -> list[Target]:
    """The targets of `lfs df`, with or without -h and -i; the header says the unit, not the option asked for.

    UnreadableError where no header stands.
    """
    if "UUID" not in text:
        raise UnreadableError(f"no answer of lfs df: '{first_line(text)}'")
    of = INODES if re.search(r"UUID\s+Inodes", text) else BYTES
    bare = 1.0 if of == INODES or re.search(r"UUID\s+bytes", text) else 1024.0
    targets = []
    for line in text.splitlines():
        if match := _TARGET.match(line.strip()):
            targets.append(_target(match, of, bare))
        elif match := _INACTIVE.match(line.strip()):
            targets.append(Target(match[1].removesuffix("_UUID"), match[2], 0.0, 0.0, 0.0, of))
    return targets


def _target(match: re.Match[str], of: str, bare: float) -> Target:
    cells = match[2].split()
    base = 1024 if of == BYTES else 1000
    try:
        size, used, free = (amount(cell, bare=bare, base=base) for cell in cells)
    except (UnreadableError, ValueError):
        size = used = free = 0.0
    return Target(match[1], match[5], size, used, free, of)


def read_project(text: str) -> int | None:
    """The project id of `lfs project -d DIR` (`  12345 P /scratch/x`), or None where there is none."""
    match = _PROJECT.search(text)
    return whole(match[1]) or None if match else None
