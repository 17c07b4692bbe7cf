"""Verdicts on a run and on its queue: running, waiting, stopped on request, never seen, or gone. Pure.

`running_verdict` is for a run of which something is in the queue, `missing_verdict` for one of which nothing
is, `queue_verdicts` for what waits behind a running job.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.batch.models import PAUSED_STATES
from watchdogd.batch.pending_reasons import Wait
from watchdogd.plugin import STOPPED, SWITCH_LEFT, Result, Status, critical, ok, unknown, warning
from watchdogd.plugins.job_liveness.model import (
    by_whom,
    clear_command,
    describe_end,
    describe_stuck,
    jobs_are,
    on_nodes,
    reason_of,
)
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from watchdogd.batch.models import Job
    from watchdogd.plugins.job_liveness.job_history import JobHistory, KillSwitch
    from watchdogd.plugins.job_liveness.model import RunSituation


def running_verdict(scene: RunSituation, past: JobHistory) -> Result:
    """Judge a run of which something is in the queue, in one result."""
    if scene.strange and not scene.running:
        return _strange(scene)
    if scene.switch is not None:
        return _under_switch(scene, past, scene.switch)
    if len(scene.renamed) == len(scene.jobs):
        return _renamed(scene)
    return _running(scene, past) if scene.running else _waiting(scene)


def _renamed(scene: RunSituation) -> Result:
    """Report a run that lives, though no other check finds it by its name."""
    job = scene.renamed[0]
    line = f"job {job.id} was renamed to '{job.name}': it lives, but its log, GPUs and memory are not judged"
    mend = f"job_name = {json.dumps(job.name)} under [runs.{scene.run.name}]"
    return warning(line, details=f"{mend}, or: {scene.order('rename', job)}").of_kind("renamed")


def _strange(scene: RunSituation) -> Result:
    """Nothing else is at work: whether that is, is not guessed."""
    job = scene.strange[0]
    why = f" ({job.reason})" if job.reason else ""
    line = f"{scene.noun} {job.id} is in a state that this watchdogd does not know, {job.state}{why}"
    return unknown(f"{line}: whether the run lives cannot be said", details=scene.order("look", job))


def _running(scene: RunSituation, past: JobHistory) -> Result:
    since = {job.raw_id: past.lives[job.raw_id].since for job in scene.running if job.raw_id in past.lives}
    for job in scene.running:
        if job.state in PAUSED_STATES:
            why = f" ({job.reason})" if job.reason else ""
            when = iso(since.get(job.raw_id, scene.now))
            line = f"{scene.noun} {job.id} is suspended{why} since {when}{on_nodes(job.nodes)}"
            return warning(line, details=scene.order("resume", job)).of_kind("suspended")
    ended = min(since.values(), default=scene.now)
    stays = all(job.leaving for job in scene.running)
    if stays and scene.now - ended > scene.limits.completing_for:
        job = scene.newest
        line = f"job {job.id} is {job.state} for {scene.ago(ended)}: it does not leave{on_nodes(job.nodes)}"
        return warning(line, details="Ask the cluster's administrators to look at the node.").of_kind(
            "leaving"
        )
    return ok(scene.running_line())


def _waiting(scene: RunSituation) -> Result:
    """Judge whether what waits will ever start, where nothing runs."""
    able = [job for job in scene.waiting if reason_of(job).wait is Wait.PASSES]
    if not able:
        return _never(scene)
    job = min(able, key=lambda job: job.start_estimate or float("inf"))
    estimate, reason = job.start_estimate, f" ({job.reason})" if job.reason else ""
    if estimate is not None and scene.now - estimate > scene.limits.estimate_late:
        line = f"nothing runs; job {job.id} waits{reason}, though it was to start at {iso(estimate)}"
        late = warning(f"{line}, {scene.ago(estimate)} ago", details=scene.order("estimate", job))
        return late.of_kind("late")
    soon = f", estimated to start at {iso(estimate)}" if estimate else ", no estimate of its start"
    since = f" since {iso(job.submitted_at)}" if job.submitted_at else ""
    return ok(f"nothing runs; job {job.id} waits{since}{reason}{soon}")


def _never(scene: RunSituation) -> Result:
    """Nothing that waits will start by itself; held by its user is a way to pause, all else is a fault."""
    first, *others = sorted(scene.waiting, key=lambda job: reason_of(job).wait is Wait.HELD)
    say = warning if reason_of(first).wait is Wait.HELD else critical
    never = say(
        f"nothing runs; {describe_stuck(first)}", details="\n".join(describe_stuck(job) for job in others)
    )
    return never.of_kind("never starts")


def _under_switch(scene: RunSituation, past: JobHistory, pressed: KillSwitch) -> Result:
    """Jobs live though the kill switch is set: they obey, they do not, or they wait in vain."""
    ago = scene.ago(pressed.set_at)
    late = [job for job in scene.running if _disobeys(scene, pressed, job)]
    if late:
        job, lines = late[0], [scene.order("end", job) for job in late]
        set_by = f"the kill switch was set{by_whom(pressed)}"
        line = f"{scene.noun} {job.id} of {job.user} still runs {ago} after {set_by}"
        return critical(f"{line}; {lines[0]}", details="\n".join(lines)).of_kind("disobeys")
    if scene.running:
        return ok(f"{scene.running_line()}; stop requested{by_whom(pressed)}, {ago} ago")
    count = jobs_are(sum(job.tasks for job in scene.waiting))
    left = f"the kill switch is left set while {count} waiting: each will stop as it starts"
    clear = clear_command(scene.run.name)
    if past.stopped:
        return warning(f"stopped on request{by_whom(pressed)}; {left}", details=clear).of_kind(STOPPED)
    if scene.now - pressed.set_at > scene.limits.obey_within:
        return warning(f"{left} (set {ago} ago{by_whom(pressed)})", details=clear).of_kind(SWITCH_LEFT)
    return ok(f"nothing runs; {count} waiting; kill switch set{by_whom(pressed)}, {ago} ago")


def _disobeys(scene: RunSituation, pressed: KillSwitch, job: Job) -> bool:
    """Return True if it ran for too long with the switch set."""
    since = max(pressed.set_at, job.started_at or 0.0)
    return scene.now - since > scene.limits.obey_within and not job.leaving


_UNCERTAIN = frozenset({"PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REVOKED"})
"""Ends that Slurm may follow by a requeue under the same id, or that a job has here which another cluster of
the federation took."""
HIDING = {
    "slurm": "PrivateData=jobs of this cluster hides the jobs",
    "pbs": "query_other_jobs=False of this server hides the jobs",
    "process": "hidepid of this machine's /proc hides the processes",
}
"""Backend → what may keep those of other users from us."""
_SHOWN = 3


def missing_verdict(scene: RunSituation, past: JobHistory) -> Result:
    """Judge a run of which nothing is in the queue, in one result."""
    theirs = uncounted_jobs(scene)
    if scene.switch is not None and (past.stopped or past.seen_at is None):
        line = f"stopped on request{by_whom(scene.switch)} (kill switch set since {iso(scene.switch.set_at)})"
        clear = clear_command(scene.run.name)
        line += f"; but {theirs}" if theirs else ""
        return warning(line, details="\n".join([*_last_lines(past), clear])).of_kind(STOPPED)
    if past.resting and not theirs:
        line = "the kill switch is cleared; the run is expected again once a job of it was seen"
        return Result(Status.OK, line, quiet=True)
    if theirs and (past.resting or _goes_on(scene, past)):
        return warning(f"nothing of it is seen that counts, but {theirs}").of_kind("not counted")
    looked_at = scene.snapshot.taken_at
    absent_for = looked_at - (past.absent_since or looked_at)
    if past.last is None and past.seen_at is None:
        return _never_seen(scene, past, absent_for)
    if not _agreed(past) and absent_for < scene.limits.absent_after:
        after = format_duration(scene.limits.absent_after)
        line = f"out of the queue for {format_duration(absent_for)}; gone if it stays so for {after}"
        doubt = scene.snapshot.endings_trouble
        return ok(f"{line}; how it ended is not known ({doubt})" if doubt else line)
    gone = _gone(scene, past).of_kind("gone")
    return replace(gone, details="\n".join(filter(None, [gone.details, theirs])))


def _goes_on(scene: RunSituation, past: JobHistory) -> bool:
    """Return True if a job that does not count is the very one that did when last seen.

    Somebody else may watch now, or other users be named.
    """
    known = {*past.lives, *past.lost}
    before = [job for job in scene.strangers if (job.started_at or scene.now) <= (past.seen_at or 0.0)]
    return any(job.raw_id in known for job in scene.strangers) or bool(before and not _agreed(past))


def _agreed(past: JobHistory) -> bool:
    """Return True if a second source says that all jobs which lived are over, and for good."""
    return not past.lost and past.last is not None and past.last.state not in _UNCERTAIN


def _never_seen(scene: RunSituation, past: JobHistory, absent_for: float) -> Result:
    run, snapshot = scene.run, scene.snapshot
    users = ", ".join(sorted(run.users or snapshot.users))
    what = f"job named '{run.job_name}'" + (f" of {users}" if users else "")
    if scene.process:
        what = f"process of {run.pid_file}" if run.pid_file else f"process that matches '{run.command}'"
    if theirs := uncounted_jobs(scene):
        return warning(f"no {what} was seen, but {theirs}").of_kind("not counted")
    if absent_for < scene.limits.unseen_after:
        return (
            unknown(f"no {what} was seen, and {hidden_jobs(scene)}")
            if hidden_jobs(scene)
            else ok(f"no {what} was seen yet")
        )
    ended = [end for end in snapshot.ended(run.job_name) if not run.users or end.user in run.users]
    before = f"; before that {describe_end(ended[-1])}" if ended else ""
    line = f"never seen alive: no {what} since watching began at {iso(past.watched_since)}{before}"
    details = "\n".join(filter(None, [snapshot.endings_trouble, hidden_jobs(scene)]))
    return warning(line, details=details).of_kind("never seen")


def uncounted_jobs(scene: RunSituation) -> str:
    """Return whose living jobs of the run's name do not count, and the line that counts them, or empty."""
    found = scene.strangers
    if not found:
        return ""
    users = sorted({job.user for job in found})
    which = ", ".join(f"{job.id} of {job.user}" for job in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    several = len(found) > 1
    what = f"{scene.noun}{'es' if several and scene.process else 's' if several else ''} {which}{more}"
    whose = f"whose {'processes' if scene.process else 'jobs'} do not count"
    return (
        f"{what} {'bear' if several else 'bears'} its name, {whose}: "
        f'if it is the run\'s, set user = "{users[0]}" under [runs.{scene.run.name}]'
    )


def hidden_jobs(scene: RunSituation) -> str:
    """Return why jobs of other users could not be seen, where no user is named; or empty."""
    if not scene.snapshot.veiled or scene.run.users:
        return ""
    return f"{HIDING[scene.snapshot.backend]} of other users"


def _gone(scene: RunSituation, past: JobHistory) -> Result:
    """Report how it is gone. Somebody who cancelled its last job wants no other in its place."""
    last = past.last
    if scene.process:
        line = f"not running: {_lost_line(scene, past)}"
        return critical(line, details=_lost_remains(past)).triggers("on_gone")
    if last is None or any(life.ran for life in past.lost.values()):
        why = scene.snapshot.endings_trouble or "accounting has no end of it"
        line = f"neither running nor scheduled: {_lost_line(scene, past)}; how it ended is not known ({why})"
        details = [*filter(None, [_lost_remains(past)]), *_last_lines(past)]
        return critical(line, details="\n".join(details)).triggers("on_gone")
    if last.well:
        done = f"If finished: watchdogd finish {scene.run.name}"
        return warning(
            f"nothing runs or waits: {describe_end(last)}: finished, or out of jobs?", details=done
        )
    details = [*filter(None, [past.remains_of(last)]), *_last_lines(past)[1:]]
    gone = critical(f"neither running nor scheduled: {describe_end(last)}", details="\n".join(details))
    return gone if last.cancelled_by else gone.triggers("on_gone")


def _lost_line(scene: RunSituation, past: JobHistory) -> str:
    lives = sorted(past.lost.values(), key=lambda life: life.ran)
    seen = lives[-1].seen_at if lives else past.seen_at or past.watched_since
    which = f"{scene.noun} {lives[-1].id}{on_nodes(lives[-1].nodes)}" if lives else f"its {scene.noun}"
    return f"{which} was last seen at {iso(seen)}, {scene.ago(seen)} ago"


def _lost_remains(past: JobHistory) -> str:
    """Return the post-mortem of the job that vanished without a known end."""
    lives = [life for life in past.lost.values() if life.ran]
    return past.remains.get(lives[-1].key, "") if lives else ""


def _last_lines(past: JobHistory) -> list[str]:
    """Return the last ends, the one to report first, then newest first."""
    last = past.last
    others = [end for end in reversed(past.ends) if end is not last]
    return [describe_end(end) for end in (last, *others[:4]) if end is not None]


QUEUE = "queue"
"""Subject of what is wrong behind a running job."""


def queue_verdicts(scene: RunSituation, past: JobHistory) -> list[Result]:
    """Judge the queue in a result of its own, from the first time that something is wrong."""
    if not scene.running:
        return empty_queue(past)
    problems = [describe_stuck(job) for job in scene.waiting if reason_of(job).wait is not Wait.PASSES]
    wanted, left = scene.limits.min_queued, scene.time_left
    behind = f"{jobs_are(scene.queued)} waiting behind the running one"
    if wanted is not None and scene.queued < wanted:
        problems.append(f"{behind}, {wanted} wanted")
    if left is not None and not scene.queued and left < _near_end(scene) and not _comes_again(scene, past):
        problems.append(f"the running job ends in {format_duration(left)}, and nothing waits behind it")
    if problems:
        return [warning(problems[0], subject=QUEUE, details="\n".join(problems[1:]))]
    return [ok(behind, subject=QUEUE)] if past.queue_said else []


def _comes_again(scene: RunSituation, past: JobHistory) -> bool:
    """Return True if one that runs ended well before, and came again under its id, as with scrontab."""
    running = {job.raw_id for job in scene.running}
    return any(end.well and end.raw_id in running for end in past.tries)


def empty_queue(past: JobHistory) -> list[Result]:
    """End what was reported of the queue, without a message: the result about the run explains it."""
    return [Result(Status.OK, "nothing runs", subject=QUEUE, quiet=True)] if past.queue_said else []


def _near_end(scene: RunSituation) -> float:
    """Less time left than this is near the end."""
    limits = [job.time_limit for job in scene.running if job.time_limit]
    return min([scene.limits.walltime_left, *(limit / 10 for limit in limits)])
