"""Verdict on a run that is silent, or writes without progress, and the limit that applies. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from watchdogd.checks.working_job import weigh
from watchdogd.plugin import Advice, Metric, Progress, Result, Status, warning
from watchdogd.plugins.log_staleness import log_wording
from watchdogd.plugins.log_staleness.learned_rhythm import UNKNOWN, Reason
from watchdogd.plugins.log_staleness.stall_limit import MOST
from watchdogd.system.text import shortened
from watchdogd.units import age, local_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.batch.run_models import JobDeed
    from watchdogd.checks.working_job import Working
    from watchdogd.plugins.log_staleness.learned_rhythm import Limit, LogState
    from watchdogd.plugins.log_staleness.run_log import HungJob, RunLog

LAG = 5.0
"""Seconds by which a heartbeat may be written after the log's line of the same step."""
_FIRST_BLOCK = 2 * UNKNOWN
"""Seconds of silence allowed if output comes in whole blocks of kilobytes, each of many lines."""
_BLOCK_PAUSES = 3.0
"""How many times the longest pause between two blocks the next one may take."""
UNBUFFER = "its output comes in whole blocks: python -u or PYTHONUNBUFFERED=1 show each line at once"
_SAVES = "to save, as its Guard asked"
_QUIET = "quiet phase"
AFTER_CRASH = 300.0
"""Seconds without progress allowed after a line that no training survives: Slurm may say RUNNING for
hours."""
_RHYTHM = 1.5
"""How many times the usual pause is allowed after such a line, if that is longer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits, None if not configured.

    `stale_after` and `grace` are in seconds, `progress` is a pattern.
    """

    stale_after: float | Literal["auto"]
    grace: float | None
    progress: str | None = None

    @property
    def first(self) -> float:
        """Seconds allowed until the first progress line, unless the silence before it has another limit."""
        return UNKNOWN if self.grace is None else self.grace


@dataclass(frozen=True, slots=True)
class Allowance:
    """Seconds that may pass without progress, and in words where the number comes from.

    `passing`: a phase or a crash sets it for now, whatever is usual. `pause`: the run stands still on
    purpose. `over`: its last step was reached, so that nothing hangs.
    """

    seconds: float
    why: str
    passing: bool = False
    pause: bool = False
    over: bool = False

    @classmethod
    def learned(cls, limit: Limit) -> Allowance:
        """Return the limit learned from the run's own past."""
        return cls(limit.seconds, limit.reason, over=limit.reason is Reason.DONE)

    def metrics(self, age: float) -> dict[str, Metric]:
        """Return the silence as metrics: its age, and the limit if it is not the usual one."""
        found = {"age": Metric(round(age), "s", crit=self.seconds)}
        return {**found, "allowed": Metric(self.seconds, "s")} if self.passing else found

    def __str__(self) -> str:
        """Return it as messages say it."""
        return f"limit {age(self.seconds)}"

    @property
    def fact(self) -> str:
        """Words that say where it comes from."""
        return f"{self}: {self.why}"


@dataclass(frozen=True, slots=True)
class Look:
    """Look to be judged: the log's pattern (empty: none), the job, and what is known of it `now`.

    `process`: the job is a plain process. `deed`: by what watchdogd ended the job before.
    """

    pattern: str
    state: Working
    log: RunLog
    now: float
    process: bool = False
    deed: JobDeed | None = None

    @property
    def begin(self) -> float:
        """Since when progress was possible: according to the job, or since the log is missing."""
        work = self.log.job.work
        known = work.at if self.state.job or self.state.blind else work.excused
        return max(known, self.log.files.missing or 0.0)

    @property
    def clocks(self) -> LogState:
        """State of the log's own numbers and pauses."""
        return self.log.clocks

    @property
    def stepped(self) -> float:
        """When the number that is known to be the training's last grew; 0: never."""
        return self.log.told.step.at if self.log.told.step else 0.0

    @property
    def grew(self) -> float:
        """When an unfinished line (per cent, a bar) last grew.

        That counts as work, unless a cause was reported that nobody survives.
        """
        cause = self.log.told.cause
        return 0.0 if cause and cause.cause.death else self.log.told.grew

    @property
    def newest(self) -> Heard | None:
        """Latest sign of life: a file or the Guard's heartbeat; None if there was none.

        A file written to almost as late is named before the heartbeat, since people can read it.
        """
        places, beat = self.log.files.places.values(), self.log.told.beat
        signs = [Heard(place.path, place.grown_at) for place in places]
        newest = max(signs, key=lambda sign: (sign.at, sign.of), default=None)
        if beat and beat.at > (newest.at if newest else 0.0) + LAG:
            newest = Heard(beat.where, beat.at, beats=True)
        at = max(newest.at if newest else 0.0, beat.at if beat else 0.0, self.begin)
        return newest and Heard(newest.of, at, newest.beats)


@dataclass(frozen=True, slots=True)
class Heard:
    """Sign of life `at` a time: in the file `of` this path, or a process's heartbeat."""

    of: str
    at: float
    beats: bool = False

    def __str__(self) -> str:
        """Return its source in words."""
        return "heartbeat" if self.beats else "output"

    @property
    def fact(self) -> str:
        """Words that say what it was, and when."""
        return f"last {self} at {local_time(self.at)}: {self.of}"

    def without_progress(self, begin: float, now: float) -> str:
        """Return that there was no progress since `begin`, and when lines last came, if recently."""
        return "no progress" if 2 * (now - self.at) > now - begin else f"{self} but no progress"


def judge(look: Look, limits: Limits) -> Result:
    """Judge whether the run is stale (silent) or stuck (it writes, but nothing in it grows)."""
    allowed = _allowance(limits, look)
    newest = look.newest
    if newest is None:
        return _waiting(look, look.begin, allowed, "no log" if look.pattern else "no heartbeat").of_kind(
            "no log"
        )
    if look.now - newest.at >= allowed.seconds:
        return _waiting(look, newest.at, allowed, f"no {newest}")
    return _standstill(look, limits, allowed, newest) or _fine(look, newest, allowed)


def _standstill(look: Look, limits: Limits, allowed: Allowance, newest: Heard) -> Result | None:
    """Report that lines come but none of their numbers has grown for too long, or None."""
    step, clocks, crashed = look.log.told.step, look.clocks, look.log.crashed
    moved = max(clocks.worked if crashed else clocks.progressed, look.stepped)
    if not moved or (not clocks.moved and not (step and limits.stale_after != "auto" and not step.seldom)):
        return _no_progress_yet(look, limits, allowed, newest)
    phase = look.log.told.phase
    since = max(moved, look.begin, phase.at if phase else 0.0, look.grew)
    limit = allowed
    if limits.stale_after == "auto" and not allowed.passing and not crashed:
        stand = clocks.standstill(look.now)
        if stand is None:
            return None
        since, limit = max(since, stand[0]), Allowance.learned(stand[1])
    if step and step.seldom and not crashed:
        limit = _seldom(clocks, limit, look.now)
    if look.now - since < limit.seconds:
        return None
    return _waiting(look, since, limit, newest.without_progress(since, look.now))


def _seldom(clocks: LogState, limit: Allowance, now: float) -> Allowance:
    """Return the limit for counters that grow once an epoch, which takes its time."""
    stand = clocks.standstill(now)
    if clocks.rises < 2 or clocks.bare or stand is None:
        return Allowance(max(limit.seconds, MOST), Reason.NEW)
    return max(limit, Allowance.learned(stand[1]), key=lambda each: each.seconds)


def _no_progress_yet(look: Look, limits: Limits, allowed: Allowance, newest: Heard) -> Result | None:
    """Judge whether the start has had enough time, if bytes come but no number yet."""
    if not look.clocks.templates:
        return None  # an unfinished line says nothing by itself
    begin = look.begin and max(look.begin, look.clocks.novel, look.clocks.stirred, look.grew)
    limit = Allowance(max(allowed.seconds, limits.first), Reason.START, passing=True)
    step, cause = look.log.told.step, look.log.told.cause
    if cause and cause.crashed:
        begin, limit = max(look.begin, cause.at), allowed
    elif step and step.seldom:
        limit = Allowance(MOST, Reason.NEW)
    if not begin or look.now - begin < limit.seconds:
        return None
    if limits.progress and not look.log.known:
        return _unmatched(look, limits.progress)
    return _waiting(look, begin, limit, newest.without_progress(begin, look.now))


def _allowance(limits: Limits, look: Look) -> Allowance:
    """Return the limit that applies now to a silence."""
    usual, told = _usual(limits, look), look.log.told
    if told.cause and told.cause.crashed:
        crashed = max(AFTER_CRASH, _RHYTHM * look.clocks.usual(look.now))
        if usual.seconds > crashed:
            return Allowance(crashed, f"after '{told.cause.cause.kind}' in the log", passing=True)
    phase = told.phase
    if phase and phase.allowed > usual.seconds:
        return Allowance(phase.allowed, f"{_QUIET} '{phase.name}'", passing=True, pause=True)
    if told.asked and limits.stale_after == "auto" and usual.seconds < UNKNOWN:
        return Allowance(UNKNOWN, f"{_SAVES}: {told.asked.why}", passing=True, pause=True)
    return usual


def _usual(limits: Limits, look: Look) -> Allowance:
    """Return the limit without special circumstances."""
    starts = not look.clocks.moved and look.log.told.step is None
    start = limits.grace if starts else None
    if limits.stale_after != "auto":
        usual = Allowance(limits.stale_after, "stale_after in config.toml")
    else:
        usual = Allowance.learned(look.clocks.silence(look.now))
        start = limits.first if starts else None
        blocks = look.log.files.buffered
        buffered = max(_BLOCK_PAUSES * blocks.longest, _FIRST_BLOCK) if blocks else 0.0
        if buffered > max(usual.seconds, start or 0.0):
            return Allowance(buffered, "its output comes in blocks", passing=True)
    return Allowance(start, Reason.START, passing=True) if start and start > usual.seconds else usual


def _waiting(look: Look, since: float, allowed: Allowance, what: str) -> Result:
    """Return the alarm once the limit has passed and no sign of work holds it back; OK before that.

    UNKNOWN if it is not known whether a job runs. `what` is missing (`no output`).
    """
    lasted = look.now - since
    metrics = allowed.metrics(lasted) | log_wording.numbers(look.log)
    said = f"{what} for {age(lasted)} ({allowed})"
    progress = _progress(look, allowed)
    if lasted < allowed.seconds:
        return _ended(
            look, Result(Status.OK, said, metrics, progress=progress).saying(*_known(look, allowed))
        )
    told = look.log.signs if look.newest else ()  # having no log at all is no stall
    signs = weigh(told, since, allowed.seconds, look.now)
    if signs.held:
        metrics |= replace(allowed, seconds=signs.seconds, passing=True).metrics(lasted)
        progress = replace(progress, pause=signs.words[0])
        held = Result(Status.OK, f"{said}, but {signs.words[0]}", metrics, progress=progress)
        return _ended(look, held.saying(*_known(look, allowed)))
    at = f", at {log_wording.number(look.log.told.step)}" if look.log.told.step else ""
    cause = log_wording.cause(look.log)
    details = log_wording.evidence(look.log)
    facts = [*signs.words, *_known(look, allowed, since)]
    if look.state.blind:
        doubt = Result(Status.UNKNOWN, f"{said}, not known whether its job runs{at}", metrics, details)
        doubtful = doubt.saying(f"not known whether its job runs: {look.state.blind}", *facts, advice=[_ASK])
        return doubtful.dated(since)
    if allowed.over:
        over = Result(
            Status.WARNING, f"all its steps are done, but it still runs, {said}{at}", metrics, details
        )
        return replace(over, progress=progress).of_kind("over").saying(*facts).dated(since)
    if signs.status is Status.WARNING:  # do not act on a run that seems to work
        seems = Result(signs.status, f"{said}, but {signs.words[0]}{at}", metrics, details)
        return replace(seems, progress=progress).saying(*facts).dated(since)
    stalls = look.newest is not None  # not known without a log
    job = look.state.job
    stall = "stalled" if job is None or job.working else "stalled, suspended"
    facts = [each for each in facts if not stalls or each != f"cause: {cause}"]  # the first line has it
    what = f"{stall}, {said}{at}" if stalls else said
    hung = Result(
        Status.CRITICAL,
        f"{stall} for {age(lasted)}: {cause}{at}" if cause and stalls else what,
        metrics,
        details,
        progress=_progress(look, allowed, stalled=stalls),
        short=f"{stall} for {age(lasted)}",
        suspects=log_wording.silent_rank(look.log),
    ).saying(*facts, advice=[] if stalls else [_NO_LOG])
    hung = hung.dated(since)
    return hung.triggers("on_hang") if stalls or not look.pattern else hung


_ASK = Advice("To see what runs, once the queue answers:", "watchdogd status")
_NO_LOG = Advice("Correct log under the run in config.toml, or see why the run writes none.")


def _known(look: Look, allowed: Allowance, since: float | None = None) -> Iterator[str]:
    """Return the facts: the limit, the latest sign of life, the cause, who stopped first, the job."""
    newest, job = look.newest, look.state.job
    if newest:
        yield f"last {newest}: {newest.of}" if newest.at == since else newest.fact
    elif look.pattern:
        yield look.log.files.obstacle or f"no file matches {look.pattern}"
    yield allowed.fact
    if why := log_wording.cause(look.log):
        yield f"cause: {why}"
    yield from filter(None, [log_wording.first_to_stop(look.log, look.begin)])
    if look.state.blind:
        return
    if job:
        doing = "runs" if job.working else f"is {job.state.lower()}"
        noun = "process" if look.process else "job"
        why = f", {job.reason}" if look.process and job.reason else ""
        yield f"{noun} {job.id} {doing}{f' on {job.nodes}' if job.nodes else ''}{why}"
    if look.log.files.buffered:
        yield UNBUFFER


def _unmatched(look: Look, pattern: str) -> Result:
    """Report that lines come, but none has ever matched the user's pattern."""
    none = warning(
        f"no log line matched progress = '{shortened(pattern, 30)}' for {age(look.now - look.begin)}",
        details=log_wording.evidence(look.log),
    ).saying(
        f"progress = '{pattern}' matches no line of {look.pattern}",
        advice=[Advice("Correct progress in config.toml, or see why the run makes no progress.")],
    )
    return none.of_kind("unmatched").dated(look.begin)


def _fine(look: Look, newest: Heard, allowed: Allowance) -> Result:
    step = look.log.told.step
    what, at = (log_wording.number(step), step.at) if step else (f"{newest}", newest.at)
    metrics = allowed.metrics(look.now - newest.at) | log_wording.numbers(look.log)
    fine = Result(Status.OK, f"{what}, {age(look.now - at)} ago", metrics, progress=_progress(look, allowed))
    return _ended(look, fine.saying(*_known(look, allowed)))


def _ended(look: Look, result: Result) -> Result:
    """Return how a stall ended: with progress, with another job's progress, or without any."""
    step, before = look.log.told.step, look.log.job.before
    if before is not None and look.state.job:
        return _of_another(look, result, before, look.state.job.id)
    if step:
        return result.ending("makes progress again", log_wording.number(step))
    return result.ending("writes output again")


def _of_another(look: Look, result: Result, before: HungJob, job: str) -> Result:
    """Return how the stall of the job before ended, which did not recover; `job` is the one that runs now."""
    noun, step = "process" if look.process else "job", look.log.told.step
    stays = f" ({noun} {before.id} still runs)" if before.id in look.state.beside else ""
    job = f"{noun} {job}{stays}"
    if step:
        reached = f" ({before.reached:,.10g} before)" if before.series == step.series else ""
        number = f"{log_wording.number(step)}{reached}"
        return result.ending(f"the next {noun} makes progress", f"{number}, {job}")
    wrote = look.newest is not None and look.newest.at > look.begin
    if wrote and not look.log.known:
        return result.ending(f"the next {noun} writes output", job)
    return result.ending(f"the next {noun} began", job, recovered=False)


def _progress(look: Look, allowed: Allowance, *, stalled: bool = False) -> Progress:
    """Return its progress, and by when more is due; no times if it never reported how far it is."""
    clocks = look.clocks
    counted = clocks.progressed if clocks.weight >= 1 else 0.0  # may only look like a counter
    at = max(counted, look.stepped)
    pause = "" if stalled else str(allowed.why) if allowed.pause else _announced(clocks)
    far = log_wording.how_far(look.log)
    if not at:
        return replace(far, stalled=stalled, pause=pause)
    return replace(far, stalled=stalled, at=max(at, look.grew), within=clocks.due(look.now), pause=pause)


def _announced(clocks: LogState) -> str:
    said = clocks.announced
    return f"after '{said}'" if said else ""
