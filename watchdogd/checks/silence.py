"""Whether a run is silent, or writes and gets nowhere, and which limit says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from watchdogd.checks import peer, stopped
from watchdogd.checks.corefile import core_file
from watchdogd.logs.state import MOST, UNKNOWN, LogState, Reason
from watchdogd.plugin import Metric, Progress, Result, Status, warning
from watchdogd.readers import trainlog
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.checks.working import Working

LAG = 5.0
"""Seconds by which a heartbeat may be written after the log's line of the same step."""
_SAVES = "to save, as its Guard asked"
_QUIET = "quiet phase"
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
        return UNKNOWN if self.grace is None else self.grace


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that may pass without progress, and in words where the number comes from.

    `passing`: a phase or a crash has it so for now, whatever is usual. `pause`: the run may stand
    still, on purpose.
    """

    seconds: float
    why: str
    passing: bool = False
    pause: bool = False

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
    def clocks(self) -> LogState:
        """What the log's own numbers and pauses showed."""
        state: LogState = self.memory["clocks"]
        return state

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
    """Stale: nothing is told. Stuck: bytes, but nothing in them grows."""
    allowed = _allowance(limits, look)
    newest = look.newest
    if newest is None:
        return _waiting(look, look.begin, allowed, _nothing(look)).of_kind("no log")
    told, wrote = newest
    if look.now - wrote >= allowed.seconds:
        return _waiting(look, wrote, allowed, _silent(told))
    return _standstill(look, limits, allowed, told) or _fine(look, told, look.now - wrote, allowed)


def _standstill(look: Look, limits: Limits, allowed: Allowance, told: str) -> Result | None:
    """Lines come, but none of their numbers has grown for too long; None where that is not so."""
    report, clocks = look.memory.get("report"), look.clocks
    crashed = _crashed(look)
    moved = max(clocks.worked if crashed else clocks.moved, report["at"] if report else 0.0)
    if not moved or (
        not clocks.moved and not (report and limits.stale_after != "auto" and not report["seldom"])
    ):
        return _no_progress_yet(look, limits, allowed, told)
    phase_began = (look.memory.get("phase") or [0, 0, 0.0])[2]
    since = max(moved, look.begin, phase_began, _goes_on(look.memory))
    limit = allowed
    if limits.stale_after == "auto" and not allowed.passing and not crashed:
        stand = clocks.standstill(look.now)
        if stand is None:
            return None
        since, limit = max(since, stand[0]), Allowance(stand[1].seconds, stand[1].reason)
    if report and report["seldom"] and not crashed:
        limit = _seldom(clocks, limit, look.now)
    if look.now - since < limit.seconds:
        return None
    what = f"{number(report)} does not" if report else "none of its numbers does"
    return _waiting(look, since, limit, f"stuck: {_grows(told)}, but {what}")


def _seldom(clocks: LogState, limit: Allowance, now: float) -> Allowance:
    """What applies to epochs alone: however short `stale_after` is, they take their time."""
    stand = clocks.standstill(now)
    if clocks.rises < 2 or stand is None:
        return Allowance(max(limit.seconds, MOST), Reason.NEW)
    return max(limit, Allowance(stand[1].seconds, stand[1].reason), key=lambda each: each.seconds)


def _crashed(look: Look) -> bool:
    """Whether a line that no training survives was the last that was heard of who wrote it."""
    *_, death, began = look.memory.get("cause") or (False, 0.0)
    return bool(death) and look.memory.get("survived") != began


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
    crashed = memory.get("cause", [False, 0.0])[-2]
    return 0.0 if crashed else float(memory.get("grew", 0.0))


def _no_progress_yet(look: Look, limits: Limits, allowed: Allowance, told: str) -> Result | None:
    """Bytes come, and no number yet: has the start had its time?"""
    if not look.clocks.templates:
        return None  # a line that has not ended yet tells nothing of itself
    begin = look.begin and max(look.begin, look.clocks.novel, _goes_on(look.memory))
    limit = Allowance(max(allowed.seconds, limits.first), Reason.START, passing=True)
    if _crashed(look):
        begin, limit = max(look.begin, look.memory["cause"][-1]), allowed
    elif (look.memory.get("report") or {}).get("seldom"):
        limit = Allowance(MOST, Reason.NEW)
    if not begin or look.now - begin < limit.seconds:
        return None
    if limits.progress and not look.memory.get("known"):
        return _unmatched(look, limits.progress)
    return _waiting(look, begin, limit, f"stuck: {_grows(told)}, but no progress line came")


def _allowance(limits: Limits, look: Look) -> Allowance:
    """The limit that applies now to a time in which nothing is written."""
    usual, memory = _usual(limits, look), look.memory
    if _crashed(look) and usual.seconds > AFTER_CRASH:
        return Allowance(AFTER_CRASH, f"after '{memory['cause'][0]}' in the log", passing=True)
    phase = memory.get("phase")
    if phase and phase[1] > usual.seconds:
        return Allowance(phase[1], f"{_QUIET} '{phase[0]}'", passing=True, pause=True)
    asked = memory.get("asked")
    if asked and limits.stale_after == "auto" and usual.seconds < UNKNOWN:
        return Allowance(UNKNOWN, f"{_SAVES}: {asked[0]}", passing=True, pause=True)
    return usual


def _usual(limits: Limits, look: Look) -> Allowance:
    """The limit where nothing special is known."""
    starts = not look.clocks.moved and "report" not in look.memory
    start = limits.grace if starts else None
    if limits.stale_after != "auto":
        usual = Allowance(limits.stale_after, "stale_after")
    else:
        learned = look.clocks.silence(look.now)
        usual = Allowance(learned.seconds, learned.reason)
        start = limits.first if starts else None
    return Allowance(start, Reason.START, passing=True) if start and start > usual.seconds else usual


def _waiting(look: Look, since: float, allowed: Allowance, what: str) -> Result:
    """The alarm once the limit has passed, OK before; UNKNOWN where nobody knows whether a job runs."""
    age = look.now - since
    metrics = allowed.metrics(age) | numbers(look.memory)
    if age < allowed.seconds:
        yet = "" if look.memory.get("instead") else " yet"
        line = f"{what}{yet}, for {format_duration(age)} ({allowed})"
        said = f"{before(look.memory)}{line}"
        return Result(Status.OK, said, metrics, progress=_progress(look, allowed))
    parts = [f"{what} since {iso(since)}, {format_duration(age)} ago ({allowed})", *_known(look, what)]
    details = evidence(look.memory)
    if look.state.blind:
        return Result(Status.UNKNOWN, "; ".join(parts), metrics, details)
    progress = _progress(look, allowed, stalled=look.newest is not None)  # without a log nobody knows
    hung = Result(Status.CRITICAL, "; ".join(parts), metrics, details, progress=progress)
    return hung.triggers("on_hang") if look.newest or not look.log else hung


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
    ).of_kind("unmatched")


def _fine(look: Look, told: str, age: float, allowed: Allowance) -> Result:
    report = look.memory.get("report")
    said = f"{number(report)} {format_duration(look.now - report['at'])} ago, " if report else ""
    summary = f"{before(look.memory)}{said}{told} {format_duration(age)} ago ({allowed})"
    metrics = allowed.metrics(age) | numbers(look.memory)
    return Result(Status.OK, summary, metrics, progress=_progress(look, allowed))


def _progress(look: Look, allowed: Allowance, *, stalled: bool = False) -> Progress:
    """Whether it gets on, and by when it should have; no times where it never told how far it is."""
    report, clocks = look.memory.get("report"), look.clocks
    counted = clocks.moved if clocks.weight >= 1 else 0.0  # what only looks like a count is no step
    at = max(counted, float(report["at"]) if report else 0.0)
    pause = str(allowed.why) if allowed.pause and not stalled else ""
    return (
        Progress(stalled, max(at, _goes_on(look.memory)), clocks.due(look.now), pause)
        if at
        else Progress(stalled, pause=pause)
    )


# Wording.


def before(memory: Mapping[str, Any]) -> str:
    """That the job whose hang was told has ended, until the next one progresses: it is no recovery."""
    return f"job {memory['ended']} ended without going on; " if "ended" in memory else ""


def cause(memory: Mapping[str, Any], state: Working) -> str:
    """`cause: ...` with the node to be left out, or the core file to be looked at, where they are known."""
    if "cause" not in memory:
        return ""
    kind, sentence, address, *_ = memory["cause"]
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
