"""job_liveness: is the run's job alive, will a waiting one ever start, and how did the last one end.

Slurm is asked once a round for all runs together. A run is identified by its job name and its users, so array
tasks, requeues and dependency chains are one run.

**Running** is fine; being suspended, or completing for too long, is reported; of a stopped plain process with
a log, log_staleness reports it once the log stalls. **Waiting** is fine as long as it can end: a reason that
does not pass by itself (a dependency that can never be satisfied, a hold, a limit of the partition or the
account) is reported with the command that fixes it. A job held by its user is one WARNING with the command
that releases it, since that is how people pause a run.

A run is **gone** only if a second source (sacct, scontrol) agrees, or after `absent_after`. The message then
says how it ended, who cancelled it, and why: the cause is searched at the end of the run's log and of the
job's own StdOut and StdErr. A job that its owner cancelled, running or waiting, or that ended well with
nothing queued behind it, is a WARNING; any other end is CRITICAL. A node failure that accounting knows is
reported at once. A controller that does not answer or answers with nothing, and accounting that lags behind,
are UNKNOWN, never "gone".

A task that fails and is replaced by the next one is a notice, reported once. Jobs that end within minutes,
one after another, or one job that is requeued as quickly again and again, are a crash loop, reported before
the whole array is burnt. Also reported: a kill switch that nobody obeys, or that is still set while jobs
wait; and the end of the walltime with nothing queued behind it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import stat
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.batch.run_models import state_of
from watchdogd.checks.node_checks import ASK_SLURM
from watchdogd.home import touchfile
from watchdogd.plugin import (
    CANCELLED,
    STOPPED,
    Advice,
    Column,
    Duration,
    Metric,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    notice,
    unknown,
)
from watchdogd.plugins.job_liveness import postmortem, run_verdicts
from watchdogd.plugins.job_liveness.job_history import (
    JobHistory,
    KillSwitch,
    add_post_mortems,
    advance,
    begin_round,
    ended_jobs,
    job_name_of,
    living_jobs,
    note_deed,
)
from watchdogd.plugins.job_liveness.liveness_wording import LivenessLimits, RunSituation, jobs_are
from watchdogd.plugins.job_liveness.restarts import (
    CRASHES,
    burnt,
    crash_loop,
    lost_jobs,
    no_crash_loop,
    restarts,
)
from watchdogd.plugins.job_liveness.run_verdicts import (
    HIDING,
    QUEUE,
    empty_queue,
    missing_verdict,
    queue_verdicts,
)

if TYPE_CHECKING:
    from watchdogd.plugins.job_liveness.job_history import PostMortemOf


def kill_switch(*places: str) -> KillSwitch | None:
    """Return the kill switch, from the first of its places in which it is set, or None.

    One that cannot be read counts as set. A folder does not count: it is a mistake in config.toml, and no
    Guard stops for it.
    """
    touches = []
    for path in filter(None, places):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.stat(path).st_mode):
                touches.append(touchfile.read(path))
    first = min(touches, key=lambda touch: touch.time, default=None)
    return None if first is None else KillSwitch(first.time, first.who, first.reason, first.automatic)


@check(
    watches="run",
    jobs=True,
    evidence=("log_staleness",),
    triggers=("on_gone", "on_crash_loop"),
    columns=(Column("job ends", right=True, time="until", order=30),),
    charts=(),
)
def job_liveness(
    run: Run,
    snapshot: Snapshot | None,
    state: JobHistory | None,
    now: float,
    absent_after: Duration | None = None,
    min_queued: int | None = None,
    obey_within: Duration = 900.0,
    estimate_late: Duration = 3600.0,
    completing_for: Duration = 900.0,
    crash_within: Duration = 600.0,
    crashes: int = 3,
    walltime_left: Duration = 3600.0,
    log: str = "",
    checkpoints: str = "",
    written: tuple[str, ...] = (),
) -> Iterator[Result | JobHistory]:
    """Whether the run is running, waiting, waiting for ever, or gone, and how it ended.

    absent_after: how long a job must be out of the queue before it counts as gone without a second source;
        default: 2m, for plain processes at once
    min_queued: further jobs that should be waiting behind the running one
    obey_within: how long a job may go on after its kill switch was set
    estimate_late: how far the estimate of a waiting job's start may lie in the past
    completing_for: how long a job may be COMPLETING
    crash_within: a job that fails sooner than this after its start has crashed
    crashes: how many crashes in a row are a crash loop
    walltime_left: a further job should be queued once less time than this is left; at most a tenth of
        the job's own time limit
    log: pattern of the run's logs, whose last lines tell why a job ended
    checkpoints: pattern of its checkpoints: the work since the newest one is lost if a job ends badly
    written: files that watchdogd writes (pulses, status logs), which are never the run's log
    """
    if snapshot is None:
        where = "no Slurm is here" if run.backend == "none" else f"{run.backend} cannot be asked from here"
        fix = Advice("Set pid_file or command under the run in config.toml.")
        yield _unseen(f"{where}, job state not known").saying(advice=[fix])
        return
    limits = LivenessLimits(
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

    process = snapshot.backend == "process"
    post_mortem_of = partial(
        postmortem.post_mortem, log=log, checkpoints=checkpoints, written=written, process=process
    )
    pressed = kill_switch(run.kill_switch, run.home_kill_switch)
    history, results = judge(run, snapshot, begin_round(state, now), pressed, limits, post_mortem_of, now)
    if process and log and results[0].kind == "suspended":
        results[0] = dataclasses.replace(results[0], status=Status.OK, advice=())
    yield history
    yield from results


def _absent_after(configured: float | None, snapshot: Snapshot) -> float:
    """Return 0 for a process, since no controller stands between: it is gone if it is not there."""
    if configured is not None:
        return configured
    return 0.0 if snapshot.backend == "process" else 120.0


def judge(
    run: Run,
    snapshot: Snapshot,
    history: JobHistory,
    pressed: KillSwitch | None,
    limits: LivenessLimits,
    post_mortem_of: PostMortemOf,
    now: float,
) -> tuple[JobHistory, list[Result]]:
    """Return the next state and the results, the run itself first. Pure except for `post_mortem_of`."""
    trouble = _trouble(run, snapshot, history)
    if trouble:
        ask = ASK_SLURM if snapshot.jobs is None and snapshot.backend == "slurm" else ()
        return history, [_unseen(trouble).saying(advice=ask)]
    jobs = living_jobs(run, snapshot, history)
    endings = ended_jobs(run, snapshot, jobs)
    history = advance(
        history,
        jobs,
        endings,
        pressed,
        attempts=snapshot.attempts,
        stalled_at=_stalled_at(run, now),
        looked_at=snapshot.taken_at,
        now=now,
    )
    history = note_deed(history, run)
    history = add_post_mortems(history, post_mortem_of, absent_after=limits.absent_after, now=now)
    situation = RunSituation(run, snapshot, jobs, pressed, limits, now)
    if run.finished:
        history, results = _finished(situation, history)
    elif jobs:
        history, results = _present(situation, history)
    else:
        history, results = _absent(situation, history)
    results[0] = _counted(results[0], situation, history)
    status = results[0].status
    if status is not Status.UNKNOWN:
        good = status is Status.OK
        faults = 0 if good else history.faults + 1
        history = dataclasses.replace(history, faults=faults, late=history.late and good)
    return history, results


def _stalled_at(run: Run, now: float) -> float | None:
    """Return since when the run has made no progress, as its other checks know, if it should make some."""
    if run.progress is None or not run.progress.stalled:
        return None
    return now if run.progress.at is None else run.progress.at


def _counted(result: Result, situation: RunSituation, history: JobHistory) -> Result:
    """Add the run's jobs, in numbers and in a word, to the result about the run."""
    metrics, left = _metrics(situation), situation.time_left
    numbers = {name: metric.value for name, metric in metrics.items()}
    by = history.deed or (history.last and history.last.cancelled_by)
    cancelled = result.kind == "gone" and by
    wrong = result.status is Status.CRITICAL or bool(cancelled)
    state = state_of(numbers, stalled=False, wrong=wrong)
    state = "finished" if situation.run.finished else state
    return dataclasses.replace(
        result,
        metrics=metrics,
        run_state="?" if result.status is Status.UNKNOWN else state,
        kind=CANCELLED if cancelled else result.kind,
        cells={} if left is None else {"job ends": situation.now + left},
    )


def _unseen(why: str) -> Result:
    """Report that the run's state is not known."""
    return dataclasses.replace(unknown(why), run_state="?")


def _trouble(run: Run, snapshot: Snapshot, history: JobHistory) -> str:
    """Return why the run's state is not known, or empty."""
    if snapshot.jobs is None:
        return f"{snapshot.trouble}, job state not known"
    for job in snapshot.jobs:
        if job.state == "UNKNOWN" and job.name == run.name:
            return f"{job.reason}, job state not known"
    if snapshot.of(job_name_of(run, snapshot)):
        return ""
    counted = run.users or snapshot.users
    ended = {end.raw_id for end in snapshot.endings or () if end.over}
    before = {*history.observed.items(), *history.lost.items()}  # they were visible to whoever watched then
    unaccounted = {seen_job.user for raw_id, seen_job in before if raw_id not in ended}
    hidden = snapshot.hidden & counted if history.seen_at is None or unaccounted else frozenset[str]()
    if snapshot.veiled:
        hidden |= unaccounted - counted - {""}
    if not hidden:
        return ""
    who = ", ".join(sorted(hidden))
    return f"{HIDING[snapshot.backend]} of {who}, job state not known"


def _metrics(situation: RunSituation) -> dict[str, Metric]:
    """Count the run's jobs by what they do.

    Jobs with nodes are `running`; counted apart, if there are any: those of them that do nothing, by reason;
    waiting jobs that will not start by themselves (`held`); and, if none of its own jobs is there, jobs of
    its name that do not count.
    """
    metrics = {"running": Metric(len(situation.running)), "waiting": Metric(situation.queued)}
    metrics |= {name: Metric(count) for name, count in situation.idle.items()}
    if held := sum(job.tasks for job in situation.waiting) - situation.queued:
        metrics["held"] = Metric(held)
    if situation.uncounted and not situation.jobs:
        metrics["elsewhere"] = Metric(len(situation.uncounted))
    left = situation.time_left
    return metrics if left is None else {**metrics, "time_left": Metric(left, "s")}


def _finished(situation: RunSituation, history: JobHistory) -> tuple[JobHistory, list[Result]]:
    """End a run that is marked as finished: reported once, and not expected any more."""
    run, jobs = situation.run, situation.jobs
    line = f"marked finished by {run.finished}"
    finished = Result(Status.OK, line, quiet=True).ending(line, timed=False)
    results = [finished, *empty_queue(history), *no_crash_loop(history)]
    if not history.finished:
        left = f"{jobs_are(sum(job.tasks for job in jobs))} still in the queue" if jobs else ""
        left = f"still there: {situation.running_line()}" if situation.running else left
        undo = Advice("To watch it again:", f"watchdogd finish {shlex.quote(run.name)} --clear")
        results.append(notice(line).saying(left, "no more is expected of it", advice=[undo]))
    return dataclasses.replace(history, finished=run.finished, unreported=(), gone=0), results


# ------------------------------------------------------------------ in the queue, or out of it


def _present(situation: RunSituation, history: JobHistory) -> tuple[JobHistory, list[Result]]:
    results = [run_verdicts.running_verdict(situation, history)]
    if situation.switch is None:
        results += [
            *queue_verdicts(situation, history),
            *crash_loop(situation, history),
            *restarts(situation, history),
        ]
    else:
        results += [*empty_queue(history), *no_crash_loop(history)]
    said = {result.subject for result in results}
    lost = {
        raw_id: seen_job
        for raw_id, seen_job in history.lost.items()
        if raw_id not in lost_jobs(situation, history)
    }
    history = dataclasses.replace(
        history,
        lost=lost,
        unreported=(),
        gone=0,
        finished="",
        queue_reported=history.queue_reported or QUEUE in said,
        crashes_reported=history.crashes_reported or CRASHES in said,
    )
    return history, results


def _absent(situation: RunSituation, history: JobHistory) -> tuple[JobHistory, list[Result]]:
    result = burnt(missing_verdict(situation, history), situation, history)
    gone = history.gone + 1 if result.status in (Status.WARNING, Status.CRITICAL) else 0
    obeyed = result.kind == STOPPED or history.resting  # how it ended does not matter
    lost = {} if obeyed else history.lost
    history = dataclasses.replace(history, gone=gone, finished="", lost=lost)
    return history, [result, *empty_queue(history), *no_crash_loop(history)]
