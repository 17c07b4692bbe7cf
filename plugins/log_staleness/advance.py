"""State of a run's log and Guard after one more look, which is passed in. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.checks.working_job import Since
from watchdogd.parsers.logs.progress import ProgressReport
from watchdogd.plugin import Job, Status
from watchdogd.plugins.log_staleness import training_figures
from watchdogd.plugins.log_staleness.counter import grows
from watchdogd.plugins.log_staleness.learned_rhythm import BEAT, UNKNOWN
from watchdogd.plugins.log_staleness.new_lines import goes_on, rested, take_lines
from watchdogd.plugins.log_staleness.run_log import (
    Asked,
    BeatSeen,
    Blocks,
    HungJob,
    JobTold,
    RunLog,
    Unread,
    name_of,
)
from watchdogd.system.codec import codec_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.checks.working_job import Working
    from watchdogd.parsers.guard_heartbeat import GuardHeartbeat
    from watchdogd.plugins.log_staleness.new_lines import Wanted
    from watchdogd.plugins.log_staleness.sources import News, Seen

NO_BEAT = ("", 0.0)
"""Value of `stray` if an earlier job left none."""


def take_beat(beat: GuardHeartbeat, log: RunLog, now: float) -> None:
    """Process a heartbeat: progress if its step grew, and its loss if no log line has one."""
    told, last, looked = log.told, log.told.beat, log.looks.last
    if _left_behind(beat, log) or (last and last.written == beat.written):
        return
    seen = looked is None or looked <= beat.written <= now
    at = min(beat.written, now) if seen else now
    told.beat = BeatSeen(beat.written, at, beat.where, beat.losses)
    if beat.step is not None and grows(told.counter, ProgressReport("step of the heartbeat", beat.step)):
        log.clocks.count(BEAT, beat.step, at, rested(log))
        _note_step(beat.step, log, at, last.at if last else 0.0)
    if not beat.asked:
        told.asked = None
    elif told.asked is None:
        told.asked = Asked(beat.asked, at)
    again = beat.losses is not None and last and (last.where, last.losses) == (beat.where, beat.losses)
    if beat.loss is None or again:
        return
    if not told.losses or (told.loss and told.loss.beats):
        training_figures.note_loss(beat.loss, log, at)
        told.loss = told.loss and told.loss._replace(beats=True)


def _left_behind(beat: GuardHeartbeat, log: RunLog) -> bool:
    """Return True if an earlier job wrote it: a requeued job has the same id, a plain process has none.

    A heartbeat found when a job is first seen, written before the job's start or by the process that wrote
    for the job before, must change before it counts, whatever the clocks say.
    """
    told = log.told
    if told.beat:
        return False
    this = (beat.where, beat.written)
    if told.stray is None:
        early = beat.written < log.job.since
        told.stray = this if early or beat.where == log.beat_before else NO_BEAT
    return this == told.stray


def heed_guard(log: RunLog) -> None:
    """Forget a rhythm learned from heartbeats if this job only has a log to learn from."""
    if log.told.beat:
        log.beaten = True
    elif log.told.step and log.beaten:
        log.beaten = False
        log.clocks.forget_pauses()


def _note_step(step: float, log: RunLog, at: float, before: float) -> None:
    """Note that a heartbeat's step grew.

    If the log has reported a number since the beat at `before`, that remains the run's number. What the log
    reported (a phase, a cause) may be newer than this heartbeat, whichever is seen first: it ends with the
    second heartbeat from then on.
    """
    told = log.told
    step_of_log, phase, cause = told.step, told.phase, told.cause
    training_figures.note_progress(ProgressReport("step", step), log, at)
    if step_of_log and step_of_log.at > before:
        told.step = step_of_log._replace(at=max(step_of_log.at, at))
    told.phase = phase if phase and phase.at != told.outlived[0] else None
    told.cause = cause if cause and cause.at != told.outlived[1] else None
    told.outlived = (told.phase.at if told.phase else None, told.cause.at if told.cause else None)


YOUNG = 60.0
"""Seconds at the beginning of a job in which no part of its log can have been missed."""
_SLACK = 300.0
"""Seconds that a look may be late."""
_ROUNDS = 3
"""A gap between two looks of so many times the usual one counts as an interruption."""


def advance(before: RunLog, seen: Seen | None, state: Working, wishes: Wanted, now: float) -> RunLog:
    """Return the state after a look; `seen` is None if nothing could be read."""
    log = codec_of(RunLog).copy(before)
    _heed_gap(log, now)
    took_over = state.job is not None and _follow_job(state.job, log, now)
    if seen is None:
        return log
    had = bool(log.files.places)
    _take_in(seen, wishes, log, took_over=took_over)
    if seen.beat:
        log.beats = True
        take_beat(seen.beat, log, now)
    heed_guard(log)
    log.looks.last = now
    if log.files.places:
        log.files.missing, log.files.obstacle = None, ""
    else:
        log.files.obstacle = seen.obstacle
        if log.files.missing is None:
            log.files.missing = now if had or not state.job else 0.0
    _note_work(state, log, now)
    return log


def heed(log: RunLog, state: Working, status: Status) -> RunLog:
    """Remember what was reported about the working job: that it hangs, or makes progress.

    Its end is then reported as the end of a job that hung.
    """
    if state.excuse or status is Status.UNKNOWN:
        return log
    good, bad = status is Status.OK, status is Status.CRITICAL
    hung = log.job.id if bad else None if good else log.job.hung
    job = replace(log.job, hung=hung, before=log.job.before if good else None)
    return log if job == log.job else replace(log, job=job)


def _follow_job(job: Job, log: RunLog, now: float) -> bool:
    """Forget what belonged to another job: numbers, losses, phases, and lines seen.

    Return True if this job took over from one that worked at the last look: new lines may then be the last
    words of the old job.
    """
    seen, name = log.job, name_of(job)
    if seen.name == name:
        return False
    took_over = bool(seen.name) and seen.work.excused != log.looks.last
    log.beat_before = log.told.beat.where if log.told.beat else ""
    since = seen.since_of(job, now)
    seen.work = replace(seen.work, begun=None)
    if seen.hung is not None:
        seen.ended, seen.hung = seen.hung, None
    if seen.before is None or seen.before.id != seen.ended:
        step = log.told.step
        reached = (step.series, step.number) if step else ("", 0.0)
        seen.before = None if seen.ended is None else HungJob(seen.ended, *reached)
    _forget(log)
    seen.resumed = bool(seen.name)
    seen.name, seen.id, seen.since = name, job.id, since
    seen.whole = bool(log.files.places) or now - since < YOUNG
    return took_over and now - since < UNKNOWN


def _forget(log: RunLog, told: JobTold | None = None) -> None:
    """Forget what was reported as another job begins; `told` are things that count for it nevertheless."""
    curves = log.curves
    if log.told.step:
        curves.before = (log.told.step.series, log.told.step.number)
    if curves.level:
        curves.level.renew()
    if curves.pace:
        curves.pace.level.renew()
    log.told = told or JobTold()
    log.clocks.renew()


def heed_clock(before: RunLog, now: float) -> RunLog:
    """Return the state by a clock that was set back: its times go back too, and a silence stays as long.

    Otherwise a hang would be seen hours late, and one that was reported would seem to be over.
    """
    back = (before.looks.last or 0.0) - now
    if back <= 0:
        return before
    log = codec_of(RunLog).copy(before)
    log.looks.last = now
    log.clocks.set_back(back)
    told, work = log.told, log.job.work
    begun = work.begun and work.begun - back
    log.job.work = Since(begun, work.excused and work.excused - back)
    for key, place in log.files.places.items():
        log.files.places[key] = replace(place, grown_at=place.grown_at - back)
    told.step = told.step and told.step._replace(at=told.step.at - back)
    told.loss = told.loss and told.loss._replace(since=told.loss.since - back)
    told.beat = told.beat and replace(told.beat, at=told.beat.at - back)
    told.phase = told.phase and replace(told.phase, at=told.phase.at - back)
    told.cause = told.cause and replace(told.cause, at=told.cause.at - back)
    phase, cause = told.outlived
    told.outlived = (phase and phase - back, cause and cause - back)
    told.grew = told.grew and told.grew - back
    return log


def _heed_gap(log: RunLog, now: float) -> None:
    """Note if there was no look for much longer than usual."""
    looks = log.looks
    since = max(now - (now if looks.last is None else looks.last), 0.0)
    looks.gap = since > _ROUNDS * (since if looks.usual is None else looks.usual) + _SLACK
    if since and not looks.gap:
        looks.usual = since


def _take_in(seen: Seen, wishes: Wanted, log: RunLog, *, took_over: bool) -> None:
    """Process the new lines of all files, and how far each was read.

    `took_over`: in files that were known already, new lines may be the last words of the job before, so their
    numbers do not count. Other things count for the new job in case of doubt, since a lost cause is worse
    than one too many.
    """
    files = log.files
    if seen.failed:
        times = files.unread.times if files.unread else 0
        files.unread = Unread(times + seen.failed, seen.left_out, now=True)
    else:
        files.unread = files.unread and replace(files.unread, now=False)
        files.skew = files.skew if seen.skew is None else seen.skew
    if took_over and not seen.failed:
        known = [news for news in seen.files if news.key in files.places]
        _take_news(known, wishes, log)
        told = log.told
        _forget(log, JobTold(phase=told.phase, seen=told.seen, forbidden=told.forbidden))
        _take_news((news for news in seen.files if news.key not in files.places), wishes, log)
    else:
        _take_news(seen.files, wishes, log)
    files.blocks = {
        news.key: files.blocks.get(news.key, Blocks()).after(files.places.get(news.key), news.place)
        for news in seen.files
    }
    files.places = {news.key: news.place for news in seen.files}
    if files.versions or any(news.version for news in seen.files):
        _keep_versions(seen.files, log)
    if not seen.failed:
        files.drawn = {key: text for key, text in files.drawn.items() if key in files.places}


def _keep_versions(seen: Iterable[News], log: RunLog) -> None:
    """Remember the content of rewritten files; a file that is continued is a log, read on from its end."""
    kept = {}
    for news in seen:
        version = log.files.versions.get(news.place.path) if news.lines is None else news.version
        if version:
            kept[news.place.path] = version
    log.files.versions = kept


def _take_news(files: Iterable[News], wishes: Wanted, log: RunLog) -> None:
    for news in files:
        if news.lines is not None:
            take_lines(news.lines, wishes, log, news.place.grown_at)
            fresh = b"" if wishes.progress else news.fresh
            if goes_on(fresh, log, news.key):
                log.told.grew = news.place.grown_at


def _note_work(state: Working, log: RunLog, now: float) -> None:
    """Note since when progress was possible, and which subjects of a job are judged."""
    job, told = log.job, log.told
    job.work = state.since(job.work, now)
    if state.absent and job.hung is not None:
        job.ended, job.hung = job.hung, None
    if not state.excuse:
        kept = {"loss": told.loss, "pace": log.curves.pace, "skips": told.skips}
        log.judged = sorted({*log.judged, *(name for name, value in kept.items() if value)})
