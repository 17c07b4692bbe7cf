"""Earlier content of a file that is rewritten each time, so that only what is new in it counts.

Such a file (a table saved as a whole, the last lines of a log, a document) repeats most of its lines in each
version: read again, its numbers would seem to rise although nothing happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.parsers.logs.log_lines import LogLine

KEPT = 100
"""Last lines of a version that are remembered."""


@dataclass(frozen=True, slots=True)
class Version:
    """Content of a file: checksums of its last lines; number and checksum of the lines before."""

    last: tuple[int, ...]
    before: int = 0
    checksum: int = 0


def of(lines: Sequence[LogLine]) -> Version:
    sums = _sums(lines)
    first = max(len(sums) - KEPT, 0)
    return Version(tuple(sums[first:]), first, _together(sums[:first]))


def unsaid(lines: Sequence[LogLine], before: Version | None) -> list[LogLine]:
    """Return the lines that the earlier version did not have."""
    if before is None:
        return list(lines)
    sums = _sums(lines)
    begins = before.before if _together(sums[: before.before]) == before.checksum else 0
    said = set(before.last)
    new = zip(lines[begins:], sums[begins:], strict=True)
    return [line for line, checksum in new if checksum not in said]


def _sums(lines: Sequence[LogLine]) -> list[int]:
    return [crc32(f"{line.rank} {line.text}".encode("utf-8", "surrogatepass")) for line in lines]


def _together(sums: Sequence[int]) -> int:
    return crc32(repr(sums).encode()) if sums else 0
