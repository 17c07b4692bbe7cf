"""Lines that the user wants to see, or not to see, and phases that may be silent for longer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from watchdogd.logs.runlog import Forbidden, QuietPhase
from watchdogd.logs.state import UNKNOWN
from watchdogd.readers.lines import SHOWN_AT_MOST
from watchdogd.readers.trainlog import compiled
from watchdogd.units import parse_duration

if TYPE_CHECKING:
    from watchdogd.logs.runlog import JobTold

_PHASE_WORDS = (
    "checkpoint",
    "evaluat",
    "validat",
    "running eval",
    "start eval",
    "inference",
    "compiling",
    "autotun",
    "cuda graph",
    "worker group",
)
_USUAL_PHASES = re.compile(
    r"(?:sav|load|writ|stor|upload|consolidat)ing (?:\w+ ){0,3}checkpoint|checkpoint(?:ing| saving)\b"
    r"|(?:runn|start|beginn|perform|do)(?:ing)? (?:\w+ ){0,2}(?:evaluation|validation|inference|eval\b)"
    r"|begin (?:evaluation|validation)|compiling (?:\w+ ){0,3}(?:model|graph|step|function|kernel)"
    r"|\bautotun|captur\w{1,9} cuda graph"
    r"|(?:evaluat|validat)(?:ing|ion)\b.{0,40}(?:\.\.\.|start|begin|on\b)|restart(?:ing)? worker group"
)
"""Phases that may be silent for as long as an unknown rhythm, where no limit is configured."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is configured of the lines themselves."""

    progress: str | None = None
    quiet: tuple[tuple[str, float], ...] = ()
    must_see: tuple[tuple[str, float], ...] = ()
    must_not_see: tuple[str, ...] = ()
    usual_phases: bool = True


def pairs(key: str, tables: Sequence[Mapping[str, Any]], time: str) -> tuple[tuple[str, float], ...]:
    """Pattern and seconds of each table. ValueError where one is misspelt."""
    for table in tables:
        if table.keys() != {"match", time}:
            raise ValueError(f"{key}: write {{ match = 'pattern', {time} = '40m' }}, not {dict(table)}")
    return tuple((table["match"], parse_duration(table[time])) for table in tables)


def possible(wanted: Wanted, low: str) -> Wanted:
    """What of it can be found in a text, given in lower case."""
    usual = wanted.usual_phases and any(word in low for word in _PHASE_WORDS)
    return replace(wanted, usual_phases=usual)


def heeds(wanted: Wanted) -> bool:
    """Whether any line can matter."""
    return bool(wanted.quiet or wanted.must_see or wanted.must_not_see or wanted.usual_phases)


def note(text: str, wanted: Wanted, told: JobTold, at: float) -> None:
    """Take one line in: a quiet phase, what must be seen, and what must not."""
    for pattern, allowed in wanted.quiet:
        if compiled(pattern).search(text):
            told.phase = QuietPhase(pattern, allowed, at)
    if wanted.usual_phases and told.phase is None and _usual_phase(text):
        told.phase = QuietPhase(text.strip()[:60], UNKNOWN, at)
    for pattern, _ in wanted.must_see:
        if pattern not in told.seen and compiled(pattern).search(text):
            told.seen.append(pattern)
    for pattern in wanted.must_not_see:
        if told.forbidden is None and compiled(pattern).search(text):
            told.forbidden = Forbidden(pattern, text[:SHOWN_AT_MOST], at)


def _usual_phase(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _PHASE_WORDS) and _USUAL_PHASES.search(low) is not None
