"""Jobs of a run that ended while it goes on: restarts, requeues, crash loops. Pure.

A job that comes again by plan (scrontab, or one that requeues itself for later) is none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.plugin import Result, Status, critical, notice, ok
from watchdogd.plugins.job_liveness.model import describe_end, jobs_are, on_nodes
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from watchdogd.batch.models import Ending, Job
    from watchdogd.plugins.job_liveness.job_history import JobHistory, ObservedJob
    from watchdogd.plugins.job_liveness.model import RunSituation

CRASHES = "crashes"
"""Subject of a crash loop: what becomes of the run after it is told beside it."""
LATER = 600.0
"""Seconds to the start of a job from which on it was put off by its user, not by Slurm after a failure."""
_CLOCKS = 5.0
"""Seconds by which controller and accounting may differ about when an attempt started."""
_NO_CRASH = frozenset({"COMPLETED", "CANCELLED", "PREEMPTED", "NODE_FAIL", "TIMEOUT", "DEADLINE", "REVOKED"})


def crash_loop(scene: RunSituation, past: JobHistory) -> list[Result]:
    """Report that the last jobs all failed within minutes of their start, and none has outlived that."""
    crashed = _loop(scene, past)
    if not crashed:
        return [ok("no crash loop", subject=CRASHES)] if past.crashes_said else []
    what = "jobs" if len({end.id for end in crashed}) > 1 else f"attempts of job {crashed[0].id}"
    line = f"crash loop: the last {len(crashed)} {what} failed within minutes; {describe_end(crashed[0])}"
    holds = [scene.order("hold", job) for job in scene.waiting]
    more = [describe_end(end) for end in crashed[1:]]
    details = "\n".join([*(past.remains_of(end) for end in crashed[:1]), *more, *holds]).strip()
    return [critical(f"{line}; {jobs_are(scene.queued)} waiting", subject=CRASHES, details=details)]


def no_crash_loop(past: JobHistory) -> list[Result]:
    """End what was reported of a crash loop, without a message: the result about the run takes over."""
    return [Result(Status.OK, "nothing runs", subject=CRASHES, quiet=True)] if past.crashes_said else []


def _loop(scene: RunSituation, past: JobHistory) -> list[Ending]:
    """Return the crashes of a crash loop, newest first; none where it is none."""
    crashed = _crashed(scene, past)
    oldest = min((job.started_at or scene.now for job in scene.running), default=scene.now)
    outlived = scene.now - oldest > scene.limits.crash_within
    return crashed if len(crashed) >= scene.limits.crashes and not outlived else []


def _crashed(scene: RunSituation, past: JobHistory) -> list[Ending]:
    """Return the last ends as far as they are crashes, newest first."""
    crashed: list[Ending] = []
    after = {job.raw_id: job.start_estimate if job.waiting else job.started_at for job in scene.jobs}
    for end in reversed(past.trials):
        if end.state in _NO_CRASH or end.lasted is None or end.lasted > scene.limits.crash_within:
            break
        if end.state == "REQUEUED" and not end.exit_code and _put_off(end, after.get(end.raw_id)):
            break
        crashed.append(end)
        after[end.raw_id] = end.started_at
    return crashed


def _put_off(end: Ending, again: float | None) -> bool:
    """Return True if it begins `again` so late that its user wanted it: Slurm delays by two minutes."""
    return again is not None and again - (end.ended_at or 0.0) > LATER


def restarts(scene: RunSituation, past: JobHistory) -> Iterator[Result]:
    """Report once what ended badly while the run goes on.

    Not after an incident, whose RESOLVED tells it, nor what a crash loop tells all together.
    """
    loop = _loop(scene, past)
    for job in scene.jobs:
        if job.raw_id in past.requeued and not loop and not _planned(scene, past, job):
            yield _requeue(scene, past, job, past.requeued[job.raw_id])
    if past.gone >= 2:
        return
    successor = f"{scene.newest.id} took over" if scene.running else f"{scene.jobs[0].id} is next"
    rest = f"{scene.noun} {successor}; {jobs_are(scene.queued)} waiting"
    for end in past.news:
        if not end.well and end.state != "REVOKED" and end.started_at is not None and end not in loop:
            yield _restart(describe_end(end), past.remains_of(end), rest, end.reason)
    for life in lost_jobs(scene, past).values():
        why = scene.snapshot.endings_trouble or "accounting has no end of it"
        gone = f"{scene.noun} {life.id} is gone, how it ended is not known ({why})"
        yield _restart(gone, past.remains.get(life.key, ""), rest, "")


def _planned(scene: RunSituation, past: JobHistory, job: Job) -> bool:
    """Return True if its last attempt did what it was to do.

    Where its end is not known, the next start must be far off: Slurm starts a failed job again within
    minutes.
    """
    began = past.requeued[job.raw_id].started_at or 0.0
    ends = [end for end in past.tries if end.raw_id == job.raw_id and (end.ended_at or 0.0) >= began]
    told = [end for end in ends if end.state != "REQUEUED"]
    if told:
        return told[-1].well
    return job.waiting and job.reason == "BeginTime" and (job.start_estimate or 0.0) > scene.now + LATER


def _restart(what: str, remains: str, rest: str, details: str) -> Result:
    known = f"; {remains}" if remains else ""
    return notice(f"restart: {what}{known}; {rest}", details=details)


def _requeue(scene: RunSituation, past: JobHistory, job: Job, life: ObservedJob) -> Result:
    """Report a requeue under the same id; accounting may know how the attempt before has ended."""
    attempts = [end for end in scene.snapshot.attempts if end.raw_id == job.raw_id]
    end = attempts[-1] if attempts else None
    how = f": {end.how}" if end and end.state != "REQUEUED" else ""
    waits = f"waits ({job.reason})" if job.reason else "waits"
    goes_on = waits if job.waiting else f"runs again{on_nodes(job.nodes)}"
    known = f"; {past.remains[life.key]}" if past.remains.get(life.key) else ""
    ended = f"was requeued{_ran(life, end)}{on_nodes(life.nodes)}{how}"
    line = f"restart: job {job.id} {ended}, and {goes_on}{known}"
    return notice(line, details=scene.order("earlier", job))


def _ran(life: ObservedJob, end: Ending | None) -> str:
    """For how long it ran before: as accounting has it, else about as long as it was seen to."""
    if life.started_at is None:
        return ""
    same = end is not None and end.started_at is not None and abs(end.started_at - life.started_at) < _CLOCKS
    if same and end is not None and end.lasted is not None:
        return f" after {format_duration(end.lasted)}"
    return f" after about {format_duration(life.seen_at - life.started_at)}"


def lost_jobs(scene: RunSituation, past: JobHistory) -> Mapping[str, ObservedJob]:
    """Jobs that ran and went, and whose end nobody told within `absent_after`."""
    return {
        raw_id: life
        for raw_id, life in past.lost.items()
        if life.ran and scene.now - life.seen_at >= scene.limits.absent_after
    }
