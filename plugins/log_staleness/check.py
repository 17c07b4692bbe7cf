"""log_staleness: does the run write, does its progress number grow, and is its loss a number.

From outside, a hang looks like work: the queue says RUNNING, the GPUs say 100 %. What stops is the log. So
the log is followed: the newest of all matching files, through rotation, truncation and links. Only new bytes
are read, except from small files, which may be rewritten in place.

**Stale** means not one byte for `stale_after`; **stuck** means bytes without progress: repeated warnings, a
progress bar that does not move, dots and spinners of a program that waits. Progress is detected, not
configured: a number that rises again and again is a clock of the run, whatever the line looks like: a step, a
batch within an epoch, a simulated time. A number that rises with the wall clock is none. Nor is one that
counts as regularly as a waiting program does, if any other number says more. Heartbeats of the Guard count as
progress.

With `stale_after = "auto"` the limit comes from the run's own past. A silence may last three times as long as
earlier silences after such a line, or twice as long if there were several: a save takes as long as saves
took, a step as long as steps took. A long time without progress is allowed again only after the line that
began it before. The first silence after a new kind of line may last half an hour, the second half of that.
Before the rhythm is known, and for counts that a waiting program may write, the limit is half an hour too.
Known pauses are kept across restarts. No word in the log makes the check wait longer, except those that you
configure (`quiet`), with an allowance of their own; the message says which limit applied. While the job waits
or is suspended, nothing is judged; a plain process that is stopped is stalled. After the last step
(`900/900`) a run may be silent for as long as it took to get there, at least half an hour and at most two
hours; then a WARNING says so: it is no hang.

An evaluation that nothing announces looks like a silence after a step: its length is known once it has been
seen. If the first one is reported, a log line before it ("evaluating") helps as much as setting
`stale_after`.

If the log alone would be reported, signs of work from other checks hold that back: growing checkpoints, and
GPUs at the power that they draw at work, for two hours at most (then it is a WARNING); without GPUs,
processors as busy as ever, for as long again as the limit. Signs against work do not shorten the limit; they
are mentioned.

A program that buffers its output writes in blocks of kilobytes, perhaps hours apart. Once a log grows only in
whole blocks, an hour, or three times the longest pause between two blocks, is no hang, and messages say how
to switch the buffering off (`python -u`).

A run with a Guard needs no log: its heartbeats report step and loss. If a job that hung ends or is requeued,
that is reported as its end, not as a recovery; once the next job makes progress, as that job's progress, with
the number that the one before had reached.

A loss that stays NaN or infinite is CRITICAL; a best or lowest loss printed beside it does not clear that. A
loss that rises out of its usual range and stays there is a WARNING, unless it is around zero or belongs to a
policy; the more its values scatter, and the longer it has been above its best by chance before, the longer
and higher the rise must be. A throughput far below its own median for the same work is a WARNING too. Spikes
that come back are not reported.

The end of the log is searched for causes: collective timeouts, out of memory, ECC and Xid errors, no space,
time limits. The message names the cause, with the rank or node in the line; for a broken connection the node
at its other end, ready for `--exclude`; and if many ranks write, the one that fell silent first. If no known
cause fits, the last line in the form of an error is quoted. If a program reports its own end, and nothing
more comes from it, five minutes are enough; one that retries, skips or continues has survived.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from watchdogd import units
from watchdogd.batch import commands
from watchdogd.batch.run_models import JobDeed
from watchdogd.checks.causes import explains, first_fixes
from watchdogd.checks.working_job import Working, as_owner, where, working
from watchdogd.plugin import (
    Advice,
    Chart,
    Column,
    Duration,
    Job,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    critical,
    ok,
    unknown,
)
from watchdogd.plugins.log_staleness import log_paths, log_wording, new_lines, sources
from watchdogd.plugins.log_staleness.advance import advance, heed, heed_clock
from watchdogd.plugins.log_staleness.explain import explain
from watchdogd.plugins.log_staleness.log_verdicts import judge
from watchdogd.plugins.log_staleness.new_lines import Wanted
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.plugins.log_staleness.sources import looked_up
from watchdogd.plugins.log_staleness.stall_verdict import Limits, Look
from watchdogd.probe.node_answers import stacks_can_be_taken
from watchdogd.system.smallfile import unanswered
from watchdogd.units import local_time


def _advised(result: Result, run: Run, job: Job, *, cause: str = "", stacks: bool = True) -> Result:
    """Add advice to what is wrong with a run that has a job.

    Stacks are offered if they can be taken (`stacks`), and if no kind of `cause` found in the log says more.
    """
    if result.status is Status.OK or result.kind in ("no log", "unmatched"):
        return result
    name, typed = shlex.quote(run.name), commands.of(run.backend)
    number = job.id if run.backend == "process" else job.handle
    lost = result.subject == "loss" and result.since is not None
    on = where(run.backend, job)
    ended = f"End it{on}" if run.backend == "process" else "Cancel it"
    before = f"{ended}, then restart from a checkpoint saved before {local_time(result.since or 0.0)}"
    ways = {"loss": before} if lost else {}
    ways |= {
        "must_not_see": f"To stop the run{on}, if the forbidden line means that it trains wrongly",
        "must_see": f"To stop the run{on}, if it trains wrongly without the line that must come",
    }
    stop = as_owner(ways.get(result.subject, f"To stop the run{on}"), job)
    end = Advice(stop, typed.end.format(id=number), "cancel")
    stall: tuple[Advice, ...] = ()
    if not job.working:
        at = f", on {job.nodes}" if job.nodes else ""
        stall = (Advice(f"To let it go on{at}:", typed.resume.format(id=number)),)
    elif explains(cause):
        stall = first_fixes(cause)
    elif stacks:
        stall = (Advice("To see where each process stands:", f"watchdogd stacks {name}", "stacks"),)
    helps = {
        "": stall,
        "loss": (end,),
        "throughput": (Advice("To see which GPUs are slow:", f"watchdogd gpus {name}"),),
        "skipped": (Advice("Check the loss scale; if the loss no longer falls, go back to a checkpoint."),),
        "must_not_see": (end,),
        "must_see": (end,),
        "unread": (Advice("To see whether the log's file system answers:", "watchdogd doctor"),),
    }[result.subject]
    more = []
    if result.trigger == "on_hang" and typed.requeue:
        more.append(Advice(as_owner("To restart it", job), typed.requeue.format(id=number), "requeue"))
    if result.kind == "over":
        more.append(end)
    elif result.trigger == "on_hang" and run.backend == "process" and job.working:
        more.append(Advice(as_owner(f"To end it{on}", job), typed.end.format(id=number), "cancel"))
    return result.saying(advice=[*helps, *more])


def _deed(run: Run | None, works: Working, log: RunLog, now: float) -> JobDeed | None:
    """Return by what watchdogd ended the job that was judged before, if none works now."""
    if run is None or run.finished or not works.excuse:
        return None
    found = (run.deed(action, log.job.work.begun, now, now) for action in ("cancel", "requeue"))
    return max(filter(None, found), key=lambda deed: deed.at, default=None)


def _unread_log(error: OSError) -> Advice:
    """Return advice for a log that cannot be read: its rights, its path, or its disk."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP):
        return Advice("Correct log under the run in config.toml, or ask its owner for access.")
    return Advice("Its disk may be failing: ask the cluster's administrators.")


def _rejudge(subject: str, measured: Mapping[str, float], parameters: Mapping[str, Any]) -> Result | None:
    """Judge the recorded silence by the present `stale_after`; nothing is learned anew."""
    usual = parameters["stale_after"]
    if subject or "age" not in measured or usual == "auto":
        return None
    age, limit = measured["age"], measured.get("allowed", usual)
    said = f"for {units.age(age)} (limit {units.age(limit)})"
    return critical(f"stalled {said}") if age >= limit else ok(f"nothing new {said}")


@check(
    follows=("job_liveness",),
    rejudge=_rejudge,
    explain=explain,
    watches="run",
    triggers=("on_hang", "on_spike"),
    columns=(
        Column("progress", order=10),
        Column("rate", right=True, order=20),
        Column("log", right=True, time="since", order=40),
    ),
    charts=(
        Chart("iteration_time", "progress a minute", group="Progress", rate=60.0),
        Chart("progress", "progress", group="Progress"),
        Chart("epoch", "epoch", group="Progress"),
        Chart("batch", "batch of the epoch", group="Progress"),
        Chart("loss", "loss", group="Progress"),
        Chart("age", "age of the log", "s", group="Progress"),
    ),
)
def log_staleness(
    run: Run | None,
    snapshot: Snapshot | None,
    state: RunLog,
    now: float,
    failed: int,
    log: str = "",
    stale_after: Duration | Literal["auto"] = "auto",
    progress: str | None = None,
    quiet: tuple[dict[str, Any], ...] = (),
    must_see: tuple[dict[str, Any], ...] = (),
    must_not_see: tuple[str, ...] = (),
    grace: Duration | None = None,
    written: tuple[str, ...] = (),
) -> Iterable[Result | RunLog]:
    """Log of the run grows, its progress number with it, and its loss is a number.

    log: path of the log, with wildcards; TensorBoard's event files, tables with a header (CSV), MLflow's
        metric files, trainer_state.json and other documents that are rewritten each time are read, too; all
        matching files count, the newest is shown; default: none, only the Guard's heartbeats count
    stale_after: silence that means a hang; auto learns it from the run's own rhythm
    progress: pattern whose first group is a number that must grow; default: such numbers are detected
    quiet: phases that may be silent for longer: `match`, a pattern, and `allow`, a duration
    must_see: lines that must come within a time of each job's start: `match` and `within`
    must_not_see: patterns of lines that must not come
    grace: how long a job may take to its first progress line; default: 30m, or stale_after if that is set
    written: files that watchdogd writes (pulses, status logs), which are never the run's log
    """
    wishes = Wanted(
        progress,
        new_lines.pairs("quiet", quiet, "allow"),
        new_lines.pairs("must_see", must_see, "within"),
        tuple(must_not_see),
    )
    works = working(run, snapshot)
    state = heed_clock(state, now)
    try:
        seen = sources.look(sources.Where(log, run, snapshot, written), works.job, state, now, failed)
    except OSError as error:
        result = unknown(f"its log cannot be read: {error.strerror}").saying(advice=[_unread_log(error)])
        result = result.saying(str(log_paths.refused(error, log)))
        return [advance(state, None, works, wishes, now), replace(result, unanswered=unanswered(error))]
    after = looked_up(advance(state, seen, works, wishes, now), works.job)
    after.signs = run.signs if run else ()
    after.stale_after = None if stale_after == "auto" else stale_after
    process = run is not None and run.backend == "process"
    look = Look(log, works, after, now, process=process, deed=_deed(run, works, after, now))
    main, *others = judge(look, Limits(stale_after, grace, progress), wishes)
    if run and works.job:
        cause = after.told.cause.cause.kind if after.told.cause else ""
        stacks = main.status is not Status.OK and (after.beats or stacks_can_be_taken(run, works.job))
        main, *others = (
            _advised(each, run, works.job, cause=cause, stacks=stacks) for each in (main, *others)
        )
    stalled = main.progress is not None and main.progress.stalled
    cells = log_wording.columns(main.metrics, log_wording.numbers(after), now, stalled=stalled)
    shown = replace(main, cells=cells)
    return [heed(after, works, main.status), shown, *others]
