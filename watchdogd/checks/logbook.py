"""What a training's log has said so far: kept as plain values between rounds, line by line.

`memory` is the check's own. In it: `files` (how far each was read), `tail` (the last lines), `counter` and
`report` (progress), `rhythm` and `limit` (the usual silence), `phase`, `loss`, `level`, `pace`, `skips`,
`cause`, `seen` and `forbidden` lines, and whose job it all speaks of.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watchdogd.checks import level
from watchdogd.checks.counter import advance
from watchdogd.checks.rhythm import UNKNOWN, learn
from watchdogd.checks.rhythm import limit as learned_limit
from watchdogd.readers import causes, logtail, trainlog
from watchdogd.readers.lines import SHOWN_AT_MOST, Line, read_lines

if TYPE_CHECKING:
    from watchdogd.jobs import Job

SHOWN = 10
"""Last log lines that a message shows."""
SKIPS = 20
"""Last progress reports of which it is known whether iterations were skipped."""
_PHASE_WORDS = ("checkpoint", "evaluat", "validat", "running eval")
_USUAL_PHASES = re.compile(
    r"(?:saving|loading) (?:\w+ ){0,3}checkpoint|running (?:evaluation|validation|eval\b)"
    r"|(?:evaluat|validat)(?:ing|ion)\b.{0,40}(?:\.\.\.|start|begin|on\b)"
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


def follow_job(job: Job, memory: dict[str, Any], now: float) -> None:
    """Forget what was another job's: numbers, losses, phases and lines that were seen."""
    name = f"{job.raw_id}@{job.started_at or 0:.0f}"
    if memory.get("job") == name:
        return
    if "report" in memory:
        memory["before"] = memory["report"]["number"]
    for key in ("level", "pace"):
        if key in memory:
            memory[key] = level.renew(memory[key])
    for key in ("skips", "losses", "counter", "report", "phase", "loss", "seen", "forbidden", "cause"):
        memory.pop(key, None)
    memory["job"] = name
    memory["job_since"] = job.started_at if job.started_at is not None else now
    memory["whole"] = bool(memory.get("files")) or now - memory["job_since"] < 60.0


def take_in(files: list[logtail.Found], wanted: Wanted, memory: dict[str, Any], now: float) -> None:
    """Read what is new in all files; note when bytes came, what they said, and how far each was read."""
    places = {key: logtail.Place(*place) for key, place in memory.get("files", {}).items()}
    looked = memory.get("looked")
    first = looked is None
    skew = logtail.clock_skew(files, places, looked, now)
    if skew is not None:
        memory["skew"] = skew
    kept = {}
    for index, file in enumerate(files):
        place = places.get(file.key)
        if place and (file.size, file.mtime, file.path) == (place.size, place.mtime, place.path):
            kept[file.key] = memory["files"][file.key]
            continue
        grown = logtail.grown_at(file, place, looked, now, memory.get("skew", 0.0))
        begin, end = logtail.unread(file, place, first=first)
        if first and index:
            begin = end  # of many files only the newest one's past is of interest
        offset = begin
        if end > begin:
            try:
                lines, done = read_lines(logtail.read(file.path, begin, end))
            except FileNotFoundError:
                continue  # gone since it was found: a rotation
            offset = begin + done if done or end - begin < logtail.AT_MOST else end
            _take_lines(lines, wanted, memory, grown)
        kept[file.key] = [file.path, offset, file.size, file.mtime, grown]
    memory["files"] = kept


def _take_lines(lines: list[Line], wanted: Wanted, memory: dict[str, Any], at: float) -> None:
    """What the lines say, in their order: phases, progress, losses, causes, wanted and unwanted lines."""
    counter = memory.setdefault("counter", {})
    steps = last = 0
    for index, line in enumerate(lines):
        text = line.text
        _note_patterns(text, wanted, memory, at)
        report = trainlog.progress_by(wanted.progress, text) if wanted.progress else trainlog.progress(text)
        if report and advance(counter, report):
            steps, last = steps + 1, index
            _note_progress(report, text, memory, at, steps)
        value = trainlog.loss(text)
        if value:  # exactly 0 is a placeholder of runs on synthetic data
            _note_loss(value, memory, at)
    _note_cause(lines[last:], memory)
    shown = [line.text[:SHOWN_AT_MOST] for line in lines[-20 * SHOWN :] if line.final and line.text]
    memory["tail"] = [*memory.get("tail", ()), *shown][-SHOWN:]


def _note_patterns(text: str, wanted: Wanted, memory: dict[str, Any], at: float) -> None:
    for pattern, allowed in wanted.quiet:
        if trainlog.compiled(pattern).search(text):
            memory["phase"] = [pattern, allowed, at]
    if wanted.usual_phases and "phase" not in memory and _usual_phase(text):
        memory["phase"] = [text.strip()[:60], UNKNOWN, at]
    for pattern, _ in wanted.must_see:
        if pattern not in memory.setdefault("seen", []) and trainlog.compiled(pattern).search(text):
            memory["seen"].append(pattern)
    for pattern in wanted.must_not_see:
        if "forbidden" not in memory and trainlog.compiled(pattern).search(text):
            memory["forbidden"] = [pattern, text[:SHOWN_AT_MOST], at]


def _usual_phase(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _PHASE_WORDS) and _USUAL_PHASES.search(low) is not None


def _note_cause(lines: list[Line], memory: dict[str, Any]) -> None:
    """Keep the cause nearest to the root that came since the last progress."""
    before = [causes.Cause(*memory["cause"])] if "cause" in memory else []
    cause = causes.root([*before, *causes.find(lines)])
    if cause:
        memory["cause"] = [cause.kind, cause.sentence]


def _note_progress(report: trainlog.Report, text: str, memory: dict[str, Any], at: float, steps: int) -> None:
    """The number grew: learn the interval since it last did, unless a quiet phase lay between."""
    before = memory.get("report")
    phase = memory.pop("phase", None)
    memory.pop("cause", None)
    if before and steps == 1 and phase is None and at > before["at"]:
        memory["rhythm"] = learn(memory.get("rhythm", {}), at - before["at"], at)
        memory["limit"] = learned_limit(memory["rhythm"], at)
    memory["known"] = True
    earlier = memory.pop("before", None)
    if earlier is not None and report.number < earlier / 2:
        memory.pop("level", None)  # no resume: this training began anew
        memory.pop("pace", None)
    _note_pace(report.series, text, memory)
    _note_skips(text, memory)
    memory["report"] = {
        "series": report.series,
        "number": report.number,
        "total": report.total,
        "at": at,
        "seconds": trainlog.seconds(text),
    }


def _note_pace(series: str, text: str, memory: dict[str, Any]) -> None:
    """Seconds of an iteration, by sample where the batch size is told: a ramp-up of it is no slowness."""
    taken = trainlog.seconds(text)
    if taken is None or memory.get("pace", {}).get("series", series) != series:
        return
    samples = trainlog.batch_size(text) or 1.0
    memory["pace"] = {**level.take(memory.get("pace", {}), taken / samples), "series": series}


def _note_skips(text: str, memory: dict[str, Any]) -> None:
    """Whether this report's iterations were skipped (their gradients overflowed)."""
    skipped = trainlog.skipped(text)
    if skipped is None:
        return
    state = memory.get("skips", {"last": [], "seen": 0, "total": None})
    new = skipped.count if not skipped.running else max(skipped.count - (state["total"] or 0), 0)
    first = skipped.running and state["total"] is None
    memory["skips"] = {
        "last": [*state["last"], int(new > 0 and not first)][-SKIPS:],
        "seen": state["seen"] + 1,
        "total": skipped.count if skipped.running else None,
    }


def _note_loss(value: float, memory: dict[str, Any], at: float) -> None:
    state = memory.get("loss") or {"bad": 0, "good": None, "since": at}
    if math.isfinite(value):
        memory["level"] = level.take(memory.get("level", {}), value)
        memory["losses"] = memory.get("losses", 0) + 1
        memory["loss"] = {"bad": 0, "good": value, "since": at}
    else:
        memory["loss"] = {
            "bad": state["bad"] + 1,
            "good": state["good"],
            "since": state["since"] if state["bad"] else at,
            "word": str(value),
        }
