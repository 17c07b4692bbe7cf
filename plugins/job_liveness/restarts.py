"""Jobs of a run that ended while it goes on: restarts, requeues, crash loops. Pure.

A job that comes back as planned (scrontab, or one that requeues itself for later) is none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from watchdogd.batch.models import Ending, Job
from watchdogd.checks.causes import first_fixes
from watchdogd.plugin import Advice, Result, Status, critical, notice, ok
from watchdogd.plugins.job_liveness.job_history import JobHistory, ObservedJob, deed_of
from watchdogd.plugins.job_liveness.liveness_wording import (
    RunSituation,
    accusing,
    broken_node,
    describe_end,
    fate,
    jobs_are,
    on_nodes,
)
from watchdogd.plugins.job_liveness.postmortem import PostMortem
from watchdogd.units import age

CRASHES = "crashes"
"""Subject of a crash loop; the run itself is reported beside it."""
LATER = 600.0
"""If a job starts so many seconds later or more, its user delayed it, not Slurm after a failure."""
_CLOCKS = 5.0
"""Seconds by which controller and accounting may differ on when an attempt started."""
_NO_CRASH = frozenset({"COMPLETED", "CANCELLED", "PREEMPTED", "NODE_FAIL", "TIMEOUT", "DEADLINE", "REVOKED"})


def _waiting(situation: RunSituation) -> str:
    """Return how many jobs wait; empty for processes, which no queue holds."""
    return "" if situation.process else f"{jobs_are(situation.queued)} waiting"


def crash_loop(situation: RunSituation, history: JobHistory) -> list[Result]:
    """Report that the last jobs all failed within minutes of their start and none has lived longer since."""
    crashed = _loop(situation, history)
    if not crashed:
        calm = ok("no crash loop", subject=CRASHES).ending("the crash loop is over")
        return [calm] if history.crashes_reported else []
    found, began = history.post_mortem_at(crashed[0]), crashed[-1].started_at
    told = critical(_crash_line(situation, history, crashed), subject=CRASHES).saying(
        *found.facts,
        *map(describe_end, crashed),
        _waiting(situation),
        *(f"job {job.id} runs now{on_nodes(job.nodes)}" for job in situation.running),
        advice=[*first_fixes(found.kind), *_stopped(situation)],
    )
    told = accusing(
        told if began is None else told.dated(began), crashed[0], found, situation.snapshot.backend
    )
    return [told.triggers("on_crash_loop")]


def _crash_line(situation: RunSituation, history: JobHistory, crashed: Sequence[Ending]) -> str:
    what = "jobs" if len({end.id for end in crashed}) > 1 else f"attempts of job {crashed[0].id}"
    why = history.post_mortem_at(crashed[0]).cause or crashed[0].how
    began = crashed[-1].started_at
    span = "minutes" if began is None else age((crashed[0].ended_at or situation.now) - began)
    return f"crash loop, the last {len(crashed)} {what} failed in {span}: {why}"


def burnt(result: Result, situation: RunSituation, history: JobHistory) -> Result:
    """Return the result on a run that is gone, as a crash loop if its last jobs burnt through as one.

    Jobs that fail within seconds are gone before a crash loop is confirmed.
    """
    crashed = _loop(situation, history)
    if result.status is not Status.CRITICAL or not crashed or history.last not in crashed:
        return result
    line = f"{_crash_line(situation, history, crashed)}, job {crashed[0].id}"
    ends = [describe_end(end) for end in crashed]
    return replace(result, summary=line).saying(*(end for end in ends if end not in result.facts))


def _stopped(situation: RunSituation) -> list[Advice]:
    """Return what keeps further jobs from failing."""
    held = [
        each
        for job in situation.waiting
        for each in situation.advice(f"To keep job {job.id} from starting", "hold", job, "hold")
    ]
    return held or [
        each
        for job in situation.running
        for each in situation.advice(f"To stop job {job.id}, which runs now", "end", job, "cancel")
    ]


def no_crash_loop(history: JobHistory) -> list[Result]:
    """End the incident of a crash loop without a message, since the result about the run replaces it."""
    nothing = Result(Status.OK, "nothing runs", subject=CRASHES, quiet=True)
    ended = nothing.ending("its jobs ended", recovered=False)
    return [ended] if history.crashes_reported else []


def _loop(situation: RunSituation, history: JobHistory) -> list[Ending]:
    """Return the crashes of a crash loop, newest first; none if there is no loop."""
    crashed = _crashed(situation, history)
    oldest = min((job.started_at or situation.now for job in situation.running), default=situation.now)
    outlived = situation.now - oldest > situation.limits.crash_within
    return crashed if len(crashed) >= situation.limits.crashes and not outlived else []


def _crashed(situation: RunSituation, history: JobHistory) -> list[Ending]:
    """Return the last ends as far back as they are crashes, newest first."""
    crashed: list[Ending] = []
    after = {job.raw_id: job.start_estimate if job.waiting else job.started_at for job in situation.jobs}
    for end in reversed(history.trials):
        if end.state in _NO_CRASH or end.lasted is None or end.lasted > situation.limits.crash_within:
            break
        if end.state == "REQUEUED" and not end.exit_code and _put_off(end, after.get(end.raw_id)):
            break
        crashed.append(end)
        after[end.raw_id] = end.started_at
    return crashed


def _put_off(end: Ending, again: float | None) -> bool:
    """Return True if it begins `again` so late that its user planned that: Slurm delays by two minutes."""
    return again is not None and again - (end.ended_at or 0.0) > LATER


def restarts(situation: RunSituation, history: JobHistory) -> Iterator[Result]:
    """Report bad ends once while the run goes on.

    Not after an incident, whose RESOLVED says so, and not the ends that a crash loop covers.
    """
    loop = _loop(situation, history)
    for job in situation.jobs:
        seen_job = history.requeued.get(job.raw_id)
        if seen_job and not loop and not _planned(situation, history, job):
            times = seen_job.started_at, seen_job.seen_at, situation.snapshot.taken_at
            if situation.run.deed("requeue", *times) is None:  # its own report says that it did it
                yield _requeue(situation, history, job, seen_job)
    if history.gone >= 2:
        return
    takes_over = "went on as" if situation.running else "goes on as"
    successor = situation.newest if situation.running else situation.jobs[0]
    next_one = f"{takes_over} {situation.noun} {successor.id}"
    waiting = _waiting(situation)
    for end in history.news:
        if not end.well and end.state != "REVOKED" and end.started_at is not None and end not in loop:
            left, deed = history.post_mortem_at(end), deed_of(situation.run, end)
            facts = (waiting, *left.facts, describe_end(end, deed), end.reason)
            yield accusing(
                notice(f"{fate(end, left, deed)}, {next_one}").saying(*facts),
                end,
                left,
                situation.snapshot.backend,
            )
    for seen_job in lost_jobs(situation, history).values():
        why = situation.snapshot.endings_trouble or "accounting has no end of it"
        gone = f"{situation.noun} {seen_job.id} is gone, not known how it ended, {next_one}"
        found = str(history.post_mortems.get(seen_job.key, ""))
        was = f"it ran{on_nodes(seen_job.nodes)}" if seen_job.nodes else ""
        yield notice(gone).saying(was, waiting, "" if situation.process else why, found)


def _planned(situation: RunSituation, history: JobHistory, job: Job) -> bool:
    """Return True if its last attempt did what it was to do.

    If its end is not known, the next start must be far off, since Slurm restarts a failed job within minutes.
    """
    began = history.requeued[job.raw_id].started_at or 0.0
    ends = [end for end in history.tries if end.raw_id == job.raw_id and (end.ended_at or 0.0) >= began]
    final = [end for end in ends if end.state != "REQUEUED"]
    if final:
        return final[-1].well
    return job.waiting and job.reason == "BeginTime" and (job.start_estimate or 0.0) > situation.now + LATER


def _requeue(situation: RunSituation, history: JobHistory, job: Job, seen_job: ObservedJob) -> Result:
    """Report a requeue under the same id, and how the attempt before ended, if accounting knows."""
    attempts = [end for end in situation.snapshot.attempts if end.raw_id == job.raw_id]
    end = attempts[-1] if attempts else None
    found = history.post_mortems.get(seen_job.key, PostMortem())
    how = f": {end.how}" if end and end.state != "REQUEUED" else ""
    if how and end and (node := broken_node(end, found)):
        how += f" of {node}"
    waits = "waits to start" if job.reason in ("", "BeginTime") else f"waits ({job.reason})"
    goes_on = waits if job.waiting else f"runs again{on_nodes(job.nodes)}"
    line = f"job {job.id} was requeued{_ran(seen_job, end)}{how}, {goes_on}"
    ran = f"it ran{on_nodes(seen_job.nodes)}" if seen_job.nodes else ""
    why = replace(found, cause="") if found.kind == "requeued" else found  # the first line says that
    earlier = situation.advice("To see its earlier attempts", "earlier", job)
    return notice(line).saying(str(why), ran, advice=earlier)


def _ran(seen_job: ObservedJob, end: Ending | None) -> str:
    """Return for how long it ran before: from accounting, else roughly, by how long it was seen."""
    if seen_job.started_at is None:
        return ""
    same = (
        end is not None and end.started_at is not None and abs(end.started_at - seen_job.started_at) < _CLOCKS
    )
    if same and end is not None and end.lasted is not None:
        return f" after {age(end.lasted)}"
    return f" after about {age(seen_job.seen_at - seen_job.started_at)}"


def lost_jobs(situation: RunSituation, history: JobHistory) -> Mapping[str, ObservedJob]:
    """Return jobs that ran and vanished, with no known end within `absent_after`."""
    return {
        raw_id: seen_job
        for raw_id, seen_job in history.lost.items()
        if seen_job.ran and situation.now - seen_job.seen_at >= situation.limits.absent_after
    }
