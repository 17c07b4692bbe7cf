"""log_staleness: does the run write, does its number grow, and is its loss a number."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watchdogd.counter import advance
from watchdogd.jobs import Job
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
from watchdogd.readers import causes, logtail, trainlog
from watchdogd.readers.lines import SHOWN_AT_MOST, Line, read_lines
from watchdogd.rhythm import UNKNOWN, learn
from watchdogd.rhythm import limit as learned_limit
from watchdogd.units import format_duration, iso, parse_duration

SHOWN = 10
"""Last log lines that a message shows."""
BAD_LOSSES = 3
"""Reports in a row with a loss that is no number, before it counts as staying so."""
_PHASE_WORDS = ("checkpoint", "evaluat", "validat", "running eval")
_USUAL_PHASES = re.compile(
    r"(?:saving|loading) (?:\w+ ){0,3}checkpoint|running (?:evaluation|validation|eval\b)"
    r"|(?:evaluat|validat)(?:ing|ion)\b.{0,40}(?:\.\.\.|start|begin|on\b)"
)
"""Phases that may be silent for as long as an unknown rhythm, where no limit is configured."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that may pass without progress, and in words where the number comes from."""

    seconds: float
    why: str

    def __str__(self) -> str:
        """As messages say it."""
        return f"limit {format_duration(self.seconds)}: {self.why}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is configured of the lines themselves."""

    progress: str | None
    quiet: tuple[tuple[str, float], ...]
    must_see: tuple[tuple[str, float], ...]
    must_not_see: tuple[str, ...]
    usual_phases: bool


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the log: is there one, whose job writes it, and what is known of it by now (`memory`).

    `blind` says why nobody knows whether a job runs, where that is so.
    """

    log: str
    there: bool
    job: Job | None
    blind: str
    memory: Mapping[str, Any]
    now: float

    @property
    def begin(self) -> float:
        """Since when there could be progress: the job's start, or the end of what excused it."""
        started: float = self.memory.get("job_since", 0.0) if self.job or self.blind else 0.0
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
        tuple((phase["match"], parse_duration(phase["allow"])) for phase in quiet),
        tuple((line["match"], parse_duration(line["within"])) for line in must_see),
        tuple(must_not_see),
        stale_after == "auto",
    )
    job, excuse = _job(run, snapshot)
    if job is not None:
        _follow_job(job, memory, now)
    had = bool(memory.get("files"))
    try:
        files = logtail.find(log, pulse)
        _take_in(files, wanted, memory, now)
    except OSError as error:
        yield unknown(f"{error.filename or log} cannot be read: {error.strerror}")
        return
    memory["looked"] = now
    if files:
        memory.pop("missing", None)
    else:
        memory.setdefault("missing", now if had or job is None else 0.0)
    if excuse:
        memory["excused"] = now
        yield ok(f"not judged: {excuse}")
        return
    blind = snapshot.trouble if snapshot is not None and snapshot.jobs is None else ""
    yield _silence(Look(log, bool(files), job, blind, memory, now), stale_after, grace, wanted)
    yield from _loss(memory)
    yield from _wanted_lines(wanted, memory, now)


# Which job writes here.


def _job(run: Run | None, snapshot: Snapshot | None) -> tuple[Job | None, str]:
    """The job whose progress is judged, or why none is. Neither: there is no saying (no run, no answer)."""
    if run is None or snapshot is None or snapshot.jobs is None:
        return None, ""
    jobs = [job for job in snapshot.of(run.job_name) if not job.ended]
    running = [job for job in jobs if job.state == "RUNNING"]
    if running:
        return max(running, key=lambda job: (job.started_at or 0.0, job.raw_id)), ""
    if not jobs:
        return None, "no job runs"
    job = jobs[0]
    if job.waiting:
        return None, f"job {job.id} waits{f' ({job.reason})' if job.reason not in ('', 'None') else ''}"
    return None, f"job {job.id} is {job.state.lower()}"


def _follow_job(job: Job, memory: dict[str, Any], now: float) -> None:
    """Forget what was another job's: numbers, losses, phases and lines that were seen."""
    name = f"{job.raw_id}@{job.started_at or 0:.0f}"
    if memory.get("job") == name:
        return
    for key in ("counter", "report", "phase", "loss", "seen", "forbidden", "cause"):
        memory.pop(key, None)
    memory["job"] = name
    memory["job_since"] = job.started_at if job.started_at is not None else now
    memory["whole"] = bool(memory.get("files")) or now - memory["job_since"] < 60.0


# Taking in what was written.


def _take_in(files: list[logtail.Found], wanted: Wanted, memory: dict[str, Any], now: float) -> None:
    """Read what is new in all files; note when bytes came, what they said, and how far each was read."""
    places = {key: logtail.Place(*place) for key, place in memory.get("files", {}).items()}
    looked = memory.get("looked")
    first = looked is None
    skew = logtail.clock_skew(files, places, looked, now)
    if skew is not None:
        memory["skew"] = skew
    kept = {}
    for index, file in enumerate(files):
        place = places.get(file.key)
        if place and (file.size, file.mtime, file.path) == (place.size, place.mtime, place.path):
            kept[file.key] = memory["files"][file.key]
            continue
        grown = logtail.grown_at(file, place, looked, now, memory.get("skew", 0.0))
        begin, end = logtail.unread(file, place, first=first)
        if first and index:
            begin = end  # of many files only the newest one's past is of interest
        offset = begin
        if end > begin:
            lines, done = read_lines(logtail.read(file.path, begin, end))
            offset = begin + done if done or end - begin < logtail.AT_MOST else end
            _take_lines(lines, wanted, memory, grown)
        kept[file.key] = [file.path, offset, file.size, file.mtime, grown]
    memory["files"] = kept


def _take_lines(lines: list[Line], wanted: Wanted, memory: dict[str, Any], at: float) -> None:
    """What the lines say, in their order: phases, progress, losses, causes, wanted and unwanted lines."""
    counter = memory.setdefault("counter", {})
    steps = last = 0
    for index, line in enumerate(lines):
        text = line.text
        _note_patterns(text, wanted, memory, at)
        report = trainlog.progress_by(wanted.progress, text) if wanted.progress else trainlog.progress(text)
        if report and advance(counter, report):
            steps, last = steps + 1, index
            _note_progress(report, text, memory, at, steps)
        value = trainlog.loss(text)
        if value is not None:
            _note_loss(value, memory, at)
    _note_cause(lines[last:], memory)
    shown = [line.text[:SHOWN_AT_MOST] for line in lines[-20 * SHOWN :] if line.final and line.text]
    memory["tail"] = [*memory.get("tail", ()), *shown][-SHOWN:]


def _note_patterns(text: str, wanted: Wanted, memory: dict[str, Any], at: float) -> None:
    for pattern, allowed in wanted.quiet:
        if trainlog.compiled(pattern).search(text):
            memory["phase"] = [pattern, allowed, at]
    if wanted.usual_phases and "phase" not in memory and _usual_phase(text):
        memory["phase"] = [text.strip()[:60], UNKNOWN, at]
    for pattern, _ in wanted.must_see:
        if pattern not in memory.setdefault("seen", []) and trainlog.compiled(pattern).search(text):
            memory["seen"].append(pattern)
    for pattern in wanted.must_not_see:
        if "forbidden" not in memory and trainlog.compiled(pattern).search(text):
            memory["forbidden"] = [pattern, text[:SHOWN_AT_MOST], at]


def _usual_phase(text: str) -> bool:
    low = text.lower()
    return any(word in low for word in _PHASE_WORDS) and _USUAL_PHASES.search(low) is not None


def _note_cause(lines: list[Line], memory: dict[str, Any]) -> None:
    """Keep the cause nearest to the root that came since the last progress."""
    before = [causes.Cause(*memory["cause"])] if "cause" in memory else []
    cause = causes.root([*before, *causes.find(lines)])
    if cause:
        memory["cause"] = [cause.kind, cause.sentence]


def _note_progress(report: trainlog.Report, text: str, memory: dict[str, Any], at: float, steps: int) -> None:
    """The number grew: learn the interval since it last did, unless a quiet phase lay between."""
    before = memory.get("report")
    phase = memory.pop("phase", None)
    memory.pop("cause", None)
    if before and steps == 1 and phase is None and at > before["at"]:
        memory["rhythm"] = learn(memory.get("rhythm", {}), at - before["at"], at)
        memory["limit"] = learned_limit(memory["rhythm"], at)
    memory["known"] = True
    memory["report"] = {
        "series": report.series,
        "number": report.number,
        "total": report.total,
        "at": at,
        "seconds": trainlog.seconds(text),
    }


def _note_loss(value: float, memory: dict[str, Any], at: float) -> None:
    state = memory.get("loss") or {"bad": 0, "good": None, "since": at}
    if math.isfinite(value):
        memory["loss"] = {"bad": 0, "good": value, "since": at}
    else:
        memory["loss"] = {
            "bad": state["bad"] + 1,
            "good": state["good"],
            "since": state["since"] if state["bad"] else at,
            "word": str(value),
        }


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
    report, job = look.memory.get("report"), look.job
    if report and not what.startswith("stuck"):
        parts.append(f"last {_number(report)}")
    if "cause" in look.memory:
        parts.append(f"cause: {look.memory['cause'][1]}")
    if job:
        parts.append(f"job {job.id} runs{f' on {job.nodes}' if job.nodes else ''}")
    if look.blind:
        parts.append(f"whether its job runs is not known: {look.blind}")
    status = Status.UNKNOWN if look.blind else Status.CRITICAL
    return Result(status, "; ".join(parts), metrics, _evidence(look.memory))


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
        yield ok(f"loss {state['good']:g}" if state["good"] is not None else "no loss yet", subject="loss")
        return
    before = f", it was {state['good']:g} before" if state["good"] is not None else ""
    report = memory.get("report")
    where = f" at {_number(report)}" if report else ""
    yield critical(
        f"loss is {state['word']} since {iso(state['since'])}, {state['bad']} times in a row{where}{before}",
        subject="loss",
        details=_evidence(memory),
    )


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
        if report["seconds"]:
            found["iteration_time"] = Metric(report["seconds"], "s")
    if loss and loss["good"] is not None and not loss["bad"]:
        found["loss"] = Metric(loss["good"])
    return found


def _evidence(memory: Mapping[str, Any]) -> str:
    lines: Sequence[str] = memory.get("tail", ())
    return "last lines of the log:\n" + "\n".join(lines) if lines else ""
