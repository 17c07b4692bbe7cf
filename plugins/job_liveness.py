"""job_liveness: does the run's job live, will the waiting one ever start, and how did the last one end.

It asks Slurm once a round for all runs together. A run is found by its job name and its users, so array
tasks, requeues and dependency chains are one run.

**Running** is fine; suspended, or completing for too long, is told. **Waiting** is fine as long as it
can end: a reason that does not pass by itself (a dependency that can never be satisfied, a hold, a limit
of the partition or the account) is told with the command that mends it. A job held by its user is one
WARNING with the release line, since that is how people pause a run.

**Gone** is said only when a second source (sacct, scontrol) agrees, or after `absent_after`; then with
how it ended, by whom it was cancelled, and what the log said last. A controller that does not answer,
answers with nothing, or accounting that lags behind is UNKNOWN, never "gone".

A task that fails and is replaced by the next is a notice, told once. Jobs that end within minutes, one
after another, are a crash loop: told before the whole array is burnt. A kill switch that nobody obeys,
or that is left in front of waiting jobs, is told too, as is the end of the walltime with nothing queued
behind it.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
from collections.abc import Iterator
from typing import Any

from watchdogd.checks.past import Past, Switch, advance
from watchdogd.checks.scene import Limits, Scene, by, handle, jobs_are, on, reason_of, stuck, told
from watchdogd.jobs import Ending, Job
from watchdogd.plugin import (
    Duration,
    Metric,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    critical,
    notice,
    ok,
    unknown,
    warning,
)
from watchdogd.readers import switch
from watchdogd.readers.reasons import Wait
from watchdogd.units import format_duration, iso

QUEUE = "queue"
"""Subject of what is wrong behind a running job."""
_SWITCH_LIMIT = 64 * 1024
_UNCERTAIN = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL"})
"""Ends that Slurm may follow by a requeue under the same id."""
_NO_CRASH = frozenset({"COMPLETED", "CANCELLED", "PREEMPTED", "NODE_FAIL", "TIMEOUT", "DEADLINE", "REVOKED"})


@check
def job_liveness(
    run: Run,
    snapshot: Snapshot | None,
    memory: dict[str, Any],
    now: float,
    absent_after: Duration | None = None,
    min_queued: int | None = None,
    obey_within: Duration = 900.0,
    estimate_late: Duration = 3600.0,
    completing_for: Duration = 900.0,
    crash_within: Duration = 600.0,
    crashes: int = 3,
    walltime_left: Duration = 3600.0,
) -> Iterator[Result]:
    """Does the run live: running, waiting, waiting for ever, or gone, and how it ended.

    absent_after: how long a job must be out of the queue before it counts as gone where no second source
        says so; left out: 2m, for plain processes at once
    min_queued: further jobs that should be waiting behind the running one
    obey_within: how long a job may go on after its kill switch was set
    estimate_late: how far the estimate of a waiting job's start may lie in the past
    completing_for: how long a job may be COMPLETING
    crash_within: a job that fails sooner than this after its start has crashed
    crashes: so many crashes one after another are a crash loop
    walltime_left: with less time than this left, a further job should be queued; at most a tenth of the
        job's own time limit
    """
    if snapshot is None:
        where = "no Slurm is here" if run.backend == "none" else f"{run.backend} cannot be asked from here"
        yield unknown(f"nobody can say whether it lives: {where}; set pid_file or command")
        return
    limits = Limits(
        absent_after=_absent_after(absent_after, snapshot),
        unseen_after=120.0 if absent_after is None else absent_after,
        min_queued=min_queued,
        obey_within=obey_within,
        estimate_late=estimate_late,
        completing_for=completing_for,
        crash_within=crash_within,
        crashes=crashes,
        walltime_left=walltime_left,
    )
    past, results = judge(run, snapshot, Past.load(memory, now), kill_switch(run.kill_switch), limits, now)
    memory.clear()
    memory.update(past.dump())
    yield from results


def _absent_after(configured: float | None, snapshot: Snapshot) -> float:
    """A process that is not there is gone: there is no controller between."""
    if configured is not None:
        return configured
    return 0.0 if snapshot.backend == "process" else 120.0


def kill_switch(path: str) -> Switch | None:
    """The kill switch as it lies there, or None. One that cannot be read is set all the same."""
    if not path:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            touches = switch.read(file.read(_SWITCH_LIMIT))
    except OSError:
        touches = ()
    first = touches[0] if touches else switch.Touch()
    return Switch(first.at or found.st_mtime, first.by or _user(found.st_uid), first.reason)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def judge(
    run: Run, snapshot: Snapshot, past: Past, pressed: Switch | None, limits: Limits, now: float
) -> tuple[Past, list[Result]]:
    """What is to be remembered, and what is to be said, the run itself first. Pure."""
    trouble = _trouble(run, snapshot, past)
    if trouble:
        return past, [unknown(trouble)]
    name = run.name if snapshot.backend == "process" else run.job_name
    jobs = tuple(job for job in snapshot.of(name) if not run.users or job.user in run.users)
    endings = [end for end in snapshot.ended(name) if not run.users or end.user in run.users]
    past = advance(past, jobs, endings, pressed, looked_at=snapshot.taken_at, now=now)
    scene = Scene(run, snapshot, jobs, pressed, limits, now)
    if run.finished:
        past, results = _finished(scene, past)
    elif jobs:
        past, results = _present(scene, past)
    else:
        past, results = _absent(scene, past)
    results[0] = dataclasses.replace(results[0], metrics=_metrics(scene))
    return past, results


def _trouble(run: Run, snapshot: Snapshot, past: Past) -> str:
    """Why nothing can be said, or empty."""
    if snapshot.jobs is None:
        return f"whether the run lives cannot be found out: {snapshot.trouble}"
    for job in snapshot.jobs:
        if job.state == "UNKNOWN" and job.name == run.name:
            return f"whether the run lives cannot be found out: {job.reason}"
    hidden = snapshot.hidden & (run.users or snapshot.users)
    if hidden and past.seen_at is None and not snapshot.of(run.job_name):
        who = ", ".join(sorted(hidden))
        return (
            f"whether the run lives cannot be seen: PrivateData=jobs of this cluster hides the jobs of {who}"
        )
    return ""


def _metrics(scene: Scene) -> dict[str, Metric]:
    metrics = {"running": Metric(len(scene.running)), "waiting": Metric(scene.queued)}
    left = scene.time_left
    return metrics if left is None else {**metrics, "time_left": Metric(left, "s")}


def _finished(scene: Scene, past: Past) -> tuple[Past, list[Result]]:
    """A run that is marked finished: said once, and expected no more."""
    line = f"finished: marked by {scene.run.finished}; expected no more"
    results = [Result(Status.OK, line, quiet=True), *_nothing_behind(past)]
    if past.finished != scene.run.finished:
        left = sum(job.tasks for job in scene.jobs)
        results.append(notice(f"{line}; {jobs_are(left)} still in the queue" if left else line))
    return dataclasses.replace(past, finished=scene.run.finished, untold=(), gone=0), results


def _nothing_behind(past: Past) -> list[Result]:
    """Ends what was said of the queue, without a message: what is said of the run explains it."""
    return [Result(Status.OK, "nothing runs", subject=QUEUE, quiet=True)] if past.queue_said else []


# ------------------------------------------------------------------ something of the run is in the queue


def _present(scene: Scene, past: Past) -> tuple[Past, list[Result]]:
    results = [_main(scene, past)]
    if scene.switch is None:
        results += [*_queue(scene, past), *_restarts(scene, past)]
    else:
        results += _nothing_behind(past)
    said = past.queue_said or any(result.subject == QUEUE for result in results)
    lost = {raw_id: life for raw_id, life in past.lost.items() if raw_id not in _given_up(scene, past)}
    return dataclasses.replace(past, lost=lost, untold=(), gone=0, finished="", queue_said=said), results


def _main(scene: Scene, past: Past) -> Result:
    """The one result about the run itself."""
    if scene.switch is not None:
        return _under_switch(scene, past, scene.switch)
    return _crash_loop(scene, past) or (_running(scene, past) if scene.running else _waiting(scene))


def _running(scene: Scene, past: Past) -> Result:
    since = {job.raw_id: past.lives[job.raw_id].since for job in scene.running if job.raw_id in past.lives}
    for job in scene.running:
        if job.state in ("SUSPENDED", "STOPPED"):
            why = f" ({job.reason})" if job.reason else ""
            when = iso(since.get(job.raw_id, scene.now))
            line = f"{scene.noun} {job.id} is suspended{why} since {when}{on(job.nodes)}"
            return warning(line, details=scene.resume_line(job))
    ended = min(since.values(), default=scene.now)
    stays = all(job.state == "COMPLETING" for job in scene.running)
    if stays and scene.now - ended > scene.limits.completing_for:
        job = scene.newest
        line = f"job {job.id} is COMPLETING for {scene.ago(ended)}: it does not leave{on(job.nodes)}"
        return warning(line, details="Ask the cluster's administrators to look at the node.")
    return ok(scene.running_line())


def _waiting(scene: Scene) -> Result:
    """Nothing runs: will what waits ever start?"""
    able = [job for job in scene.waiting if reason_of(job).wait is Wait.PASSES]
    if not able:
        return _never(scene)
    job = min(able, key=lambda job: job.start_estimate or float("inf"))
    estimate, reason = job.start_estimate, f" ({job.reason})" if job.reason else ""
    if estimate is not None and scene.now - estimate > scene.limits.estimate_late:
        line = f"nothing runs; job {job.id} waits{reason}, though it was to start at {iso(estimate)}"
        return warning(f"{line}, {scene.ago(estimate)} ago", details=f"squeue --start --jobs={job.raw_id}")
    soon = f", estimated to start at {iso(estimate)}" if estimate else ", no estimate of its start"
    since = f" since {iso(job.submitted_at)}" if job.submitted_at else ""
    return ok(f"nothing runs; job {job.id} waits{since}{reason}{soon}")


def _never(scene: Scene) -> Result:
    """Nothing that waits will start by itself; held by its user is a way to pause, all else is a fault."""
    first, *others = sorted(scene.waiting, key=lambda job: reason_of(job).wait is Wait.HELD)
    say = warning if reason_of(first).wait is Wait.HELD else critical
    return say(f"nothing runs; {stuck(first)}", details="\n".join(stuck(job) for job in others))


def _under_switch(scene: Scene, past: Past, pressed: Switch) -> Result:
    """Jobs live though the kill switch is set: they obey, they do not, or they wait in vain."""
    ago = scene.ago(pressed.set_at)
    late = [job for job in scene.running if _disobeys(scene, pressed, job)]
    if late:
        job, lines = late[0], [scene.end_line(job) for job in late]
        line = (
            f"{scene.noun} {job.id} of {job.user} still runs {ago} after the kill switch was set{by(pressed)}"
        )
        return critical(f"{line}; {lines[0]}", details="\n".join(lines))
    if scene.running:
        return ok(f"{scene.running_line()}; stop requested{by(pressed)}, {ago} ago")
    count = jobs_are(sum(job.tasks for job in scene.waiting))
    left = f"the kill switch is left set while {count} waiting: each will stop as it starts"
    clear = f"watchdogd kill-switch {scene.run.name} --clear"
    if past.stopped:
        return warning(f"stopped on request{by(pressed)}; {left}", details=clear)
    if scene.now - pressed.set_at > scene.limits.obey_within:
        return warning(f"{left} (set {ago} ago{by(pressed)})", details=clear)
    return ok(f"nothing runs; {count} waiting; kill switch set{by(pressed)}, {ago} ago")


def _disobeys(scene: Scene, pressed: Switch, job: Job) -> bool:
    """It ran for too long with the switch set."""
    since = max(pressed.set_at, job.started_at or 0.0)
    return scene.now - since > scene.limits.obey_within and job.state != "COMPLETING"


def _crash_loop(scene: Scene, past: Past) -> Result | None:
    """The last jobs all failed within minutes of their start, and none has outlived that yet."""
    crashed: list[Ending] = []
    for end in reversed(past.ends):
        if end.state in _NO_CRASH or end.lasted is None or end.lasted > scene.limits.crash_within:
            break
        crashed.append(end)
    oldest = min((job.started_at or scene.now for job in scene.running), default=scene.now)
    if len(crashed) < scene.limits.crashes or scene.now - oldest > scene.limits.crash_within:
        return None
    line = f"crash loop: the last {len(crashed)} jobs failed within minutes; {told(crashed[0])}"
    holds = [f"scontrol hold {handle(job)}" for job in scene.waiting]
    more = [told(end) for end in crashed[1:]]
    return critical(f"{line}; {jobs_are(scene.queued)} waiting", details="\n".join([*more, *holds]))


def _restarts(scene: Scene, past: Past) -> Iterator[Result]:
    """What ended badly while the run goes on: told once. Not after an incident, whose RESOLVED tells it."""
    for job in scene.jobs:
        if job.raw_id in past.requeued:
            life = past.requeued[job.raw_id]
            ran = f" after {format_duration(life.seen_at - life.started_at)}" if life.started_at else ""
            goes_on = f"waits ({job.reason})" if job.waiting else f"runs again{on(job.nodes)}"
            line = f"restart: job {job.id} was requeued{ran}{on(life.nodes)}, and {goes_on}"
            yield notice(line, details=f"sacct --duplicates -j {handle(job)}")
    if past.gone >= 2:
        return
    successor = f"{scene.newest.id} took over" if scene.running else f"{scene.waiting[0].id} is next"
    rest = f"{scene.noun} {successor}; {jobs_are(scene.queued)} waiting"
    for end in past.news:
        if not end.well and end.started_at is not None:
            yield notice(f"restart: {told(end)}; {rest}", details=end.reason)
    for life in _given_up(scene, past).values():
        why = scene.snapshot.endings_trouble or "accounting has no end of it"
        yield notice(f"restart: {scene.noun} {life.id} is gone, how it ended is not known ({why}); {rest}")


def _given_up(scene: Scene, past: Past) -> dict[str, Any]:
    """Jobs that ran and went, and whose end nobody told within `absent_after`."""
    return {
        raw_id: life
        for raw_id, life in past.lost.items()
        if life.ran and scene.now - life.seen_at >= scene.limits.absent_after
    }


def _queue(scene: Scene, past: Past) -> list[Result]:
    """What is wrong behind a running job: a result of its own, from the first time that something is."""
    if not scene.running:
        return _nothing_behind(past)
    problems = [stuck(job) for job in scene.waiting if reason_of(job).wait is not Wait.PASSES]
    wanted, left = scene.limits.min_queued, scene.time_left
    behind = f"{jobs_are(scene.queued)} waiting behind the running one"
    if wanted is not None and scene.queued < wanted:
        problems.append(f"{behind}, {wanted} wanted")
    if left is not None and not scene.queued and left < _short(scene):
        problems.append(f"the running job ends in {format_duration(left)}, and nothing waits behind it")
    if problems:
        return [warning(problems[0], subject=QUEUE, details="\n".join(problems[1:]))]
    return [ok(behind, subject=QUEUE)] if past.queue_said else []


def _short(scene: Scene) -> float:
    """Less time left than this is near the end."""
    limits = [job.time_limit for job in scene.running if job.time_limit]
    return min([scene.limits.walltime_left, *(limit / 10 for limit in limits)])


# ------------------------------------------------------------------ nothing of the run is in the queue


def _absent(scene: Scene, past: Past) -> tuple[Past, list[Result]]:
    result = _absence(scene, past)
    gone = past.gone + 1 if result.status in (Status.WARNING, Status.CRITICAL) else 0
    return dataclasses.replace(past, gone=gone, finished=""), [result, *_nothing_behind(past)]


def _absence(scene: Scene, past: Past) -> Result:
    if scene.switch is not None and (past.stopped or past.seen_at is None):
        line = f"stopped on request{by(scene.switch)} (kill switch set since {iso(scene.switch.set_at)})"
        clear = f"watchdogd kill-switch {scene.run.name} --clear"
        return warning(line, details="\n".join([*_last_lines(past), clear]))
    if past.resting:
        line = "the kill switch is cleared; the run is expected again once a job of it was seen"
        return Result(Status.OK, line, quiet=True)
    looked_at = scene.snapshot.taken_at
    absent_for = looked_at - (past.absent_since or looked_at)
    if past.last is None and past.seen_at is None:
        return _never_seen(scene, past, absent_for)
    if not _agreed(past) and absent_for < scene.limits.absent_after:
        after = format_duration(scene.limits.absent_after)
        return ok(f"out of the queue for {format_duration(absent_for)}; gone if it stays so for {after}")
    return _gone(scene, past)


def _agreed(past: Past) -> bool:
    """Whether a second source says that all jobs which lived are over, and for good."""
    return not past.lost and past.last is not None and past.last.state not in _UNCERTAIN


def _never_seen(scene: Scene, past: Past, absent_for: float) -> Result:
    run, snapshot = scene.run, scene.snapshot
    users = ", ".join(sorted(run.users or snapshot.users))
    what = f"job named '{run.job_name}'" + (f" of {users}" if users else "")
    if scene.process:
        what = f"process of {run.pid_file}" if run.pid_file else f"process that matches '{run.command}'"
    if absent_for < scene.limits.unseen_after:
        return ok(f"no {what} was seen yet")
    before = [f"Before that: {told(end)}" for end in snapshot.ended(run.job_name)[-1:]]
    trouble = [snapshot.endings_trouble] if snapshot.endings_trouble else []
    line = f"never seen alive: no {what} since watching began at {iso(past.watched_since)}"
    return warning(line, details="\n".join(before + trouble))


def _gone(scene: Scene, past: Past) -> Result:
    last = past.last
    if scene.process:
        return critical(f"not running: {_lost_line(scene, past)}")
    if last is None or any(life.ran for life in past.lost.values()):
        why = scene.snapshot.endings_trouble or "accounting has no end of it"
        line = f"neither running nor scheduled: {_lost_line(scene, past)}; how it ended is not known ({why})"
        return critical(line, details="\n".join(_last_lines(past)))
    if last.well:
        done = f"If finished: watchdogd finish {scene.run.name}"
        return warning(f"nothing runs or waits: {told(last)}: finished, or out of jobs?", details=done)
    return critical(f"neither running nor scheduled: {told(last)}", details="\n".join(_last_lines(past)[1:]))


def _lost_line(scene: Scene, past: Past) -> str:
    lives = sorted(past.lost.values(), key=lambda life: life.ran)
    seen = lives[-1].seen_at if lives else past.seen_at or past.watched_since
    which = f"{scene.noun} {lives[-1].id}{on(lives[-1].nodes)}" if lives else f"its {scene.noun}"
    return f"{which} was last seen at {iso(seen)}, {scene.ago(seen)} ago"


def _last_lines(past: Past) -> list[str]:
    """The last ends, the one to speak of at the head, then newest first."""
    last = past.last
    others = [end for end in reversed(past.ends) if end is not last]
    return [told(end) for end in (last, *others[:4]) if end is not None]
