"""Lines that the user wants to see, or not to see, and phases that may be silent for longer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watchdogd.logs.state import UNKNOWN
from watchdogd.plugin import Result, critical, ok
from watchdogd.readers.lines import SHOWN_AT_MOST
from watchdogd.readers.trainlog import compiled
from watchdogd.units import format_duration, iso, parse_duration

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

    progress: str | None
    quiet: tuple[tuple[str, float], ...]
    must_see: tuple[tuple[str, float], ...]
    must_not_see: tuple[str, ...]
    usual_phases: bool


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


def note(text: str, wanted: Wanted, memory: dict[str, Any], at: float) -> None:
    """Take one line in: `phase`, `seen` and `forbidden` in the memory."""
    for pattern, allowed in wanted.quiet:
        if compiled(pattern).search(text):
            memory["phase"] = [pattern, allowed, at]
    if wanted.usual_phases and "phase" not in memory and _usual_phase(text):
        memory["phase"] = [text.strip()[:60], UNKNOWN, at]
    for pattern, _ in wanted.must_see:
        if pattern not in memory.setdefault("seen", []) and compiled(pattern).search(text):
            memory["seen"].append(pattern)
    for pattern in wanted.must_not_see:
        if "forbidden" not in memory and compiled(pattern).search(text):
            memory["forbidden"] = [pattern, text[:SHOWN_AT_MOST], at]


def _usual_phase(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _PHASE_WORDS) and _USUAL_PHASES.search(low) is not None


def judge(wanted: Wanted, memory: Mapping[str, Any], evidence: str, now: float) -> Iterator[Result]:
    """A result for each of the two, where it is configured."""
    if wanted.must_not_see:
        bad = memory.get("forbidden")
        if bad:
            text = f"the log says what it must not ('{bad[0]}') since {iso(bad[2])}: {bad[1]}"
            yield critical(text, subject="must_not_see")
        else:
            yield ok("nothing that must not be seen", subject="must_not_see")
    if wanted.must_see:
        yield _missing(wanted, memory, evidence, now)


def _missing(wanted: Wanted, memory: Mapping[str, Any], evidence: str, now: float) -> Result:
    """Judged only where the job's log was read from its start on."""
    age = now - memory["job_since"] if memory.get("whole") else 0.0
    seen = memory.get("seen", ())
    missing = [pattern for pattern, within in wanted.must_see if pattern not in seen and age > within]
    if not missing:
        return ok("all that must be seen was seen, or has time yet", subject="must_see")
    return critical(
        f"the log does not say '{missing[0]}', {format_duration(age)} after the job's start"
        + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
        subject="must_see",
        details=evidence,
    )
