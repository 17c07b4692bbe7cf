"""Verdicts on a run and its queue: running, waiting, stopped on request, never seen, or gone. Pure.

`running_verdict` is for a run with something in the queue, `missing_verdict` for one with nothing,
`queue_verdicts` for what waits behind a running job.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from watchdogd.batch.models import PAUSED_STATES, Ending, Job
from watchdogd.batch.pending_reasons import Wait
from watchdogd.checks.causes import first_fixes
from watchdogd.plugin import (
    DISOBEYS,
    STOPPED,
    SWITCH_LEFT,
    UNWATCHED,
    Advice,
    Result,
    Run,
    Status,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.plugins.job_liveness.job_history import JobHistory, KillSwitch, ended_jobs
from watchdogd.plugins.job_liveness.liveness_wording import (
    RunSituation,
    accusing,
    by_whom,
    describe_end,
    describe_stuck,
    fate,
    fix_of,
    jobs_are,
    on_nodes,
    reason_of,
    stopped_by,
    submitted_as,
    why_cancelled,
)
from watchdogd.plugins.job_liveness.postmortem import PostMortem
from watchdogd.units import age, local_time


def running_verdict(situation: RunSituation, history: JobHistory) -> Result:
    """Judge a run with something in the queue, in one result."""
    if situation.strange and not situation.running:
        return _strange(situation)
    if situation.switch is not None:
        return _under_switch(situation, history, situation.switch)
    if len(situation.renamed) == len(situation.jobs):
        return _renamed(situation)
    return _running(situation, history) if situation.running else _waiting(situation, history)


def _renamed(situation: RunSituation) -> Result:
    """Report a run that is alive under another name, by which no other check finds it."""
    job = situation.renamed[0]
    line = f"renamed to '{job.name}', so its log, GPUs and memory are not judged"
    fix = f"Or write job_name = {json.dumps(job.name)} under [runs.{situation.run.name}]."
    told = warning(line).saying(
        f"{situation.noun} {job.id} runs or waits",
        advice=[*situation.advice("To give it its name back", "rename", job), Advice(fix)],
    )
    return told.of_kind("renamed")


def _strange(situation: RunSituation) -> Result:
    """Report a job in an unknown state, if nothing else is running, without guessing."""
    job = situation.strange[0]
    why = f" ({job.reason})" if job.reason else ""
    line = f"{situation.noun} {job.id} is {job.state}{why}, job state not known"
    fact = "a state that this watchdogd does not know"
    return unknown(line).saying(fact, advice=situation.advice("To see what Slurm says", "look", job))


def _running(situation: RunSituation, history: JobHistory) -> Result:
    running = [job.raw_id for job in situation.running if job.raw_id in history.observed]
    since = {raw_id: history.observed[raw_id].since for raw_id in running}
    for job in situation.running:
        if job.state in PAUSED_STATES:
            why = f" ({job.reason})" if job.reason else ""
            lasted = situation.ago(since.get(job.raw_id, situation.now))
            told = warning(f"suspended for {lasted}{why}").saying(
                f"{situation.noun} {job.id}{on_nodes(job.nodes)}",
                advice=_resumed(situation, job),
            )
            return told.of_kind("suspended").dated(since.get(job.raw_id, situation.now))
    ended = min(since.values(), default=situation.now)
    stays = all(job.leaving for job in situation.running)
    if stays and situation.now - ended > situation.limits.completing_for:
        job = situation.newest
        held = f"job {job.id} has ended, but has held its nodes for {situation.ago(ended)}"
        told = warning(held).saying(
            f"job {job.id} is {job.state}{on_nodes(job.nodes)}",
            advice=[Advice(f"Ask the cluster's administrators to look at {job.nodes or 'its nodes'}.")],
        )
        return told.of_kind("leaving").dated(ended)
    newest = situation.newest
    what = "started" if history.late else "runs again"
    return ok(situation.running_line()).ending(what, f"{situation.noun} {newest.id}")


def _resumed(situation: RunSituation, job: Job) -> tuple[Advice, ...]:
    """Return what lets a suspended job go on: of Slurm's and PBS's jobs the administrators alone may."""
    alone = "To let it go on" if situation.process else "Ask the cluster's administrators to do this"
    return situation.advice(alone, "resume", job)


def _waiting(situation: RunSituation, history: JobHistory) -> Result:
    """Judge whether waiting jobs will ever start, if nothing runs."""
    able = [job for job in situation.waiting if reason_of(job).wait is Wait.PASSES]
    if not able:
        return _never(situation, history)
    job = min(able, key=lambda job: job.start_estimate or float("inf"))
    estimate, reason = job.start_estimate, f" ({job.reason})" if job.reason else ""
    if estimate is not None and situation.now - estimate > situation.limits.estimate_late:
        late = warning(f"not started yet, {situation.ago(estimate)} later than estimated{reason}").saying(
            f"job {job.id} was to start at {local_time(estimate)}",
            advice=situation.advice("To see the present estimate", "estimate", job),
        )
        return late.of_kind("late").dated(estimate)
    soon = f", starts in about {age(estimate - situation.now)}" if estimate else ", no estimate of its start"
    since = f" for {situation.ago(job.submitted_at)}" if job.submitted_at else ""
    waits = ok(f"nothing runs, job {job.id} waits{since}{reason}{soon}")
    return waits.ending("queued" if history.late else "queued again", f"job {job.id} waits{reason}")


def _never(situation: RunSituation, history: JobHistory) -> Result:
    """Report that no waiting job will start by itself.

    A hold by its user is a way to pause, and what a crash loop asks for; everything else is a fault.
    """
    first, *others = sorted(situation.waiting, key=lambda job: reason_of(job).wait is Wait.HELD)
    reason = reason_of(first)
    say, line = critical, f"never starts: {reason.why}"
    if reason.wait is Wait.HELD:
        say, line = ok if history.crashes_reported else warning, f"{reason.why}, waits until it is released"
    stuck = [f"{describe_stuck(job)} ({job.reason or job.state}, {job.user})" for job in (first, *others)]
    never = say(line).saying(*stuck, advice=map(fix_of, (first, *others)))
    return never.of_kind("never starts")


def _under_switch(situation: RunSituation, history: JobHistory, pressed: KillSwitch) -> Result:
    """Report live jobs under a set kill switch: they obey, they do not, or they wait in vain."""
    ago = situation.ago(pressed.set_at)
    late = [job for job in situation.running if _disobeys(situation, pressed, job)]
    if late:
        line = f"still runs {ago} after its kill switch was {_used(pressed)}{by_whom(pressed)}"
        told = critical(line).saying(
            *(f"{situation.noun} {job.id} of {job.user}{on_nodes(job.nodes)}" for job in late),
            advice=[
                each
                for job in late
                for each in situation.advice("To end it without the switch", "end", job, "cancel")
            ],
        )
        return told.of_kind(DISOBEYS).dated(pressed.set_at)
    if situation.running:
        line = f"{situation.running_line()}, stop requested {ago} ago{by_whom(pressed)}"
        return ok(line).ending("runs again", f"{situation.noun} {situation.newest.id}, which is to stop")
    count = sum(job.tasks for job in situation.waiting)
    left = f"{jobs_are(count)} waiting: each will stop as it starts"
    cleared = _cleared(situation, pressed, f"To let {_the_jobs(count)} run:")
    if history.stopped:
        line = f"{stopped_by(pressed)}; {jobs_are(count)} waiting"
        return warning(line).saying(left, advice=cleared).of_kind(STOPPED).dated(pressed.set_at)
    if situation.now - pressed.set_at > situation.limits.obey_within:
        line = f"kill switch left set for {ago} in front of {count} waiting job{'s' if count != 1 else ''}"
        told = warning(line).saying(left, f"{_used(pressed)}{by_whom(pressed)}", advice=cleared)
        return told.of_kind(SWITCH_LEFT).dated(pressed.set_at)
    line = f"nothing runs, {jobs_are(count)} waiting, kill switch set {ago} ago{by_whom(pressed)}"
    return ok(line).ending("queued again", f"{jobs_are(count)} waiting, which are to stop")


def _the_jobs(count: int) -> str:
    return "the waiting job" if count == 1 else f"the {count} waiting jobs"


def _cleared(situation: RunSituation, pressed: KillSwitch, sentence: str) -> tuple[Advice, ...]:
    """Return what to do about a switch that is set: nothing, if a person meant it, and how to clear it."""
    meant = f"Nothing, if {pressed.by or 'whoever set the switch'} meant it."
    if pressed.automatic:
        meant = "Correct first what watchdogd pressed it for, or that comes again."
    return (
        Advice(meant),
        Advice(sentence, f"watchdogd kill-switch {shlex.quote(situation.run.name)} --clear"),
    )


def _used(pressed: KillSwitch) -> str:
    return "pressed" if pressed.automatic else "set"


def _disobeys(situation: RunSituation, pressed: KillSwitch, job: Job) -> bool:
    """Return True if it has run for too long with the switch set."""
    since = max(pressed.set_at, job.started_at or 0.0)
    return situation.now - since > situation.limits.obey_within and not job.leaving


_UNCERTAIN = frozenset({"PREEMPTED", "REVOKED"})
"""Ends after which Slurm may requeue the job under the same id a while later, or which a job has here because
another cluster of the federation took it. After a node failure a job is requeued at once or never."""
HIDING = {
    "slurm": "PrivateData=jobs of this cluster hides the jobs",
    "pbs": "query_other_jobs=False of this server hides the jobs",
    "process": "hidepid of this machine's /proc hides the processes",
}
"""Backend → what may hide other users' jobs from us."""
_SHOWN = 3


def missing_verdict(situation: RunSituation, history: JobHistory) -> Result:
    """Judge a run with nothing in the queue, in one result."""
    theirs = situation.uncounted
    if situation.switch is not None and (history.stopped or history.seen_at is None):
        since = f"kill switch {_used(situation.switch)} at {local_time(situation.switch.set_at)}"
        again = "To let it run again:" if situation.process else "To let its next jobs run:"
        cleared = _cleared(situation, situation.switch, again)
        stop = warning(stopped_by(situation.switch)).saying(since, advice=cleared)
        stop = stop.dated(situation.switch.set_at)
        return _beside(stop, situation, "but ").saying(*_last_lines(history)).of_kind(STOPPED)
    if history.resting and not theirs:
        rests = Result(Status.OK, f"the kill switch is cleared; {UNWATCHED}", quiet=True)
        return rests.ending("kill switch cleared", UNWATCHED, timed=False, recovered=False)
    if theirs and (history.resting or _goes_on(situation, history)):
        return _not_counted(situation)
    looked_at = situation.snapshot.taken_at
    absent_for = looked_at - (history.absent_since or looked_at)
    if history.last is None and history.seen_at is None:
        return _never_seen(situation, history, absent_for)
    if not (_agreed(history) or history.gone) and absent_for < situation.limits.absent_after:
        after = age(situation.limits.absent_after)
        missing, left = "out of the queue", "left the queue"
        if situation.process:
            missing, left = "not seen", "was not seen any more"
        line = f"{missing} for {age(absent_for)}, gone if it stays so for {after}"
        doubt = situation.snapshot.endings_trouble
        known_bad = history.faults >= 2  # what was wrong ends with how its job ended, which is soon known
        say = unknown if known_bad else ok
        told = replace(say(line), quiet=known_bad).saying(
            f"not known how it ended ({doubt})" if doubt else ""
        )
        return told.ending(f"its {situation.noun} {left}", recovered=False)
    return _beside(_gone(situation, history).of_kind("gone"), situation)


def _not_counted(situation: RunSituation) -> Result:
    """Report that jobs of its name are alive, but of users whose jobs do not count."""
    user = min(job.user for job in situation.uncounted)
    told = warning(f"a {situation.noun} of this name runs as {user}, who is not listed under user")
    return _beside(told, situation).of_kind("not counted")


def _beside(told: Result, situation: RunSituation, but: str = "") -> Result:
    """Return the result with the live jobs of its name that do not count, and a line about them."""
    if not situation.uncounted:
        return told
    user = min(job.user for job in situation.uncounted)
    fix = f'If it is the run\'s, write user = "{user}" under [runs.{situation.run.name}] in config.toml.'
    return told.saying(f"{but}{uncounted_jobs(situation)}", advice=[Advice(fix)])


def _goes_on(situation: RunSituation, history: JobHistory) -> bool:
    """Return True if a job that does not count is the very one that counted when last seen.

    Somebody else may watch now, or other users may be configured.
    """
    known = {*history.observed, *history.lost}
    seen_at = history.seen_at or 0.0
    before = [job for job in situation.uncounted if (job.started_at or situation.now) <= seen_at]
    return any(job.raw_id in known for job in situation.uncounted) or bool(before and not _agreed(history))


def _agreed(history: JobHistory) -> bool:
    """Return True if a second source says that all jobs which were alive are over for good."""
    return not history.lost and history.last is not None and history.last.state not in _UNCERTAIN


def _never_seen(situation: RunSituation, history: JobHistory, absent_for: float) -> Result:
    run, snapshot = situation.run, situation.snapshot
    users = ", ".join(sorted(run.users or snapshot.users))
    what = f"job named '{run.job_name}'" + (f" of {users}" if users else "")
    if situation.process:
        what = f"process of its {'pid_file' if run.pid_file else 'command'}"
    if situation.uncounted:
        return _not_counted(situation)
    if absent_for < situation.limits.unseen_after:
        return (
            unknown(f"no {what} was seen, it may be hidden").saying(
                hidden_jobs(situation), advice=[Advice(_searched(situation)), _SEE]
            )
            if hidden_jobs(situation)
            else ok(f"no {what} was seen yet").ending("its jobs are not hidden any more", "none was seen yet")
        )
    ended = [end for end in ended_jobs(run, snapshot, ()) if end.over]
    if ended:
        return _ended_before(situation, history, ended[-1])
    never = warning(f"never seen alive in {situation.ago(history.watched_since)}: no {what}").saying(
        "" if situation.process else snapshot.endings_trouble,
        hidden_jobs(situation),
        f"looked for: {run.pid_file or run.command}" if situation.process else "",
        advice=[Advice(_searched(situation))],
    )
    return never.of_kind("never seen").dated(history.watched_since)


def _ended_before(situation: RunSituation, history: JobHistory, last: Ending) -> Result:
    """Report a run of which no job was seen alive, whose last one had ended before it was watched."""
    line = f"{_how_far(situation, last)}, nothing is queued"
    finish, again = _finish(situation.run, done=last.well), _submitted(situation, last.raw_id)
    told = warning(line).saying(
        f"{describe_end(last)}, before this run was watched",
        f"watched from {local_time(history.watched_since)} on, no job of it was seen alive",
        advice=[finish, again] if last.well else [again, finish],
    )
    return told.of_kind("never seen").dated(last.ended_at or history.watched_since)


def _how_far(situation: RunSituation, last: Ending) -> str:
    """Return how the last job ended; if it ended well, with how far the run is."""
    far, ended = situation.run.progress, fate(last, PostMortem())
    if not last.well or far is None or far.done is None:
        return ended
    total = f"/{far.total:,.10g}" if far.total else ""
    return f"{ended}, at {f'{far.unit} ' if far.unit else ''}{far.done:,.10g}{total}"


def _finish(run: Run, *, done: bool = False) -> Advice:
    """Return how to end the watch over a run that is over; `done`: its last job ended well."""
    more = "If it is not to run again:" if run.backend == "process" else "If no more jobs of it are to come:"
    return Advice("If training is complete:" if done else more, f"watchdogd finish {shlex.quote(run.name)}")


_SEE = Advice("Or let somebody watch who may see it; to test that:", "watchdogd doctor")


def _searched(situation: RunSituation) -> str:
    """Return what to correct if no job of the run is ever found."""
    keys = "pid_file or command" if situation.process else "job_name or user"
    return f"Start it, or correct {keys} under [runs.{situation.run.name}] in config.toml."


def uncounted_jobs(situation: RunSituation) -> str:
    """Return whose live jobs with the run's name do not count."""
    found = situation.uncounted
    which = ", ".join(f"{job.id} of {job.user}" for job in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    several = len(found) > 1
    plural = ("es" if situation.process else "s") if several else ""
    what = f"{situation.noun}{plural} {which}{more}"
    return f"{what} {'have' if several else 'has'} its name, and {'do' if several else 'does'} not count"


def hidden_jobs(situation: RunSituation) -> str:
    """Return why other users' jobs cannot be seen, if no user is configured; else empty."""
    if not situation.snapshot.veiled or situation.run.users:
        return ""
    return f"{HIDING[situation.snapshot.backend]} of other users"


def _gone(situation: RunSituation, history: JobHistory) -> Result:
    """Report how it is gone. Whoever cancelled its last job does not want another one in its place."""
    last = history.last
    finish = _finish(situation.run, done=last is not None and last.well)
    found = _lost_post_mortem(history)
    gone = _lost(situation, history, found).dated(_lost_at(history))
    if situation.process:
        told = gone.saying(_lost_line(situation, history), *found.facts)
        return told.saying(advice=[*_restart(found, Advice("Start it again.")), finish]).triggers("on_gone")
    if last is None or any(seen_job.ran for seen_job in history.lost.values()):
        doubt = situation.snapshot.endings_trouble or "accounting has no end of it"
        known = found.cause or history.deed
        gone = gone if known else replace(gone, summary=f"{gone.summary}, not known how it ended")
        facts = (_lost_line(situation, history), doubt, *found.facts, *_last_lines(history))
        ids = () if situation.snapshot.endings_trouble else tuple(history.lost)
        again = _submitted(situation, ids[-1] if ids else "")
        advice = (*_restart(found, again), finish)
        return gone.saying(*facts, advice=advice).triggers("on_gone")
    again = _submitted(situation, last.raw_id)
    if last.well:
        far = situation.run.progress
        short = far is not None and far.done is not None and far.total is not None and far.done < far.total
        line = f"{_how_far(situation, last)}, nothing is queued"
        told = warning(line).saying(
            *_last_lines(history), advice=[again, finish] if short else [finish, again]
        )
        return told if last.ended_at is None else told.dated(last.ended_at)
    found = history.post_mortem_at(last)
    facts = ("nothing else runs or waits", *found.facts, *_last_lines(history))
    if history.deed or last.cancelled_by:
        say = warning if history.deed or last.cancelled_by_owner else critical
        meant = [Advice(f"Nothing, if {last.cancelled_by} meant it.")] if last.cancelled_by_owner else []
        first = _restart(found, again) if history.deed else (*meant, again)
        told = say(fate(last, found, history.deed)).saying(*facts, advice=[*first, finish])
        return told if last.ended_at is None else told.dated(last.ended_at)
    doubt = "" if last.complete else situation.snapshot.endings_trouble or "accounting has no end of it"
    unsure = f"not known who cancelled it: {doubt}" if doubt and last.state == "CANCELLED" else ""
    told = critical(fate(last, found)).saying(unsure, *facts, advice=[*_restart(found, again), finish])
    gone = accusing(
        told if last.ended_at is None else told.dated(last.ended_at), last, found, situation.snapshot.backend
    )
    return gone.triggers("on_gone")


def _lost(situation: RunSituation, history: JobHistory, found: PostMortem) -> Result:
    """Report a run that is gone and whose end nobody recorded: by whom, after what, by which cause."""
    lost = max(history.lost.values(), key=lambda each: each.ran, default=None)
    if history.deed:
        why = why_cancelled(found, history.deed)
        return warning(f"ended by watchdogd (cancel, incident {history.deed.incident}){why}")
    because = f": {found.cause}" if found.cause else ""
    ago = because or f", last seen {situation.ago(_lost_at(history))} ago"
    if lost and lost.stalled_at is not None:  # it did not run into an error, whoever ended it
        return critical(f"gone after a stall of {age(max(lost.seen_at - lost.stalled_at, 0.0))}{ago}")
    return critical(f"crashed{because}" if because else f"gone{ago}")


def _submitted(situation: RunSituation, raw_id: str) -> Advice:
    """Return advice to submit it again, with the command that shows how the last job was submitted."""
    if situation.snapshot.backend != "slurm" or not raw_id or situation.snapshot.endings_trouble:
        return Advice("Submit it again.", action="resubmit")
    return submitted_as(raw_id)


def _restart(found: PostMortem, again: Advice) -> tuple[Advice, ...]:
    """Return how to start it again, after fixing what would only happen again."""
    fixes = first_fixes(found.kind)
    if fixes and not again.command:
        again = replace(again, sentence=f"Then {again.sentence[0].lower()}{again.sentence[1:]}")
    return (*fixes, again)


def _lost_at(history: JobHistory) -> float:
    """Return when something of it was last seen."""
    lost = max(history.lost.values(), key=lambda each: each.ran, default=None)
    return lost.seen_at if lost else history.seen_at or history.watched_since


def _lost_line(situation: RunSituation, history: JobHistory) -> str:
    last = max(history.lost.values(), key=lambda each: each.ran, default=None)
    return f"it was {situation.noun} {last.id}{on_nodes(last.nodes)}" if last else ""


def _lost_post_mortem(history: JobHistory) -> PostMortem:
    """Return the post-mortem of the job that vanished without a known end."""
    observed = [seen_job for seen_job in history.lost.values() if seen_job.ran]
    return history.post_mortems.get(observed[-1].key, PostMortem()) if observed else PostMortem()


def _last_lines(history: JobHistory) -> list[str]:
    """Return the last ends, first the one to report, then the newest first."""
    last = history.last
    others = [end for end in reversed(history.ends) if end is not last]
    first = [] if last is None else [describe_end(last, history.deed)]
    return [*first, *map(describe_end, others[:4])]


QUEUE = "queue"
"""Subject of problems behind a running job."""


def queue_verdicts(situation: RunSituation, history: JobHistory) -> list[Result]:
    """Judge the queue in a result of its own, from the first time on that something is wrong."""
    if not situation.running:
        return empty_queue(history)
    stuck = [job for job in situation.waiting if reason_of(job).wait is not Wait.PASSES]
    problems = [f"behind the running one {describe_stuck(job)}" for job in stuck]
    wanted, left = situation.limits.min_queued, situation.time_left
    behind = f"{jobs_are(situation.queued)} waiting behind the running one"
    advice = [*map(fix_of, stuck)]
    submit = _next(situation, "Submit the next job")
    if wanted is not None and situation.queued < wanted:
        problems.append(f"{behind}, {wanted} wanted")
        more = wanted - situation.queued
        advice.append(submit if more == 1 else _next(situation, f"Submit {more} more jobs"))
    ends = left is not None and left < _near_end(situation)
    if left is not None and ends and not situation.queued and not _comes_again(situation, history):
        problems.append(f"job {_last(situation).id} ends in {age(left)}, and nothing waits behind it")
        if wanted is None:
            advice.append(submit)
    if problems:
        queue = warning(problems[0], subject=QUEUE)
        return [queue.saying(*problems[1:], advice=advice)]
    return [ok(behind, subject=QUEUE).ending(behind, timed=False)] if history.queue_reported else []


def _last(situation: RunSituation) -> Job:
    """Return the running job that reaches its time limit last."""
    return max(situation.running, key=lambda job: job.ends_at or 0.0)


def _next(situation: RunSituation, what: str) -> Advice:
    """Return advice to submit a further job, with the command that shows how the last one was submitted."""
    job = situation.newest
    if situation.snapshot.backend != "slurm" or situation.snapshot.endings_trouble:
        return Advice(f"{what}.")
    return Advice(f"{what}; this shows how job {job.id} was submitted:", submitted_as(job.raw_id).command)


def _comes_again(situation: RunSituation, history: JobHistory) -> bool:
    """Return True if a running job ended well before and came back under its id, as with scrontab."""
    running = {job.raw_id for job in situation.running}
    return any(end.well and end.raw_id in running for end in history.tries)


def empty_queue(history: JobHistory) -> list[Result]:
    """End the queue's incident without a message, since the result about the run explains it."""
    nothing = Result(Status.OK, "nothing runs", subject=QUEUE, quiet=True)
    ended = nothing.ending("its jobs ended", recovered=False)
    return [ended] if history.queue_reported else []


def _near_end(situation: RunSituation) -> float:
    """Return how many seconds of time left count as near the end of a job."""
    limits = [job.time_limit for job in situation.running if job.time_limit]
    return min([situation.limits.walltime_left, *(limit / 10 for limit in limits)])
