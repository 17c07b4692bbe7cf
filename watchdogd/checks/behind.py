"""What waits behind a running job: too little, nothing with the end near, or what never starts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.batch.pending_reasons import Wait
from watchdogd.checks.scene import jobs_are, reason_of, stuck
from watchdogd.plugin import Result, Status, ok, warning
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from watchdogd.checks.past import Past
    from watchdogd.checks.scene import Scene

QUEUE = "queue"
"""Subject of what is wrong behind a running job."""


def queue(scene: Scene, past: Past) -> list[Result]:
    """A result of its own, from the first time that something is wrong."""
    if not scene.running:
        return nothing_behind(past)
    problems = [stuck(job) for job in scene.waiting if reason_of(job).wait is not Wait.PASSES]
    wanted, left = scene.limits.min_queued, scene.time_left
    behind = f"{jobs_are(scene.queued)} waiting behind the running one"
    if wanted is not None and scene.queued < wanted:
        problems.append(f"{behind}, {wanted} wanted")
    if left is not None and not scene.queued and left < _short(scene) and not _comes_again(scene, past):
        problems.append(f"the running job ends in {format_duration(left)}, and nothing waits behind it")
    if problems:
        return [warning(problems[0], subject=QUEUE, details="\n".join(problems[1:]))]
    return [ok(behind, subject=QUEUE)] if past.queue_said else []


def _comes_again(scene: Scene, past: Past) -> bool:
    """Whether one that runs ended well before, and came again by itself under its id, as scrontab has it."""
    running = {job.raw_id for job in scene.running}
    return any(end.well and end.raw_id in running for end in past.tries)


def nothing_behind(past: Past) -> list[Result]:
    """Ends what was said of the queue, without a message: what is said of the run explains it."""
    return [Result(Status.OK, "nothing runs", subject=QUEUE, quiet=True)] if past.queue_said else []


def _short(scene: Scene) -> float:
    """Less time left than this is near the end."""
    limits = [job.time_limit for job in scene.running if job.time_limit]
    return min([scene.limits.walltime_left, *(limit / 10 for limit in limits)])
