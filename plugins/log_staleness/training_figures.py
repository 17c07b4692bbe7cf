"""Numbers that a training reports, one by one: progress, loss, pace, skipped iterations, ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from watchdogd.parsers.logs import measures
from watchdogd.plugins.log_staleness.loss_level import Level
from watchdogd.plugins.log_staleness.run_log import Curves, LastStep, Lengths, Loss, Pace, Rank, RunLog, Skips

if TYPE_CHECKING:
    from watchdogd.parsers.logs.measures import Skipped, Spots
    from watchdogd.parsers.logs.progress import ProgressReport

SKIPS = 20
"""For so many progress reports it is remembered whether iterations were skipped."""
RANKS = 512
SLOW = 0.5
"""An iteration that takes this many times the best time is reported."""
_CURVE = 64


def note_progress(
    report: ProgressReport, log: RunLog, at: float, text: str = "", spots: Spots = measures.NOWHERE
) -> None:
    """Note that the number grew, in the line `text`."""
    log.told.phase = log.told.cause = log.job.ended = None
    log.known = True
    _note_resume(report, log.curves)
    last = log.told.step
    if last and last.series == report.series and report.number < last.number:
        _rewind(log.curves, report.number, anew=report.number < last.number / 2)
    taken = measures.seconds(text, spots)
    _note_pace(report.series, measures.cost(text, spots, taken), log.curves)
    if spots.skipped:
        _note_skips(measures.skipped(text, spots), log)
    log.told.step = LastStep(
        report.series, report.number, report.total, at, report.coarse, report.seldom, taken
    )


def _note_resume(report: ProgressReport, curves: Curves) -> None:
    """Note whether the job restarts behind where the one before it was, by the same counter."""
    if curves.before and curves.before[0] == report.series:
        number, curves.before = curves.before[1], None
        if report.number < number:
            _rewind(curves, report.number, anew=report.number < number / 2)


def _rewind(curves: Curves, number: float, *, anew: bool) -> None:
    """Compare the loss after a resume from an earlier number with the level reached there."""
    curves.lowest = [point for point in curves.lowest if point[0] <= number]
    if curves.lowest and curves.level:
        curves.level.best = curves.lowest[-1][1]
    else:
        curves.level = None
    if anew:
        curves.pace = None


def _note_pace(series: str, found: tuple[str, float] | None, curves: Curves) -> None:
    """Note the seconds for a token, sample or iteration; a growing batch does not count as slowness."""
    if found is None or (found[0] == "iteration" and curves.lengths and curves.lengths.vary):
        return
    unit, seconds = found
    if curves.pace is None:
        curves.pace = Pace(series, unit, Level(SLOW))
    if curves.pace.unit == unit and curves.pace.series == series:
        curves.pace.level.take(seconds)


def note_length(value: float | None, curves: Curves) -> None:
    """Note the length of answers, sequences or episodes.

    If it varies by more than a tenth, iterations cannot measure the pace.
    """
    if value is None:
        return
    before = curves.lengths or Lengths(value, value)
    least, most = min(before.least, value), max(before.most, value)
    curves.lengths = Lengths(least, most, most > 1.1 * least)
    if curves.lengths.vary and curves.pace and curves.pace.unit == "iteration":
        curves.pace = None


def _note_skips(skipped: Skipped | None, log: RunLog) -> None:
    """Note whether this report's iterations were skipped because their gradients overflowed."""
    if skipped is None:
        return
    known = log.told.skips or Skips()
    new = skipped.count if not skipped.running else max(skipped.count - (known.total or 0), 0)
    first = skipped.running and known.total is None
    log.told.skips = Skips(
        (*known.last, int(new > 0 and not first))[-SKIPS:],
        known.seen + 1,
        skipped.count if skipped.running else None,
    )


def note_loss_of(text: str, spots: Spots, log: RunLog, at: float) -> None:
    """Note the loss in a line; exactly 0 is a placeholder of runs on synthetic data."""
    if value := measures.loss(text, spots):
        usual = math.isfinite(value) and not (log.told.loss and log.told.loss.bad)
        note_loss(value, log, at, "" if usual else measures.loss_name(text, spots), falls=spots.falls)


def note_loss(value: float, log: RunLog, at: float, name: str = "", *, falls: bool = True) -> None:
    """Note a loss; a number moves the level, anything else is counted.

    `name`: the text before it; another loss that is a number does not clear one that is none. `falls`:
    training is meant to make it fall.
    """
    told, before = log.told, log.told.loss
    if not math.isfinite(value):
        before = before or Loss()
        since = before.since if before.bad else at
        told.loss = Loss(before.good, before.bad + 1, since, str(value), name)
        return
    if before and before.bad and before.name != name:
        return
    told.losses += 1
    told.loss = Loss(value, 0, at)
    if falls:
        if log.curves.level is None:
            log.curves.level = Level()
        log.curves.level.take(value)
        _note_lowest(log)


def _note_lowest(log: RunLog) -> None:
    """Note the lowest level so far by the training's number, thinned to some dozens of points."""
    curves, step = log.curves, log.told.step
    if not curves.level or curves.level.age or curves.level.best is None or not step:
        return
    if len(curves.lowest) >= _CURVE:
        curves.lowest = curves.lowest[::2]
    curves.lowest.append((step.number, round(curves.level.best, 5)))


def note_rank(rank: str, number: float | None, log: RunLog, at: float) -> None:
    """Note a line of a rank."""
    told = log.told
    before = told.ranks.get(rank)
    if before is None and len(told.ranks) >= RANKS:
        return
    told.lines += 1
    known = before or Rank(None, 0, 0, 0.0)
    told.ranks[rank] = Rank(known.number if number is None else number, told.lines, known.line, at)
