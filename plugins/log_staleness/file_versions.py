"""Former content of a file that is written anew each time, so that only what is new in it counts.

Such a file (a table that is saved whole, the last lines of a log, a document) says most of its lines again
with each version: read once more, its numbers would seem to rise though nothing goes on.
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
    """Content of a file: checksums of its last lines, and how many lines came before these, with theirs."""

    last: tuple[int, ...]
    before: int = 0
    checksum: int = 0


def of(lines: Sequence[LogLine]) -> Version:
    """Return these lines as a version."""
    sums = _sums(lines)
    first = max(len(sums) - KEPT, 0)
    return Version(tuple(sums[first:]), first, _together(sums[:first]))


def unsaid(lines: Sequence[LogLine], before: Version | None) -> list[LogLine]:
    """Return the lines that the version before did not say."""
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
