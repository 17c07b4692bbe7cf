"""Verdicts on a run from its log and its Guard. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.checks.node_checks import not_judged
from watchdogd.parsers.logs import measures
from watchdogd.plugin import DIVERGED, SLOW, Advice, Metric, Result, Status, critical, ok, unknown, warning
from watchdogd.plugins.log_staleness import log_wording, stall_verdict
from watchdogd.plugins.log_staleness.loss_level import WINDOW, rise
from watchdogd.units import age, local_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.plugins.log_staleness.new_lines import Wanted
    from watchdogd.plugins.log_staleness.run_log import RunLog
    from watchdogd.plugins.log_staleness.stall_verdict import Limits, Look

BAD_LOSSES = 3
"""After so many reports in a row with a loss that is no number, that counts as lasting."""
SKIPPED = 10
"""Reports with skipped iterations among the last 20; the first 50 reports may search for the loss scale."""
SUBJECTS = {"loss": "loss", "pace": "throughput", "skips": "skipped"}
"""Subjects of the numbers that are judged, by the state that they need."""


def judge(look: Look, limits: Limits, wishes: Wanted) -> Iterator[Result]:
    """Report the stall first, then everything else."""
    log, state = look.log, look.state
    if state.excuse:
        yield from _not_judged(look)
        return
    if not look.pattern and not log.beats:
        yield not_judged("no log is configured, and no Guard has told its step", "its log was taken out")
        return
    yield stall_verdict.judge(look, limits)
    yield from _loss(log, look.now)
    yield from _pace(log)
    yield from _skips(log)
    yield from _wanted(look, wishes)
    for name, told in _numbers(log).items():
        if name in log.judged and not told and state.job:
            line = f"not judged: job {state.job.id} has told none yet"
            other = Result(Status.OK, line, subject=SUBJECTS[name], quiet=True)
            yield other.ending("the next job began", recovered=False)
    yield from _unread(log)


def _numbers(log: RunLog) -> dict[str, bool]:
    """Return the keys of SUBJECTS for which numbers are known."""
    return {"loss": bool(log.told.loss), "pace": bool(log.curves.pace), "skips": bool(log.told.skips)}


_ENDED = {"cancel": "ended", "requeue": "requeued"}
"""What watchdogd did to a job so that it ended."""


def _not_judged(look: Look) -> Iterator[Result]:
    """Report OK for all subjects; problems of a job that is over end without a message of their own.

    The details are the last lines of the log, as evidence for job_liveness, which reports how the job ended
    and why.
    """
    log, state = look.log, look.state
    closed, by, noun = state.closed, "", "process" if look.process else "job"
    if look.deed:
        by = " by watchdogd"
        closed = f"its {noun} was {_ENDED[look.deed.action]}{by}"
    line = f"not judged: {state.excuse}"
    said = ok(line, details=log_wording.evidence(log))
    said = replace(said, progress=log_wording.how_far(log))
    if state.waits and state.waits == log.job.ended:
        requeued = f"job {state.waits} was requeued{by}"
        yield said.ending(requeued, "waits to start", timed=False, recovered=False)
    else:
        yield said.ending(closed, recovered=False)
    spoken = [SUBJECTS[name] for name, told in _numbers(log).items() if told]
    for subject in [*spoken, *(["must_not_see"] if log.told.forbidden else [])]:
        other = Result(Status.OK, line, subject=subject, quiet=True)
        yield other.ending(closed, recovered=False)


def _unread(log: RunLog) -> Iterator[Result]:
    """Report which part of the log was not read because looks did not end; it is over after one that does."""
    left = log.files.unread
    if left and left.now:
        line = f"part of the log was not read, tried {left.times} time{'s' * (left.times != 1)}"
        yield unknown(line, subject="unread").saying(f"not read: {left.what}")
    elif left:
        yield ok("what is new was read", subject="unread").ending("the log is read again")


def _loss(log: RunLog, now: float) -> Iterator[Result]:
    """Report the loss, and any other measure that is no longer a number."""
    loss, evidence = log.told.loss, log_wording.evidence(log)
    if found := _lost(log, evidence, now) or _risen(log, evidence):
        yield found.triggers("on_spike")
    elif loss:
        told = f"loss {loss.good:g}" if loss.good is not None else "no loss yet"
        yield ok(told, subject="loss").ending("loss is fine again", told.replace("loss ", "now ", 1))


def _lost(log: RunLog, evidence: str, now: float) -> Result | None:
    """Report what stays NaN or infinite.

    That is the loss, without which nothing is trained any more; or a nameless number, which may be another
    measure.
    """
    loss, lost = log.told.loss, log.clocks.lost
    if loss and loss.bad >= BAD_LOSSES:
        before = f", last good {loss.good:g}" if loss.good is not None else ""
        where = f", at {log_wording.number(log.told.step)}" if log.told.step else ""
        word = "NaN" if loss.word == "nan" else "infinite"
        said = f"loss has been {word} for {age(now - loss.since)}, {loss.bad} times in a row{where}{before}"
        lost_loss = critical(said, subject="loss", details=evidence).of_kind(DIVERGED)
        return lost_loss.dated(loss.since)
    if lost and not (loss and measures.find_loss(lost.text)):  # a loss by its name is judged above
        said = f"a number in its log is NaN or infinite, {lost.lost} times in a row"
        return warning(said, subject="loss", details=evidence).saying(
            f"its line: '{lost.text}'", advice=[_IF_LOSS]
        )
    return None


_IF_LOSS = Advice("If it is the loss, restart from a checkpoint saved before; other measures may be NaN.")


def _risen(log: RunLog, evidence: str) -> Result | None:
    """Report a loss that rose out of its range and stays there, or crept up."""
    level = log.curves.level
    found = rise(level) if level else None
    if not level or not found:
        return None
    resumed = " since this job resumed" if log.told.losses < 2 * WINDOW and log.job.resumed else ""
    return warning(
        f"loss rose from {found.best:.4g} to {found.level:.4g}{resumed}",
        subject="loss",
        details=evidence,
        loss=Metric(found.level),
    ).saying(
        f"{found.level:.4g} in the last {len(level.window)} reports",
        advice=[
            Advice("See whether the data or the learning rate changed; an older checkpoint is the way back.")
        ],
    )


def _pace(log: RunLog) -> Iterator[Result]:
    """Compare the throughput with the run's own best."""
    pace = log.curves.pace
    if pace is None:
        return
    if found := rise(pace.level):
        slower = f"{100 * (found.level / found.best - 1):.0f} % longer"
        short = f"slow: {found.level:.3g} s per iteration, at best {found.best:.3g} s"
        if pace.unit == "token":
            short = f"slow: a token takes {slower} than at best"
        longer = f"{slower} for the same work"
        said = warning(short, subject="throughput").saying(longer)
        yield replace(said, kind=SLOW, short="slow")
    else:
        usual = "iterations take as long as they did"
        yield ok(usual, subject="throughput").ending("as fast as before again")


def _skips(log: RunLog) -> Iterator[Result]:
    """Report iterations that were skipped."""
    skips = log.told.skips
    if skips is None:
        return
    storm = sum(skips.last)
    if skips.seen >= 50 and storm >= SKIPPED:
        text = f"gradients overflow, {storm} of the last {len(skips.last)} iterations skipped"
        yield warning(text, subject="skipped")
    else:
        few = "few iterations are skipped"
        yield ok(few, subject="skipped").ending("gradients are fine again")


def _wanted(look: Look, wanted: Wanted) -> Iterator[Result]:
    """Report lines that must not come, and lines that must, if configured."""
    bad = look.log.told.forbidden
    if wanted.must_not_see and bad:
        came = f"it matches '{bad.pattern}' of must_not_see in config.toml, and came at {local_time(bad.at)}"
        text = f"forbidden line in the log {age(look.now - bad.at)} ago: {bad.line}"
        yield critical(text, subject="must_not_see").saying(_log(look), came).dated(bad.at)
    elif wanted.must_not_see:
        none = "nothing that must not be seen"
        yield ok(none, subject="must_not_see").ending("the new job's log has no forbidden line", timed=False)
    if wanted.must_see:
        yield _missing(look, wanted)


def _log(look: Look) -> str:
    """Return the file to which was written last."""
    places = max(look.log.files.places.values(), key=lambda place: place.grown_at, default=None)
    return f"log: {places.path}" if places else ""


def _missing(look: Look, wanted: Wanted) -> Result:
    """Judge lines that must come, if the job's log was read from its beginning."""
    log = look.log
    ran = look.now - log.job.since if log.job.whole else 0.0
    late = [
        (pattern, within)
        for pattern, within in wanted.must_see
        if pattern not in log.told.seen and ran > within
    ]
    missing = [pattern for pattern, _ in late]
    if not missing:
        fine = ok("all that must be seen was seen, or has time yet", subject="must_see")
        return fine.ending("the expected line came")
    more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
    limit = min(within for _, within in late)
    noun = "process" if look.process else "job"
    said = critical(
        f"expected line missing {age(ran)} after the {noun}'s start: '{missing[0]}'{more}",
        subject="must_see",
        details=log_wording.evidence(log),
    ).saying(_log(look), f"expected within {age(limit)}: must_see in config.toml")
    return said.dated(log.job.since + limit)
