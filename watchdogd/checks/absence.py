"""A run of which nothing is in the queue: stopped on request, never seen, out for a moment, or gone. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.checks.scene import by, clearing, on, told
from watchdogd.plugin import STOPPED, Result, Status, critical, ok, unknown, warning
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from watchdogd.checks.past import Past
    from watchdogd.checks.scene import Scene

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


def absence(scene: Scene, past: Past) -> Result:
    """The one result about the run."""
    theirs = strangers(scene)
    if scene.switch is not None and (past.stopped or past.seen_at is None):
        line = f"stopped on request{by(scene.switch)} (kill switch set since {iso(scene.switch.set_at)})"
        clear = clearing(scene.run.name)
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


def _goes_on(scene: Scene, past: Past) -> bool:
    """Whether a job that does not count is the very one that did when last seen, as far as can be told:
    somebody else may watch now, or others be named."""
    known = {*past.lives, *past.lost}
    before = [job for job in scene.strangers if (job.started_at or scene.now) <= (past.seen_at or 0.0)]
    return any(job.raw_id in known for job in scene.strangers) or bool(before and not _agreed(past))


def _agreed(past: Past) -> bool:
    """Whether a second source says that all jobs which lived are over, and for good."""
    return not past.lost and past.last is not None and past.last.state not in _UNCERTAIN


def _never_seen(scene: Scene, past: Past, absent_for: float) -> Result:
    run, snapshot = scene.run, scene.snapshot
    users = ", ".join(sorted(run.users or snapshot.users))
    what = f"job named '{run.job_name}'" + (f" of {users}" if users else "")
    if scene.process:
        what = f"process of {run.pid_file}" if run.pid_file else f"process that matches '{run.command}'"
    if theirs := strangers(scene):
        return warning(f"no {what} was seen, but {theirs}").of_kind("not counted")
    if absent_for < scene.limits.unseen_after:
        return (
            unknown(f"no {what} was seen, and {veil(scene)}")
            if veil(scene)
            else ok(f"no {what} was seen yet")
        )
    ended = [end for end in snapshot.ended(run.job_name) if not run.users or end.user in run.users]
    before = f"; before that {told(ended[-1])}" if ended else ""
    line = f"never seen alive: no {what} since watching began at {iso(past.watched_since)}{before}"
    details = "\n".join(filter(None, [snapshot.endings_trouble, veil(scene)]))
    return warning(line, details=details).of_kind("never seen")


def strangers(scene: Scene) -> str:
    """Who has living jobs of the run's name though his jobs do not count, with the line that has them count;
    empty where nobody is known to."""
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


def veil(scene: Scene) -> str:
    """That somebody else's job of the run's name could not be seen, where none is named; or empty."""
    if not scene.snapshot.veiled or scene.run.users:
        return ""
    return f"{HIDING[scene.snapshot.backend]} of other users"


def _gone(scene: Scene, past: Past) -> Result:
    """How it is gone. Somebody who cancelled its last job wants no other in its place."""
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
        return warning(f"nothing runs or waits: {told(last)}: finished, or out of jobs?", details=done)
    details = [*filter(None, [past.remains_of(last)]), *_last_lines(past)[1:]]
    gone = critical(f"neither running nor scheduled: {told(last)}", details="\n".join(details))
    return gone if last.cancelled_by else gone.triggers("on_gone")


def _lost_line(scene: Scene, past: Past) -> str:
    lives = sorted(past.lost.values(), key=lambda life: life.ran)
    seen = lives[-1].seen_at if lives else past.seen_at or past.watched_since
    which = f"{scene.noun} {lives[-1].id}{on(lives[-1].nodes)}" if lives else f"its {scene.noun}"
    return f"{which} was last seen at {iso(seen)}, {scene.ago(seen)} ago"


def _lost_remains(past: Past) -> str:
    """What is left of the job that went without an end that anybody told."""
    lives = [life for life in past.lost.values() if life.ran]
    return past.remains.get(lives[-1].key, "") if lives else ""


def _last_lines(past: Past) -> list[str]:
    """The last ends, the one to speak of at the head, then newest first."""
    last = past.last
    others = [end for end in reversed(past.ends) if end is not last]
    return [told(end) for end in (last, *others[:4]) if end is not None]
