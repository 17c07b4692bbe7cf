"""Lines that must come or must not come, and phases that may be silent for longer, as configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watchdogd.parsers.logs.log_lines import SHOWN_AT_MOST
from watchdogd.parsers.logs.progress import compiled
from watchdogd.plugins.log_staleness.run_log import Forbidden, QuietPhase
from watchdogd.units import parse_duration

if TYPE_CHECKING:
    from watchdogd.plugins.log_staleness.run_log import JobTold


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user configured about lines."""

    progress: str | None = None
    quiet: tuple[tuple[str, float], ...] = ()
    must_see: tuple[tuple[str, float], ...] = ()
    must_not_see: tuple[str, ...] = ()


def pairs(key: str, tables: Sequence[Mapping[str, Any]], time: str) -> tuple[tuple[str, float], ...]:
    """Return pattern and seconds of each table. Raise ValueError if one is misspelt."""
    for table in tables:
        if table.keys() != {"match", time}:
            raise ValueError(f"{key}: write {{ match = 'pattern', {time} = '40m' }}, not {dict(table)}")
    return tuple((table["match"], parse_duration(table[time])) for table in tables)


def heeds(wanted: Wanted) -> bool:
    """Return True if any line can matter."""
    return bool(wanted.quiet or wanted.must_see or wanted.must_not_see)


def note(text: str, wanted: Wanted, told: JobTold, at: float) -> None:
    """Process one line: a quiet phase, a line that must come, one that must not."""
    for pattern, allowed in wanted.quiet:
        if compiled(pattern).search(text):
            told.phase = QuietPhase(pattern, allowed, at)
    for pattern, _ in wanted.must_see:
        if pattern not in told.seen and compiled(pattern).search(text):
            told.seen.append(pattern)
    for pattern in wanted.must_not_see:
        if told.forbidden is None and compiled(pattern).search(text):
            told.forbidden = Forbidden(pattern, text[:SHOWN_AT_MOST], at)
