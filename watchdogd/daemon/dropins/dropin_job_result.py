"""Judgement and wording of a drop-in job's state and end, from snapshots. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchdogd.batch import pending_reasons
from watchdogd.batch.models import Ending, Job
from watchdogd.checks.working_job import as_owner
from watchdogd.plugin import Advice, Status
from watchdogd.units import age, local_time

PATIENCE = 3600.0
"""Seconds: a job that waits for longer than this and than the drop-in's interval is a WARNING."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class JobResult:
    """A status with its sentence; `since`: when what it says began, if it says for how long."""

    status: Status
    text: str
    advice: tuple[Advice, ...] = ()
    since: float | None = None


def belongs(item: Job | Ending, job_id: str) -> bool:
    """Return whether it is this job, a task of this array or a component of this het job."""
    return item.id == job_id or item.raw_id == job_id or item.id.startswith((f"{job_id}_", f"{job_id}+"))


def base(item: Job | Ending) -> str:
    """Return the job id that sbatch returned: the array's or het job's."""
    return item.id.partition("_")[0].partition("+")[0]


def newest(items: Iterable[Job | Ending], comment: str) -> Job | Ending | None:
    marked = [item for item in items if item.comment == comment]
    return max(marked, key=lambda item: item.submitted_at or 0.0, default=None)


def alive(jobs: Sequence[Job], job_id: str, every: float, now: float) -> JobResult:
    """Judge a waiting or running job: OK unless it can never start or waits too long."""
    for job in jobs:
        reason = pending_reasons.judge(job.reason, job.state)
        if job.waiting and reason.wait is not pending_reasons.Wait.PASSES:
            never = f"job {job.handle} never starts: {reason.why} ({job.reason})"
            sentence = f"{reason.purpose}:" if reason.by_admin else as_owner(reason.purpose, job)
            fix = Advice(sentence, reason.fix.format(id=shlex.quote(job.handle)))
            return JobResult(Status.WARNING, never, (fix,))
    running = [job for job in jobs if not job.waiting]
    if running:
        first = min(running, key=lambda job: job.started_at or now)
        since = f" for {age(now - first.started_at)}" if first.started_at else ""
        return JobResult(Status.OK, f"job {job_id} runs{since} on {first.nodes or 'a node'}")
    why = jobs[0].reason or "no reason given"
    waits = f"job {job_id} waits ({why})"
    since_when = min((job.submitted_at for job in jobs if job.submitted_at), default=now)
    if now - since_when > max(every, PATIENCE):
        late = f"job {job_id} has waited for {age(now - since_when)} ({why}), none is submitted beside it"
        return JobResult(Status.WARNING, late, (_estimate(job_id),), since_when)
    return JobResult(Status.OK, waits)


def _estimate(job_id: str) -> Advice:
    return Advice("To see the present estimate:", f"squeue --start --jobs={shlex.quote(job_id)}")


def over(endings: Sequence[Ending], job_id: str) -> JobResult:
    """Judge a finished job by the endings of all its tasks."""
    failed = [ending for ending in endings if not ending.well]
    last = max(ending.ended_at or 0.0 for ending in endings)
    if not failed:
        lasted = max((ending.lasted for ending in endings if ending.lasted is not None), default=None)
        took = f" after {age(lasted)}" if lasted is not None else ""
        return JobResult(Status.OK, f"job {job_id} ended well{took}, at {local_time(last)}")
    meant = all(ending.cancelled_by_owner for ending in failed)
    status = Status.WARNING if meant else Status.CRITICAL
    if len(endings) == 1:
        return JobResult(status, f"job {job_id} {_how(failed[0])}, at {local_time(last)}")
    some = ", ".join(f"{ending.id} {_how(ending)}" for ending in failed[:_SHOWN])
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    how_many = f"{len(failed)} of {len(endings)} tasks of job {job_id} did not end well"
    return JobResult(status, f"{how_many}: {some}{more}, at {local_time(last)}")


def worse(end: JobResult, present: JobResult) -> JobResult:
    """Combine the last end with the present state: a bad end is reported until a job ends well."""
    if end.status is Status.OK:
        return present
    status = max(end.status, present.status, key=lambda each: each.severity)
    return JobResult(status, f"{end.text}; now {present.text}", present.advice)


def _how(ending: Ending) -> str:
    where = f" on {ending.nodes}" if ending.nodes else ""
    took = f" after {age(ending.lasted)}" if ending.lasted is not None else ""
    how = f"cancelled by its owner {ending.user}" if ending.cancelled_by_owner else ending.how
    return f"{how}{took}{where}"
