"""New lines of a log: progress, losses, phases, causes, lines that must or must not come."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from watchdogd.parsers.logs import failures, log_lines, measures, progress_forms
from watchdogd.parsers.logs import progress as trainlog
from watchdogd.parsers.logs.line_shapes import Shape, shape_of
from watchdogd.parsers.logs.log_lines import SHOWN_AT_MOST, LogLine, read_lines
from watchdogd.parsers.logs.progress import compiled
from watchdogd.plugins.log_staleness import training_figures
from watchdogd.plugins.log_staleness.counter import begin_epoch, grows
from watchdogd.plugins.log_staleness.learned_rhythm import OWN
from watchdogd.plugins.log_staleness.run_log import CauseSeen, Forbidden, Labels, QuietPhase
from watchdogd.system.number import digits
from watchdogd.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.parsers.logs.progress import ProgressReport
    from watchdogd.plugins.log_staleness.run_log import JobTold, RunLog


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


SHOWN = 10
"""Last log lines that a message shows."""
SETTLING = 120.0
"""Seconds after a crash for its last lines; a program that writes for longer goes on."""
SURE = 3
"""A number before lines that rose so many times without ever recurring is a step, not a rank."""
_RESTART = re.compile(r"restart(?:ing)? worker group", re.IGNORECASE)
"""Words of torch's elastic agent when it starts all ranks again within a job."""


def take_lines(lines: Sequence[LogLine], wishes: Wanted, log: RunLog, at: float) -> None:
    """Process the lines of one file in their order; the last of them was written at `at`."""
    told, pattern = log.told, wishes.progress
    lines = _unmask(lines, log)
    heeding, last, failing = heeds(wishes), 0, -1
    said = []
    for index, line in enumerate(lines):
        text = trainlog.latest(line, pattern)
        shape = shape_of(text)
        if shape.fails or (text is not line.text and failures.possible(line.text)):
            failing = index
        if "worker group" in text and _RESTART.search(text):  # what broke its ranks is in the past
            last, told.cause = index, None
            log.clocks.renew(at)
        if heeding:
            note(text, wishes, told, at)
        if shape.epoch:
            begin_epoch(told.counter, float(digits(text[shape.epoch[0] : shape.epoch[1]])))
        if shape.measures.length:
            training_figures.note_length(measures.length(text, shape.measures), log.curves)
        if _take_numbers(text, line.rank, pattern, shape, log, at):
            last = index
        if line.text:
            said.append((text, line.open))
    _note_clocks(said, log, at, counts=not pattern)
    if told.cause or failing >= last:
        _note_cause(lines[last:], log, at)
    log_lines.learn(lines, log.files.addresses)
    shown = [line.text[:SHOWN_AT_MOST] for line in lines[-20 * SHOWN :] if line.final and line.text]
    log.files.tail = [*log.files.tail, *shown][-SHOWN:]


def _unmask(lines: Sequence[LogLine], log: RunLog) -> list[LogLine]:
    """Return the lines, with the number before a line restored if such numbers are steps.

    A number before a line usually names the rank that wrote it (`srun --label`). But ranks recur, and steps
    do not.
    """
    labels = log.files.labels
    last, rose, again = labels.last, labels.rose, labels.again
    found = []
    for line in lines:
        if not line.rank.isdecimal():
            found.append(line)
            continue
        number = int(line.rank)
        rose, again, last = rose + (number > last), again + (number <= last), number
        step = rose > SURE and again * 10 < rose
        found.append(line._replace(text=f"{line.rank}: {line.text}", rank="") if step else line)
    log.files.labels = Labels(last, rose, again)
    return found


def _take_numbers(text: str, rank: str, pattern: str | None, shape: Shape, log: RunLog, at: float) -> bool:
    """Process the number and the loss in a line; return True if the number is progress."""
    report = trainlog.progress_by(pattern, text) if pattern else shape.report(text)
    report = report and _of_training(report, log, at)
    if rank:
        training_figures.note_rank(rank, report.number if report else None, log, at)
    if report and pattern:
        log.clocks.count(OWN, report.number, at, rested(log))
    progress = report is not None and grows(log.told.counter, report)
    if report and progress:
        training_figures.note_progress(report, log, at, text, shape.measures)
    if shape.measures.loss or shape.measures.doubted:
        training_figures.note_loss_of(text, shape.measures, log, at)
    return progress


def _of_training(report: ProgressReport, log: RunLog, at: float) -> ProgressReport | None:
    """Return the report if it is about the training's number.

    Other work, and a coarse number beside a finer one, only show that the run does something (`grew`).
    """
    other, step = report.series == progress_forms.WORK, log.told.step
    if not other and not (report.coarse and step and not step.coarse):
        return report
    own = report._replace(series=f"{report.series} of {report.total}", coarse=False) if other else report
    if grows(log.told.counter, own, strict=other):
        log.told.grew = at
    return None


def _note_clocks(said: list[tuple[str, bool]], log: RunLog, at: float, *, counts: bool) -> None:
    """Note the clocks in the lines, whatever their format; work after a reported death refutes it."""
    worked = log.clocks.worked
    log.clocks.advance(said, at, rested(log), counts=counts)
    if log.clocks.worked > worked:
        log.told.cause = log.job.ended = None


def rested(log: RunLog) -> float | None:
    """Return until when the run could not work, or None if its pause means nothing.

    It means nothing if there was no look for a while, or if it contains a quiet phase or a save that the
    Guard asked for.
    """
    usual = log.told.phase is None and log.told.asked is None and not log.looks.gap
    return log.job.work.excused if usual else None


def _note_cause(lines: Sequence[LogLine], log: RunLog, at: float) -> None:
    """Keep the cause nearest to the root since the last progress."""
    before = log.told.cause
    known = [before.cause] if before else []
    found = failures.find(lines, known)
    cause = failures.root(found)
    if cause is None:
        log.told.cause = None
        return
    lasts = before is not None and found[:1] == known
    seen = CauseSeen(cause, before.at, before.survived) if before and lasts else CauseSeen(cause, at)
    if at > seen.at + SETTLING and any(line.rank == cause.rank for line in lines):
        seen = replace(seen, survived=True)
    log.told.cause = seen


def goes_on(fresh: bytes, log: RunLog, key: str) -> bool:
    """Return True if an unfinished line without a number grew (per cent, a bar).

    It must grow by more than dots or a spinner.
    """
    lines = read_lines(fresh)[0] if fresh and b"\n" not in fresh else []
    told = (trainlog.progress(each.text) for each in lines)
    if any(found and found.series != "epoch" for found in told):  # an epoch's line may go on with its work
        return False
    drawn = log.files.drawn
    said = [text[:SHOWN_AT_MOST] for each in lines if (text := log_lines.without(each.text))]
    before = drawn.get(key, "") if log_lines.redraws(fresh) else ""
    if said:
        drawn[key] = said[-1]
    return any(text != before for text in said)
