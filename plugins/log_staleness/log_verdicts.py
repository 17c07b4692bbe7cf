"""Verdicts on a run, by what its log and its Guard have told. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.plugin import SLOW, Metric, Result, Status, critical, ok, unknown, warning
from watchdogd.plugins.log_staleness import stall, wording
from watchdogd.plugins.log_staleness.loss_level import WINDOW, rise
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.plugins.log_staleness.run_log import RunLog
    from watchdogd.plugins.log_staleness.stall import Limits, Look
    from watchdogd.plugins.log_staleness.wanted_lines import Wanted

BAD_LOSSES = 3
"""Reports in a row with a loss that is no number, before it counts as staying so."""
SKIPPED = 10
"""Reports with skipped iterations, of the last 20 on progress; the first 50 look for the loss scale."""
SUBJECTS = {"loss": "loss", "pace": "throughput", "skips": "skipped"}
"""Subjects that are judged of the numbers, by what is remembered of them."""


def judge(look: Look, limits: Limits, wishes: Wanted) -> Iterator[Result]:
    """Report the stall, which comes first, and what else is to be said."""
    log, state = look.log, look.state
    if state.excuse:
        yield from _not_judged(log, state.excuse)
        return
    if not look.pattern and not log.beats:
        yield ok("not judged: no log is configured, and no Guard has told its step")
        return
    yield stall.judge(look, limits)
    yield from _loss(log)
    yield from _pace(log)
    yield from _skips(log)
    yield from _wanted(log, wishes, look.now)
    for name, told in _numbers(log).items():
        if name in log.judged and not told and state.job:
            line = f"not judged: job {state.job.id} has told none yet"
            yield Result(Status.OK, line, subject=SUBJECTS[name], quiet=True)
    yield from _unread(log)


def _numbers(log: RunLog) -> dict[str, bool]:
    """Return of which numbers something is known, by the keys of SUBJECTS."""
    return {"loss": bool(log.told.loss), "pace": bool(log.curves.pace), "skips": bool(log.told.skips)}


def _not_judged(log: RunLog, excuse: str) -> Iterator[Result]:
    """Report OK for all; what was wrong with a job that is over ends without a word of its own.

    The details are what the log said last: evidence for job_liveness, which tells how the job ended, and why.
    """
    said = ok(f"{wording.before(log)}not judged: {excuse}", details=wording.evidence(log))
    yield replace(said, progress=wording.how_far(log))
    spoken = [SUBJECTS[name] for name, told in _numbers(log).items() if told]
    for subject in [*spoken, *(["must_not_see"] if log.told.forbidden else [])]:
        yield Result(Status.OK, f"not judged: {excuse}", subject=subject, quiet=True)


def _unread(log: RunLog) -> Iterator[Result]:
    """Report what was not read of the log, since looks at it did not end; over with the next that does."""
    left = log.files.unread
    if left and left.now:
        line = f"not read, since {left.times} looks did not get through it: {left.what}"
        yield unknown(line, subject="unread")
    elif left:
        yield ok("what is new was read", subject="unread")


def _loss(log: RunLog) -> Iterator[Result]:
    """Report the loss, and any other measure that is no number any more."""
    loss, evidence = log.told.loss, wording.evidence(log)
    if found := _lost(log, evidence) or _risen(log, evidence):
        yield found.triggers("on_spike")
    elif loss:
        yield ok(f"loss {loss.good:g}" if loss.good is not None else "no loss yet", subject="loss")


def _lost(log: RunLog, evidence: str) -> Result | None:
    """Report what stays NaN or infinite.

    That is the loss, with which nothing is trained any more, or what has no name and may be another measure.
    """
    loss, lost = log.told.loss, log.clocks.lost
    if loss and loss.bad >= BAD_LOSSES:
        before = f", it was {loss.good:g} before" if loss.good is not None else ""
        where = f" at {wording.number(log.told.step)}" if log.told.step else ""
        said = f"loss is {loss.word} since {iso(loss.since)}, {loss.bad} times in a row{where}{before}"
        return critical(said, subject="loss", details=evidence)
    if lost:
        said = f"what was a number is NaN or infinite, {lost.lost} times in a row: '{lost.text}'"
        return warning(said, subject="loss", details=evidence)
    return None


def _risen(log: RunLog, evidence: str) -> Result | None:
    """Report a loss that left its band upwards and stays out, or has crept up."""
    level = log.curves.level
    found = rise(level) if level else None
    if not level or not found:
        return None
    resumed = " since this job resumed" if log.told.losses < 2 * WINDOW and log.job.resumed else ""
    last = f"{found.level:.4g} in the last {len(level.window)} reports"
    return warning(
        f"loss has risen and stays up{resumed}: {last}, it was down at {found.best:.4g}",
        subject="loss",
        details=evidence,
        loss=Metric(found.level),
    )


def _pace(log: RunLog) -> Iterator[Result]:
    """Hold the throughput against the run's own best."""
    pace = log.curves.pace
    if pace is None:
        return
    if found := rise(pace.level):
        slower = f"{100 * (found.level / found.best - 1):.0f} % longer than at best"
        what = "an iteration" if pace.unit != "token" else "a token"
        short = f"slow: {what} takes {slower}"
        said = warning(f"{short} for the same work", subject="throughput")
        yield replace(said, kind=SLOW, short=short)
    else:
        yield ok("iterations take as long as they did", subject="throughput")


def _skips(log: RunLog) -> Iterator[Result]:
    """Report iterations that count for nothing."""
    skips = log.told.skips
    if skips is None:
        return
    storm = sum(skips.last)
    if skips.seen >= 50 and storm >= SKIPPED:
        text = f"{storm} of the last {len(skips.last)} reports skipped iterations: gradients overflow"
        yield warning(text, subject="skipped")
    else:
        yield ok("few iterations are skipped", subject="skipped")


def _wanted(log: RunLog, wanted: Wanted, now: float) -> Iterator[Result]:
    """Report what must not be seen, and what must, where it is configured."""
    bad = log.told.forbidden
    if wanted.must_not_see and bad:
        text = f"the log says what it must not ('{bad.pattern}') since {iso(bad.at)}: {bad.line}"
        yield critical(text, subject="must_not_see")
    elif wanted.must_not_see:
        yield ok("nothing that must not be seen", subject="must_not_see")
    if wanted.must_see:
        yield _missing(log, wanted, now)


def _missing(log: RunLog, wanted: Wanted, now: float) -> Result:
    """Judge what must be seen, only where the job's log was read from its start on."""
    age = now - log.job.since if log.job.whole else 0.0
    missing = [
        pattern for pattern, within in wanted.must_see if pattern not in log.told.seen and age > within
    ]
    if not missing:
        return ok("all that must be seen was seen, or has time yet", subject="must_see")
    return critical(
        f"the log does not say '{missing[0]}', {format_duration(age)} after the job's start"
        + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
        subject="must_see",
        details=wording.evidence(log),
    )
