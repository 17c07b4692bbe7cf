"""Whether a run is silent, or writes and gets nowhere, and which limit says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from watchdogd.checks import peer, rhythm, stopped
from watchdogd.checks.corefile import core_file
from watchdogd.plugin import Metric, Result, Status, warning
from watchdogd.readers import trainlog
from watchdogd.readers.causekinds import FATAL
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.checks.working import Working

LAG = 5.0
"""Seconds by which a heartbeat may be written after the log's line of the same step."""
_START = "until a job's first progress line"
_SAVES = "to save, as its Guard asked"
_QUIET = "quiet phase"
_PHASE = re.compile(rf"\(limit [^:()]+: (({_SAVES}|{_QUIET}).*)\)$")
AFTER_CRASH = 300.0
"""Seconds without progress, after a line that no training survives: Slurm may say RUNNING for hours."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`stale_after` and `grace` in seconds, `progress` the user's pattern; None: it is not configured."""

    stale_after: float | Literal["auto"]
    grace: float | None
    progress: str | None = None

    @property
    def first(self) -> float:
        """Seconds until the first progress line where the silence before it is not limited otherwise."""
        return rhythm.UNKNOWN if self.grace is None else self.grace


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that may pass without progress, and in words where the number comes from.

    `passing`: a phase or a crash has it so for now, whatever is usual.
    """

    seconds: float
    why: str
    passing: bool = False

    def metrics(self, age: float) -> dict[str, Metric]:
        """The silence as numbers: how old, and what was allowed where that was not the usual."""
        found = {"age": Metric(round(age), "s", crit=self.seconds)}
        return {**found, "allowed": Metric(self.seconds, "s")} if self.passing else found

    def __str__(self) -> str:
        """As messages say it."""
        return f"limit {format_duration(self.seconds)}: {self.why}"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at what the run tells: its log's pattern (empty: none), whose job it is, and `memory`."""

    log: str
    state: Working
    memory: Mapping[str, Any]
    begin: float
    now: float

    @property
    def newest(self) -> tuple[str, float] | None:
        """What told last, a file or the Guard's heartbeat, and when; None where nothing ever did.

        A file that was written to nearly as late is named before the heartbeat: it can be read.
        """
        files = [
            (float(place[4]), f"{place[0]} written to") for place in self.memory.get("files", {}).values()
        ]
        wrote, what = max(files, default=(0.0, ""))
        beat = self.memory.get("beat", {"at": 0.0})
        at = max(wrote, float(beat["at"]))
        if at > wrote + LAG:
            what = f"heartbeat of {beat['where']}"
        return (what, max(at, self.begin)) if what else None


def judge(look: Look, limits: Limits) -> Result:
    """Stale: nothing is told. Stuck: bytes, but the number does not grow."""
    allowed = _allowance(limits, look.memory)
    newest = look.newest
    if newest is None:
        return _waiting(look, look.begin, allowed, _nothing(look))
    told, wrote = newest
    if look.now - wrote >= allowed.seconds:
        return _waiting(look, wrote, allowed, _silent(told))
    report, slow = look.memory.get("report"), _slow(look.memory, allowed)
    if report and slow:
        allowed = slow
        phase_began = (look.memory.get("phase") or [0, 0, 0.0])[2]
        moved = max(report["at"], look.begin, phase_began, _goes_on(look.memory))
        if look.now - moved >= allowed.seconds:
            return _waiting(look, moved, allowed, f"stuck: {_grows(told)}, but {number(report)} does not")
    elif not report:
        late = _no_progress_yet(look, limits, allowed, told)
        if late:
            return late
    return _fine(look, told, look.now - wrote, allowed)


def _slow(memory: Mapping[str, Any], allowed: Allowance) -> Allowance | None:
    """What applies to a number that may grow seldom, as epochs do; None while it is not known how seldom."""
    if not memory.get("report", {}).get("seldom") or memory.get("cause", [""])[0] in FATAL:
        return allowed
    limit = rhythm.coarse_limit(memory.get("rhythm", {}))
    if limit is None or limit <= allowed.seconds:
        return allowed if limit else None
    return Allowance(limit, f"twice the longest {memory['report']['series']}")


def _nothing(look: Look) -> str:
    if not look.log:
        return "no heartbeat of its Guard"
    return f"no log: {look.memory.get('instead') or f'no file matches {look.log}'}"


def _silent(told: str) -> str:
    path = told.removesuffix(" written to")
    return f"silent: nothing was written to {path}" if path != told else f"silent: no {told}"


def _grows(told: str) -> str:
    path = told.removesuffix(" written to")
    return f"{path} grows" if path != told else f"the {told} comes"


def _goes_on(memory: Mapping[str, Any]) -> float:
    """When a line that never ends last grew (percents, a bar): work, unless nobody survives its cause."""
    crashed = memory.get("cause", [""])[0] in FATAL
    return 0.0 if crashed else float(memory.get("grew", 0.0))


def _no_progress_yet(look: Look, limits: Limits, allowed: Allowance, told: str) -> Result | None:
    """Bytes come, and no number yet: has the start had its time?"""
    begin = look.begin and max(look.begin, _goes_on(look.memory))
    limit = Allowance(max(allowed.seconds, limits.first), _START, passing=True)
    cause = look.memory.get("cause")
    if cause and cause[0] in FATAL:
        begin, limit = max(look.begin, cause[3]), allowed
    if not begin or look.now - begin < limit.seconds:
        return None
    if look.memory.get("known") or limit is allowed:
        return _waiting(look, begin, limit, f"stuck: {_grows(told)}, but no progress line came")
    return _unmatched(look, limits.progress) if limits.progress else None


def _allowance(limits: Limits, memory: Mapping[str, Any]) -> Allowance:
    """The limit that applies now."""
    usual = _usual(limits, memory)
    kind = memory.get("cause", [""])[0]
    if kind in FATAL and usual.seconds > AFTER_CRASH:
        return Allowance(AFTER_CRASH, f"after '{kind}' in the log", passing=True)
    phase = memory.get("phase")
    if phase and phase[1] > usual.seconds:
        return Allowance(phase[1], f"{_QUIET} '{phase[0]}'", passing=True)
    asked = memory.get("asked")
    if asked and limits.stale_after == "auto" and usual.seconds < rhythm.UNKNOWN:
        return Allowance(rhythm.UNKNOWN, f"{_SAVES}: {asked[0]}", passing=True)
    return usual


def _usual(limits: Limits, memory: Mapping[str, Any]) -> Allowance:
    """The limit where nothing special is known."""
    start = None if "report" in memory else limits.grace
    if limits.stale_after != "auto":
        usual = Allowance(limits.stale_after, "stale_after")
    elif memory.get("limit"):
        usual = Allowance(memory["limit"], "learned from the run's own rhythm")
        start = None if "report" in memory else limits.first
    else:
        usual = Allowance(rhythm.guess(memory.get("rhythm", {})), "until the run's rhythm is known")
    return Allowance(start, _START, passing=True) if start and start > usual.seconds else usual


def _waiting(look: Look, since: float, allowed: Allowance, what: str) -> Result:
    """The alarm once the limit has passed, OK before; UNKNOWN where nobody knows whether a job runs."""
    age = look.now - since
    metrics = allowed.metrics(age) | numbers(look.memory)
    if age < allowed.seconds:
        yet = "" if look.memory.get("instead") else " yet"
        line = f"{what}{yet}, for {format_duration(age)} ({allowed})"
        return Result(Status.OK, f"{before(look.memory)}{line}", metrics)
    parts = [f"{what} since {iso(since)}, {format_duration(age)} ago ({allowed})", *_known(look, what)]
    status = Status.UNKNOWN if look.state.blind else Status.CRITICAL
    return Result(status, "; ".join(parts), metrics, evidence(look.memory))


def _known(look: Look, what: str) -> list[str]:
    """What else is known: the last number, the cause, who stopped first, the job."""
    report, job = look.memory.get("report"), look.state.job
    moved = report["at"] if report else 0.0
    first = stopped.first_file(look.memory, look.begin, moved) or stopped.first_rank(look.memory, moved)
    parts = [f"last {number(report)}"] if report and not what.startswith("stuck") else []
    parts += filter(None, [cause(look.memory, look.state), first])
    if job:
        doing = "runs" if job.working else f"is {job.state.lower()}"
        parts.append(f"job {job.id} {doing}{f' on {job.nodes}' if job.nodes else ''}")
    if look.state.blind:
        parts.append(f"whether its job runs is not known: {look.state.blind}")
    return parts


def _unmatched(look: Look, pattern: str) -> Result:
    """Lines come, but none ever fitted the user's pattern."""
    return warning(
        f"no line of {look.log} matches progress = '{pattern}' in "
        f"{format_duration(look.now - look.begin)}: mend the pattern, or the run makes no progress",
        details=evidence(look.memory),
    )


def _fine(look: Look, told: str, age: float, allowed: Allowance) -> Result:
    report = look.memory.get("report")
    said = f"{number(report)} {format_duration(look.now - report['at'])} ago, " if report else ""
    summary = f"{before(look.memory)}{said}{told} {format_duration(age)} ago ({allowed})"
    metrics = allowed.metrics(age) | numbers(look.memory)
    return Result(Status.OK, summary, metrics)


# Wording.


def phase(summary: str) -> str:
    """Of what was said of a run that is OK: why it may make no progress for now, or empty."""
    found = _PHASE.search(summary)
    return found[1] if found else ""


def before(memory: Mapping[str, Any]) -> str:
    """That the job whose hang was told has ended, until the next one progresses: it is no recovery."""
    return f"job {memory['ended']} ended without going on; " if "ended" in memory else ""


def cause(memory: Mapping[str, Any], state: Working) -> str:
    """`cause: ...` with the node to be left out, or the core file to be looked at, where they are known."""
    if "cause" not in memory:
        return ""
    kind, sentence, address, _ = memory["cause"]
    if address and memory.get("peer", [""])[0] == address and memory["peer"][1]:
        return f"cause: {sentence}, which is {memory['peer'][1]} (--exclude={memory['peer'][1]})"
    if kind == "segmentation fault" and "core file" not in sentence and state.job:
        found = core_file(state.job.work_dir, state.job.started_at or 0.0)
        return f"cause: {sentence}, core file {found}" if found else f"cause: {sentence}"
    return f"cause: {sentence}"


def find_peer(memory: dict[str, Any], state: Working) -> None:
    """Ask once which node has the address that a cause names."""
    address = memory.get("cause", ["", "", ""])[2]
    if address and state.job and memory.get("peer", [""])[0] != address:
        memory["peer"] = [address, peer.find(address, state.job.nodes, memory.get("addresses", {}))]


def number(report: Mapping[str, Any]) -> str:
    """`iteration 12/90`."""
    return trainlog.words(report["series"], report["number"], report["total"])


def numbers(memory: Mapping[str, Any]) -> dict[str, Metric]:
    """Progress, time of an iteration and loss as metrics."""
    found: dict[str, Metric] = {}
    report, loss = memory.get("report"), memory.get("loss")
    if report:
        parts = trainlog.in_epoch(report["series"], report["number"])
        named = zip(("epoch", "batch"), parts, strict=True) if parts else (("progress", report["number"]),)
        found.update((name, Metric(value)) for name, value in named)
        if report["total"]:
            found["total"] = Metric(report["total"])
        if report["seconds"]:
            found["iteration_time"] = Metric(report["seconds"], "s")
    if loss and loss["good"] is not None and not loss["bad"]:
        found["loss"] = Metric(loss["good"])
    return found


def evidence(memory: Mapping[str, Any]) -> str:
    """The last lines of the log."""
    lines = memory.get("tail", ())
    return "last lines of the log:\n" + "\n".join(lines) if lines else ""
