"""`lfs quota`, `lfs project` and `lfs df` as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.size import amount

_TARGET = re.compile(r"(\S+)_UUID\s+(.*?)\s+(\d+)%\s+(\S+)\[(MDT|OST):(\w+)\]")
_PROJECT = re.compile(r"^\s*(\d+)\s+[P-]?\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Target:
    """One storage target (OST or MDT): bytes, or inodes with `lfs df -i`."""

    name: str
    kind: str
    size: float
    used: float
    free: float


def read_targets(text: str) -> list[Target]:
    """The targets of `lfs df`, with or without -h and -i; the header says the unit, not the option asked for.

    Inactive targets have no figures and are left out. UnreadableError where no header stands.
    """
    if "UUID" not in text:
        raise UnreadableError(f"no answer of lfs df: '{first_line(text)}'")
    bare, base = (1.0, 1000) if re.search(r"UUID\s+Inodes", text) else (1024.0, 1024)
    if re.search(r"UUID\s+bytes", text):
        bare = 1.0
    targets = []
    for match in _TARGET.finditer(text):
        cells = match[2].split()
        if len(cells) == 3:
            size, used, free = (amount(cell, bare=bare, base=base) for cell in cells)
            targets.append(Target(match[1], match[5], size, used, free))
    return targets


def read_project(text: str) -> int | None:
    """The project id of `lfs project -d DIR` (`  12345 P /scratch/x`), or None where there is none."""
    match = _PROJECT.search(text)
    return int(match[1]) or None if match else None
