"""A run of which something is in the queue: it runs, waits, will never start, or is to stop. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from watchdogd.batch.models import PAUSED_STATES
from watchdogd.batch.pending_reasons import Wait
from watchdogd.checks.scene import by, clearing, jobs_are, on, reason_of, stuck
from watchdogd.plugin import STOPPED, SWITCH_LEFT, Result, critical, ok, unknown, warning
from watchdogd.units import iso

if TYPE_CHECKING:
    from watchdogd.batch.models import Job
    from watchdogd.checks.past import Past, Switch
    from watchdogd.checks.scene import Scene


def main(scene: Scene, past: Past) -> Result:
    """The one result about the run itself."""
    if scene.strange and not scene.running:
        return _strange(scene)
    if scene.switch is not None:
        return _under_switch(scene, past, scene.switch)
    if len(scene.renamed) == len(scene.jobs):
        return _renamed(scene)
    return _running(scene, past) if scene.running else _waiting(scene)


def _renamed(scene: Scene) -> Result:
    """It lives, but no other check finds it by its name."""
    job = scene.renamed[0]
    line = f"job {job.id} was renamed to '{job.name}': it lives, but its log, GPUs and memory are not judged"
    mend = f"job_name = {json.dumps(job.name)} under [runs.{scene.run.name}]"
    return warning(line, details=f"{mend}, or: {scene.order('rename', job)}").of_kind("renamed")


def _strange(scene: Scene) -> Result:
    """Nothing else is at work: whether that is, is not guessed."""
    job = scene.strange[0]
    why = f" ({job.reason})" if job.reason else ""
    line = f"{scene.noun} {job.id} is in a state that this watchdogd does not know, {job.state}{why}"
    return unknown(f"{line}: whether the run lives cannot be said", details=scene.order("look", job))


def _running(scene: Scene, past: Past) -> Result:
    since = {job.raw_id: past.lives[job.raw_id].since for job in scene.running if job.raw_id in past.lives}
    for job in scene.running:
        if job.state in PAUSED_STATES:
            why = f" ({job.reason})" if job.reason else ""
            when = iso(since.get(job.raw_id, scene.now))
            line = f"{scene.noun} {job.id} is suspended{why} since {when}{on(job.nodes)}"
            return warning(line, details=scene.order("resume", job)).of_kind("suspended")
    ended = min(since.values(), default=scene.now)
    stays = all(job.leaving for job in scene.running)
    if stays and scene.now - ended > scene.limits.completing_for:
        job = scene.newest
        line = f"job {job.id} is {job.state} for {scene.ago(ended)}: it does not leave{on(job.nodes)}"
        return warning(line, details="Ask the cluster's administrators to look at the node.").of_kind(
            "leaving"
        )
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
        late = warning(f"{line}, {scene.ago(estimate)} ago", details=scene.order("estimate", job))
        return late.of_kind("late")
    soon = f", estimated to start at {iso(estimate)}" if estimate else ", no estimate of its start"
    since = f" since {iso(job.submitted_at)}" if job.submitted_at else ""
    return ok(f"nothing runs; job {job.id} waits{since}{reason}{soon}")


def _never(scene: Scene) -> Result:
    """Nothing that waits will start by itself; held by its user is a way to pause, all else is a fault."""
    first, *others = sorted(scene.waiting, key=lambda job: reason_of(job).wait is Wait.HELD)
    say = warning if reason_of(first).wait is Wait.HELD else critical
    never = say(f"nothing runs; {stuck(first)}", details="\n".join(stuck(job) for job in others))
    return never.of_kind("never starts")


def _under_switch(scene: Scene, past: Past, pressed: Switch) -> Result:
    """Jobs live though the kill switch is set: they obey, they do not, or they wait in vain."""
    ago = scene.ago(pressed.set_at)
    late = [job for job in scene.running if _disobeys(scene, pressed, job)]
    if late:
        job, lines = late[0], [scene.order("end", job) for job in late]
        line = (
            f"{scene.noun} {job.id} of {job.user} still runs {ago} after the kill switch was set{by(pressed)}"
        )
        return critical(f"{line}; {lines[0]}", details="\n".join(lines)).of_kind("disobeys")
    if scene.running:
        return ok(f"{scene.running_line()}; stop requested{by(pressed)}, {ago} ago")
    count = jobs_are(sum(job.tasks for job in scene.waiting))
    left = f"the kill switch is left set while {count} waiting: each will stop as it starts"
    clear = clearing(scene.run.name)
    if past.stopped:
        return warning(f"stopped on request{by(pressed)}; {left}", details=clear).of_kind(STOPPED)
    if scene.now - pressed.set_at > scene.limits.obey_within:
        return warning(f"{left} (set {ago} ago{by(pressed)})", details=clear).of_kind(SWITCH_LEFT)
    return ok(f"nothing runs; {count} waiting; kill switch set{by(pressed)}, {ago} ago")


def _disobeys(scene: Scene, pressed: Switch, job: Job) -> bool:
    """It ran for too long with the switch set."""
    since = max(pressed.set_at, job.started_at or 0.0)
    return scene.now - since > scene.limits.obey_within and not job.leaving
