"""Heartbeats of the Guard, processed together with the log (see `new_lines`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.parsers.logs.progress import ProgressReport
from watchdogd.plugins.log_staleness import training_figures
from watchdogd.plugins.log_staleness.counter import grows
from watchdogd.plugins.log_staleness.learned_rhythm import BEAT
from watchdogd.plugins.log_staleness.new_lines import rested
from watchdogd.plugins.log_staleness.run_log import Asked, BeatSeen

if TYPE_CHECKING:
    from watchdogd.parsers.guard_heartbeat import GuardHeartbeat
    from watchdogd.plugins.log_staleness.run_log import RunLog

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
