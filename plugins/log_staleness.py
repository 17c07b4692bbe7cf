"""log_staleness: does the run write, does its number grow, and is its loss a number.

A hang looks like work from outside: the queue says RUNNING, the GPUs say 100 %. What stops is the log,
so it is followed: the newest of all files that match, through rotation, truncation and links; only new
bytes are read.

**Stale** is no byte for `stale_after`, **stuck** is bytes without progress: warnings that repeat, a
progress bar that stands. The number of a progress line must grow; the usual formats are recognised
without configuration, and heartbeats of the Guard count as progress.

With `stale_after = "auto"` the limit comes from the run's own rhythm: a multiple of a high quantile of
the times between its progress lines, phases apart, bounded below and above, kept over restarts. So a run
with 30 s iterations is told in minutes, and one with hourly evaluations never cries wolf. Phases that
may be silent for longer (`quiet`) have their own allowance, and the message says which limit applied.
While the job waits, is suspended or has just started, nothing is judged.

A loss that stays NaN or infinite is CRITICAL. One that leaves its recent band upwards and stays there,
or creeps up for long, is a WARNING, as is a throughput far below its own median; spikes that come back
are not told.

The end of the log is read for causes: collective timeouts, out of memory, ECC and Xid, no space, time
limits. The message names the cause, and the rank or node where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watchdogd.checks.level import WINDOW, rise
from watchdogd.checks.logbook import Wanted, follow_job, take_in
from watchdogd.checks.rhythm import UNKNOWN
from watchdogd.checks.working import Working, working
from watchdogd.plugin import (
    Duration,
    Metric,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.readers import logtail
from watchdogd.readers.causes import FATAL
from watchdogd.units import format_duration, iso, parse_duration

BAD_LOSSES = 3
"""Reports in a row with a loss that is no number, before it counts as staying so."""
AFTER_CRASH = 300.0
"""Seconds without progress, after a line that no training survives: Slurm may say RUNNING for hours."""
SLOW = 0.5
"""An iteration that takes this much longer than at best is told."""
SKIPPED = 10
"""Of the last 20 progress reports, with skipped iterations; the first 50 look for the loss scale."""
SUBJECTS = {"loss": "loss", "pace": "throughput", "skips": "skipped", "forbidden": "must_not_see"}
"""What is judged beside the silence, by where it is remembered."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that may pass without progress, and in words where the number comes from."""

    seconds: float
    why: str

    def __str__(self) -> str:
        """As messages say it."""
        return f"limit {format_duration(self.seconds)}: {self.why}"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the log: is there one, whose job writes it, and what is known of it by now (`memory`)."""

    log: str
    there: bool
    state: Working
    memory: Mapping[str, Any]
    now: float

    @property
    def begin(self) -> float:
        """Since when there could be progress: the job's start, or the end of what excused it."""
        started: float = self.memory.get("job_since", 0.0) if self.state.job or self.state.blind else 0.0
        excused: float = self.memory.get("excused", 0.0)
        missing: float = self.memory.get("missing", 0.0)
        return max(started, excused, missing)

    @property
    def newest(self) -> tuple[str, float]:
        """The file to which was written last, and when that was."""
        place = max(self.memory["files"].values(), key=lambda place: float(place[4]))
        return place[0], max(float(place[4]), self.begin)


@check(follows=("job_liveness",))
def log_staleness(
    log: str,
    run: Run | None,
    snapshot: Snapshot | None,
    memory: dict[str, Any],
    now: float,
    stale_after: Duration | Literal["auto"] = "auto",
    progress: str | None = None,
    quiet: tuple[dict[str, Any], ...] = (),
    must_see: tuple[dict[str, Any], ...] = (),
    must_not_see: tuple[str, ...] = (),
    grace: Duration = UNKNOWN,
    pulse: str = "",
) -> Iterator[Result]:
    """Whether a run's log grows, its progress number grows with it, and its loss is a number.

    log: path of the log, with wildcards; of several files all count, the newest is shown
    stale_after: silence that means a hang; auto learns it from the run's own rhythm
    progress: pattern whose first group is a number that must grow; left out: known formats are recognised
    quiet: phases that may be silent for longer: match, a pattern, and allow, a duration
    must_see: lines that must come within a time of each job's start: match and within
    must_not_see: patterns that must not come
    grace: how long a job may take to its first progress line
    pulse: watchdogd's own status file, which is never the run's log
    """
    wanted = Wanted(
        progress,
        _pairs("quiet", quiet, "allow"),
        _pairs("must_see", must_see, "within"),
        tuple(must_not_see),
        stale_after == "auto",
    )
    state = working(run, snapshot)
    if state.job:
        follow_job(state.job, memory, now)
    had = bool(memory.get("files"))
    try:
        take_in(logtail.find(log, pulse), wanted, memory, now)
    except OSError as error:
        yield unknown(f"{error.filename or log} cannot be read: {error.strerror}")
        return
    memory["looked"] = now
    if memory["files"]:
        memory.pop("missing", None)
    else:
        memory.setdefault("missing", now if had or not state.job else 0.0)
    if state.excuse:
        memory["excused"] = now
        yield from _not_judged(state.excuse, memory)
        return
    yield _silence(Look(log, bool(memory["files"]), state, memory, now), stale_after, grace, wanted)
    yield from _loss(memory)
    yield from _pace(memory)
    yield from _wanted_lines(wanted, memory, now)


def _pairs(key: str, tables: Sequence[Mapping[str, Any]], time: str) -> tuple[tuple[str, float], ...]:
    """Pattern and seconds of each table. ValueError where one is misspelt."""
    for table in tables:
        if table.keys() != {"match", time}:
            raise ValueError(f"{key}: write {{ match = 'pattern', {time} = '40m' }}, not {dict(table)}")
    return tuple((table["match"], parse_duration(table[time])) for table in tables)


def _not_judged(excuse: str, memory: Mapping[str, Any]) -> Iterator[Result]:
    """OK for all; what was wrong with a job that is over ends without a word of its own.

    The details are what the log said last: evidence for whoever tells how the job ended.
    """
    cause = f"cause: {memory['cause'][1]}\n" if "cause" in memory else ""
    yield ok(f"not judged: {excuse}", details=cause + _evidence(memory))
    for key, subject in SUBJECTS.items():
        if key in memory:
            yield Result(Status.OK, f"not judged: {excuse}", subject=subject, quiet=True)


# Judging.


def _silence(look: Look, stale_after: float | Literal["auto"], grace: float, wanted: Wanted) -> Result:
    """Stale: no bytes. Stuck: bytes, but the number does not grow."""
    allowed = _allowance(stale_after, grace, look.memory)
    if not look.there:
        return _waiting(look, look.begin, allowed, f"no log: no file matches {look.log}")
    path, wrote = look.newest
    if look.now - wrote >= allowed.seconds:
        return _waiting(look, wrote, allowed, f"silent: nothing was written to {path}")
    report = look.memory.get("report")
    if report:
        phase_began = (look.memory.get("phase") or [0, 0, 0.0])[2]
        moved = max(report["at"], look.begin, phase_began)
        if look.now - moved >= allowed.seconds:
            what = f"stuck: {path} grows, but {_number(report)} does not"
            return _waiting(look, moved, allowed, what)
    elif look.begin and look.now - look.begin >= max(allowed.seconds, grace):
        limit = Allowance(max(allowed.seconds, grace), "until a job's first progress line")
        if look.memory.get("known"):
            return _waiting(look, look.begin, limit, f"stuck: {path} grows, but no progress line came")
        if wanted.progress:
            return _unmatched(look, wanted.progress)
    return _fine(look, path, look.now - wrote, allowed)


def _allowance(stale_after: float | Literal["auto"], grace: float, memory: Mapping[str, Any]) -> Allowance:
    """The limit that applies now."""
    if stale_after != "auto":
        usual = Allowance(stale_after, "stale_after")
    elif memory.get("limit"):
        usual = Allowance(memory["limit"], "learned from the run's own rhythm")
        if "report" not in memory and grace > usual.seconds:
            usual = Allowance(grace, "until a job's first progress line")
    else:
        usual = Allowance(UNKNOWN, "until the run's rhythm is known")
    kind = memory.get("cause", [""])[0]
    if kind in FATAL and usual.seconds > AFTER_CRASH:
        return Allowance(AFTER_CRASH, f"after '{kind}' in the log")
    phase = memory.get("phase")
    if phase and phase[1] > usual.seconds:
        return Allowance(phase[1], f"quiet phase '{phase[0]}'")
    return usual


def _waiting(look: Look, since: float, allowed: Allowance, what: str) -> Result:
    """The alarm once the limit has passed, OK before; UNKNOWN where nobody knows whether a job runs."""
    age = look.now - since
    metrics = {"age": Metric(round(age), "s", crit=allowed.seconds), **_numbers(look.memory)}
    if age < allowed.seconds:
        return Result(Status.OK, f"{what} yet, for {format_duration(age)} ({allowed})", metrics)
    parts = [f"{what} since {iso(since)}, {format_duration(age)} ago ({allowed})"]
    report, job = look.memory.get("report"), look.state.job
    if report and not what.startswith("stuck"):
        parts.append(f"last {_number(report)}")
    if "cause" in look.memory:
        parts.append(f"cause: {look.memory['cause'][1]}")
    stopped = _first_to_stop(look)
    if stopped:
        parts.append(stopped)
    if job:
        doing = "runs" if job.state == "RUNNING" else f"is {job.state.lower()}"
        parts.append(f"job {job.id} {doing}{f' on {job.nodes}' if job.nodes else ''}")
    if look.state.blind:
        parts.append(f"whether its job runs is not known: {look.state.blind}")
    status = Status.UNKNOWN if look.state.blind else Status.CRITICAL
    return Result(status, "; ".join(parts), metrics, _evidence(look.memory))


def _first_to_stop(look: Look) -> str:
    """With a log for each node or rank: the one that fell silent before the others, in this job."""
    places = [place for place in look.memory.get("files", {}).values() if place[4] >= look.begin]
    if len(places) < 2:
        return ""
    first, second = sorted(places, key=lambda place: float(place[4]))[:2]
    if second[4] - first[4] < 1.0:
        return ""
    return f"the first to stop of {len(places)} was {first[0]} at {iso(first[4])}"


def _unmatched(look: Look, pattern: str) -> Result:
    """Lines come, but none ever fitted the user's pattern."""
    return warning(
        f"no line of {look.log} matches progress = '{pattern}' in "
        f"{format_duration(look.now - look.begin)}: mend the pattern, or the run makes no progress",
        details=_evidence(look.memory),
    )


def _fine(look: Look, path: str, age: float, allowed: Allowance) -> Result:
    report = look.memory.get("report")
    said = f"{_number(report)} {format_duration(look.now - report['at'])} ago, " if report else ""
    summary = f"{said}{path} written to {format_duration(age)} ago ({allowed})"
    metrics = {"age": Metric(round(age), "s", crit=allowed.seconds), **_numbers(look.memory)}
    return Result(Status.OK, summary, metrics)


def _loss(memory: Mapping[str, Any]) -> Iterator[Result]:
    """A loss that stays NaN or infinite trains nothing any more."""
    state = memory.get("loss")
    if not state:
        return
    if state["bad"] < BAD_LOSSES:
        yield _risen(memory) or ok(
            f"loss {state['good']:g}" if state["good"] is not None else "no loss yet", subject="loss"
        )
        return
    before = f", it was {state['good']:g} before" if state["good"] is not None else ""
    report = memory.get("report")
    where = f" at {_number(report)}" if report else ""
    yield critical(
        f"loss is {state['word']} since {iso(state['since'])}, {state['bad']} times in a row{where}{before}",
        subject="loss",
        details=_evidence(memory),
    )


def _risen(memory: Mapping[str, Any]) -> Result | None:
    """A loss that left its band upwards and stays out, or has crept up."""
    found = rise(memory.get("level", {}))
    if not found:
        return None
    resumed = " since this job resumed" if memory.get("losses", 0) < 2 * WINDOW else ""
    return warning(
        f"loss has risen and stays up{resumed}: {found.level:.4g} in the last {WINDOW} reports, "
        f"it was down at {found.best:.4g}",
        subject="loss",
        details=_evidence(memory),
        loss=Metric(found.level),
    )


def _pace(memory: Mapping[str, Any]) -> Iterator[Result]:
    """Throughput against the run's own best, and iterations that count for nothing."""
    if "pace" in memory:
        found = rise(memory["pace"], SLOW)
        if found:
            slower = f"{100 * (found.level / found.best - 1):.0f} % longer than at best"
            yield warning(f"slow: an iteration takes {slower} for the same work", subject="throughput")
        else:
            yield ok("iterations take as long as they did", subject="throughput")
    if "skips" in memory:
        skips = memory["skips"]
        storm = sum(skips["last"])
        if skips["seen"] >= 50 and storm >= SKIPPED:
            text = f"{storm} of the last {len(skips['last'])} reports skipped iterations: gradients overflow"
            yield warning(text, subject="skipped")
        else:
            yield ok("few iterations are skipped", subject="skipped")


def _wanted_lines(wanted: Wanted, memory: Mapping[str, Any], now: float) -> Iterator[Result]:
    if wanted.must_not_see:
        bad = memory.get("forbidden")
        if bad:
            text = f"the log says what it must not ('{bad[0]}') since {iso(bad[2])}: {bad[1]}"
            yield critical(text, subject="must_not_see")
        else:
            yield ok("nothing that must not be seen", subject="must_not_see")
    if wanted.must_see:
        yield _missing_lines(wanted, memory, now)


def _missing_lines(wanted: Wanted, memory: Mapping[str, Any], now: float) -> Result:
    """Judged only where the job's log was read from its start on."""
    age = now - memory["job_since"] if memory.get("whole") else 0.0
    seen = memory.get("seen", ())
    missing = [pattern for pattern, within in wanted.must_see if pattern not in seen and age > within]
    if not missing:
        return ok("all that must be seen was seen, or has time yet", subject="must_see")
    return critical(
        f"the log does not say '{missing[0]}', {format_duration(age)} after the job's start"
        + (f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""),
        subject="must_see",
        details=_evidence(memory),
    )


# Wording.


def _number(report: Mapping[str, Any]) -> str:
    total = f"/{report['total']:g}" if report["total"] else ""
    return f"{report['series']} {report['number']:.10g}{total}"


def _numbers(memory: Mapping[str, Any]) -> dict[str, Metric]:
    found = {}
    report, loss = memory.get("report"), memory.get("loss")
    if report:
        found["progress"] = Metric(report["number"])
        if report["total"]:
            found["total"] = Metric(report["total"])
        if report["seconds"]:
            found["iteration_time"] = Metric(report["seconds"], "s")
    if loss and loss["good"] is not None and not loss["bad"]:
        found["loss"] = Metric(loss["good"])
    return found


def _evidence(memory: Mapping[str, Any]) -> str:
    lines: Sequence[str] = memory.get("tail", ())
    return "last lines of the log:\n" + "\n".join(lines) if lines else ""
