"""log_staleness: does the run write, does its number grow, and is its loss a number.

A hang looks like work from outside: the queue says RUNNING, the GPUs say 100 %. What stops is the log,
so it is followed: the newest of all files that match, through rotation, truncation and links; only new
bytes are read.

**Stale** is no byte for `stale_after`, **stuck** is bytes without progress: warnings that repeat, a
progress bar that stands, dots and spinners of a program that waits. Progress is found, not known: a number
that rises again and again is a clock of the run, whatever the line looks like: a step, a batch within an
epoch, a simulated time. What goes as time does is none, nor what counts as regularly as something that waits
does, where anything says more. Heartbeats of the Guard count as progress.

With `stale_after = "auto"` the limit comes from the run's own past. A silence may be three times as long as
those that followed such a line before: a save takes as long as saves took, a step as long as steps took. The
first silence after a line of a new kind has half an hour, as has all that comes before the rhythm is known.
Known pauses are kept over restarts. Phases that may be silent for longer (`quiet`) have their own allowance,
and the message says which limit applied. While the job waits or is suspended, nothing is judged; after the
last step (`900/900`) a run may be silent for two hours.

A run with a Guard needs no log at all: its heartbeats tell step and loss. Where a job that hung ends, that is
said as such: it is no recovery.

A loss that stays NaN or infinite is CRITICAL; a best or lowest loss beside it clears nothing. One that leaves
its band upwards and stays there is a WARNING, unless it lies about zero or belongs to a policy; so is a
throughput far below its own median for the same work. Spikes that come back are not reported.

The end of the log is read for causes: collective timeouts, out of memory, ECC and Xid, no space, time
limits. The message names the cause, and the rank or node where it stands; of a connection that broke the node
at its other end, ready for `--exclude`; and where many ranks write, the one that fell silent first. After a
line in which a program says that it dies, and nothing more from it, five minutes are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from watchdogd.checks import beats, curves, obstacle, ownlog, silence, wanted
from watchdogd.checks.heartbeat import heed_guard, take_beat
from watchdogd.checks.logbook import follow_job, heed_clock, heed_gap, take_in
from watchdogd.checks.silence import Limits, Look
from watchdogd.checks.wanted import Wanted
from watchdogd.checks.working import Working, working
from watchdogd.logs.explain import explain
from watchdogd.logs.state import LogState
from watchdogd.plugin import Duration, Progress, Result, Run, Snapshot, Status, check, critical, ok, unknown
from watchdogd.readers import logtail
from watchdogd.system.unanswered import unanswered
from watchdogd.units import format_duration

SUBJECTS = {**curves.SUBJECTS, "forbidden": "must_not_see"}
"""What is judged beside the silence, by where it is remembered."""


def _rejudge(subject: str, measured: Mapping[str, float], parameters: Mapping[str, Any]) -> Result | None:
    """The recorded silence by the present `stale_after`; what is learned is not learned anew."""
    usual = parameters["stale_after"]
    if subject or "age" not in measured or usual == "auto":
        return None
    age, limit = measured["age"], measured.get("allowed", usual)
    said = f"nothing told for {format_duration(age)} (limit {format_duration(limit)})"
    return critical(f"silent: {said}") if age >= limit else ok(said)


@check(
    follows=("job_liveness",),
    rejudge=_rejudge,
    explain=explain,
    watches="run",
    triggers=("on_hang", "on_spike"),
)
def log_staleness(
    run: Run | None,
    snapshot: Snapshot | None,
    memory: dict[str, Any],
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
) -> Iterator[Result]:
    """Whether a run's log grows, its progress number grows with it, and its loss is a number.

    log: path of the log, with wildcards; event files of TensorBoard, CSV files with a header, MLflow's metric
        files and trainer_state.json are read, too; of several files all count, the newest is shown; left
        out: the heartbeats of the training's Guard alone tell of its progress
    stale_after: silence that means a hang; auto learns it from the run's own rhythm
    progress: pattern whose first group is a number that must grow; left out: what grows is found
    quiet: phases that may be silent for longer: match, a pattern, and allow, a duration
    must_see: lines that must come within a time of each job's start: match and within
    must_not_see: patterns that must not come
    grace: how long a job may take to its first progress line; left out: 30m, or stale_after where that is set
    written: files that watchdogd writes (pulses, status logs), which are never the run's log
    """
    wishes = Wanted(
        progress,
        wanted.pairs("quiet", quiet, "allow"),
        wanted.pairs("must_see", must_see, "within"),
        tuple(must_not_see),
        stale_after == "auto",
    )
    state = working(run, snapshot)
    memory["clocks"] = LogState.load(memory.get("clocks"))
    if failed:
        memory["left_out"] = {"times": memory.get("left_out", {}).get("times", 0) + failed, "now": True}
    limits = Limits(stale_after, grace, progress)
    try:
        yield from _results(log, state, run, snapshot, wishes, memory, now, limits, written)
    finally:
        memory["clocks"] = memory["clocks"].dump()


def _results(
    log: str,
    state: Working,
    run: Run | None,
    snapshot: Snapshot | None,
    wishes: Wanted,
    memory: dict[str, Any],
    now: float,
    limits: Limits,
    written: tuple[str, ...],
) -> Iterator[Result]:
    heed_clock(memory, now)
    heed_gap(memory, now)
    took_over = state.job is not None and follow_job(state.job, memory, now)
    try:
        found = ownlog.without_others(logtail.find(log, written), run, snapshot) if log else []
        _take_in(found, log, written, run, state, wishes, memory, now, took_over=took_over)
    except OSError as error:
        result = unknown(str(obstacle.refused(error, log)))
        yield replace(result, unanswered=unanswered(error))
        return
    begin = _begin(state, memory, now)
    if state.excuse:
        yield from _not_judged(state, memory)
        return
    if not log and "beat" not in memory and "beats" not in memory:
        yield ok("not judged: no log is configured, and no Guard has told its step")
        return
    yield _remembered(silence.judge(Look(log, state, memory, begin, now), limits), memory)
    report = memory.get("report")
    evidence = silence.evidence(memory)
    yield from curves.loss(memory, silence.number(report) if report else "", evidence)
    yield from curves.pace(memory)
    yield from wanted.judge(wishes, memory, evidence, now)
    yield from _over(state, memory)
    yield from _left_out(memory)


def _left_out(memory: Mapping[str, Any]) -> Iterator[Result]:
    """What of the log was not read, since looks at it did not end; over with the next one that does."""
    if "left_out" not in memory:
        return
    told = memory["left_out"]
    line = f"not read, since {told['times']} looks did not get through it: {told['what']}"
    now = told.pop("now", False)
    yield unknown(line, subject="unread") if now else ok("what is new was read", subject="unread")


def _take_in(
    found: list[logtail.Found],
    log: str,
    written: tuple[str, ...],
    run: Run | None,
    state: Working,
    wishes: Wanted,
    memory: dict[str, Any],
    now: float,
    *,
    took_over: bool,
) -> None:
    """All that is new: lines of the log, and the Guard's heartbeat. OSError where a log cannot be read."""
    had = bool(memory.get("files"))
    take_in(found, wishes, memory, now, took_over=took_over)
    beat = beats.newest(run, state.job)
    if beat:
        memory["beats"] = True
        take_beat(beat, memory, now)
    heed_guard(memory)
    memory["looked"] = now
    if memory["files"]:
        memory.pop("missing", None)
        memory.pop("instead", None)
    else:
        memory["instead"] = str((obstacle.find(log, written) if log else None) or "")
        memory.setdefault("missing", now if had or not state.job else 0.0)
    silence.find_peer(memory, state)


def _begin(state: Working, memory: dict[str, Any], now: float) -> float:
    """Since when there could be progress: as the job says it, or since the log is missing."""
    since = state.since(memory, now)
    known = since if state.job or state.blind else float(memory.get("excused", 0.0))
    return max(known, float(memory.get("missing", 0.0)))


def _remembered(result: Result, memory: dict[str, Any]) -> Result:
    """Whether the job that works now hangs: what becomes of it is told then."""
    if result.status is Status.CRITICAL:
        memory["hung"] = memory.get("job_id", "")
    elif result.status is Status.OK:
        memory.pop("hung", None)
    return result


def _not_judged(state: Working, memory: dict[str, Any]) -> Iterator[Result]:
    """OK for all; what was wrong with a job that is over ends without a word of its own.

    The details are what the log said last: evidence for whoever tells how the job ended.
    """
    if state.absent and "hung" in memory:
        memory["ended"] = memory.pop("hung")
    cause = silence.cause(memory, state)
    details = "\n".join(filter(None, [cause, silence.evidence(memory)]))
    said = ok(f"{silence.before(memory)}not judged: {state.excuse}", details=details)
    yield replace(said, progress=Progress())
    yield from _quiet(state.excuse, memory)


def _over(state: Working, memory: dict[str, Any]) -> Iterator[Result]:
    """What was said of an earlier job's numbers ends without a word of its own, until this one tells some."""
    spoken = {*memory.get("spoken", ()), *(key for key in curves.SUBJECTS if key in memory)}
    memory["spoken"] = sorted(spoken)
    for key in memory["spoken"]:
        if key not in memory and state.job:
            line = f"not judged: job {state.job.id} has told none yet"
            yield Result(Status.OK, line, subject=curves.SUBJECTS[key], quiet=True)


def _quiet(excuse: str, memory: Mapping[str, Any]) -> Iterator[Result]:
    for key, subject in SUBJECTS.items():
        if key in memory:
            yield Result(Status.OK, f"not judged: {excuse}", subject=subject, quiet=True)
