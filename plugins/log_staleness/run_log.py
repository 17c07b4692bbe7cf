"""Memory of log_staleness of a run: what its log and its Guard have told so far.

Parts that are not frozen are changed by `advance`, in a copy of its own. What each line brings is a named
tuple: it is made in a third of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from watchdogd.checks.working_job import Since
from watchdogd.parsers.logs.failures import Cause
from watchdogd.parsers.logs.log_files import ReadPosition
from watchdogd.plugin import Sign
from watchdogd.plugins.log_staleness.counter import Count
from watchdogd.plugins.log_staleness.file_versions import Version
from watchdogd.plugins.log_staleness.learned_rhythm import LogState
from watchdogd.plugins.log_staleness.loss_level import Level

if TYPE_CHECKING:
    from watchdogd.plugin import Job


BLOCK = 4096
"""Bytes of which every output buffer is a multiple: C's stdio, Python's and Fortran's, pipes."""


@dataclass(slots=True)
class LookTimes:
    """Times of looks: the `last` one, and the `usual` seconds between two.

    `gap`: nobody looked for much longer than that, and what came meanwhile does not show its rhythm.
    """

    last: float | None = None
    usual: float | None = None
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """Bytes left out since looks at the log did not end: how many looks, which bytes, whether in this one."""

    times: int
    what: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Labels:
    """Numbers before lines, which name ranks or are steps.

    Kept are the last one, how often the next one was greater, and how often it was not.
    """

    last: int = -1
    rose: int = 0
    again: int = 0


class Blocks(NamedTuple):
    """Growth in whole blocks, as of a program that buffers its output: how often, and the longest pause."""

    number: int = 0
    longest: float = 0.0

    def after(self, before: ReadPosition | None, place: ReadPosition) -> Blocks:
        """Return it after a look at a file; what grows by anything else is not buffered in blocks."""
        grew = place.size - (before.size if before else 0)
        if grew <= 0:
            return self
        if place.size % BLOCK or grew % BLOCK:
            return Blocks()
        pause = place.grown_at - before.grown_at if before else 0.0
        return Blocks(self.number + 1, max(self.longest, pause))


@dataclass(slots=True)
class Files:
    """Files of the log: how far each was read (`places`, by the file's key).

    `drawn`: how the open line of each last looked; `versions`: what those that are written anew said, by
    their paths; `skew`: seconds by which the file server's clock is ahead; `missing`: since when there is no
    file, and `obstacle`, what is there instead; `tail`: the last lines, to be shown; `addresses`: hosts by
    network address, as NCCL tells them; `blocks`: how files grow, where they grow in whole blocks alone.
    """

    places: dict[str, ReadPosition] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)
    versions: dict[str, Version] = field(default_factory=dict)
    skew: float = 0.0
    missing: float | None = None
    obstacle: str = ""
    unread: Unread | None = None
    labels: Labels = field(default_factory=Labels)
    tail: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, Blocks] = field(default_factory=dict)

    @property
    def buffered(self) -> Blocks | None:
        """Growth in blocks, where all files that grew lately do so; None: somebody writes line by line."""
        found = [self.blocks.get(key, Blocks()) for key in self.places]
        whole = bool(found) and all(each.number for each in found)
        return max(found, key=lambda each: each.longest) if whole else None


@dataclass(slots=True)
class JobSeen:
    """Job that all of `told` is of: its name with its start, its id, and since when it works.

    `whole`: its log was read from its beginning on; `resumed`: there was a job before it; `work`: since when
    there could be progress; `hung`: the id of the job whose hang was reported, and `ended`, that it ended so.
    """

    name: str = ""
    id: str = ""
    since: float = 0.0
    whole: bool = False
    resumed: bool = False
    work: Since = field(default_factory=Since)
    hung: str | None = None
    ended: str | None = None

    def since_of(self, job: Job | None, now: float) -> float:
        """Return since when a job works; None: this one."""
        if job is None or name_of(job) == self.name:
            return self.since
        return now if job.started_at is None else job.started_at


def name_of(job: Job) -> str:
    """Return what tells a job from every other, those of a requeued id included."""
    return f"{job.raw_id}@{job.started_at or 0:.0f}"


class LastStep(NamedTuple):
    """Last progress: its series, number and total, when it came, and the seconds of an iteration.

    `coarse` and `seldom`: see ProgressReport.
    """

    series: str
    number: float
    total: float | None
    at: float
    coarse: bool = False
    seldom: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class QuietPhase:
    """Phase that may be silent for `allowed` seconds: what names it, and when it began."""

    name: str
    allowed: float
    at: float


@dataclass(frozen=True, slots=True)
class CauseSeen:
    """Cause for which the training ends, as a line told it, and when.

    `survived`: who wrote it went on to write. `core`: the core file that it left.
    """

    cause: Cause
    at: float
    survived: bool = False
    core: str = ""

    @property
    def crashed(self) -> bool:
        """True if it is a line that no training survives, and the last that was heard of who wrote it."""
        return self.cause.death and not self.survived


class Loss(NamedTuple):
    """Last loss that was a number, and those since that are none.

    `bad`: how many that are none came since, in a row, the first of them `since` that time, the last reading
    as `word`, under this `name`. `beats`: heartbeats told it.
    """

    good: float | None = None
    bad: int = 0
    since: float = 0.0
    word: str = ""
    name: str = ""
    beats: bool = False


@dataclass(frozen=True, slots=True)
class Skips:
    """Record of which of the `last` reports skipped iterations (1), how many told it, and running total."""

    last: tuple[int, ...] = ()
    seen: int = 0
    total: float | None = None


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Line that must not come: the pattern that it matches, the line, and when it came."""

    pattern: str
    line: str
    at: float


class Rank(NamedTuple):
    """Last line of a rank, and when it came.

    Kept are the last number that it told, and the count of all lines at this line and at the one before.
    """

    number: float | None
    line: int
    before: int
    at: float


@dataclass(frozen=True, slots=True)
class Peer:
    """Node that has the address that a cause names, empty where none was found."""

    address: str
    node: str


@dataclass(frozen=True, slots=True)
class BeatSeen:
    """Last heartbeat: when it was `written` by its file server's clock, and when it came by ours.

    Kept are also from where it came, and how many brought a loss.
    """

    written: float
    at: float
    where: str
    losses: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Reason why the Guard asks the loop to save, and since when."""

    why: str
    at: float


@dataclass(slots=True)
class JobTold:
    """State of what one job has told.

    `counter`: how its numbers grow; `grew`: when other work last told how far it is, or a line that does not
    end last grew without a number, and not by dots alone; `seen`: patterns of `must_see` that came; `ranks`:
    who wrote, and `lines`, how many in all; `stray`: where and when the heartbeat was written that an earlier
    job left; `outlived`: times at which the phase and the cause began that a heartbeat came after.
    """

    counter: dict[str, Count] = field(default_factory=dict)
    step: LastStep | None = None
    grew: float = 0.0
    phase: QuietPhase | None = None
    cause: CauseSeen | None = None
    loss: Loss | None = None
    losses: int = 0
    skips: Skips | None = None
    seen: list[str] = field(default_factory=list)
    forbidden: Forbidden | None = None
    ranks: dict[str, Rank] = field(default_factory=dict)
    lines: int = 0
    peer: Peer | None = None
    beat: BeatSeen | None = None
    stray: tuple[str, float] | None = None
    outlived: tuple[float | None, float | None] = (None, None)
    asked: Asked | None = None


class Pace(NamedTuple):
    """Seconds for each `unit` of work of a series (`token`, `sample`, `iteration`), and their level."""

    series: str
    unit: str
    level: Level


@dataclass(frozen=True, slots=True)
class Lengths:
    """Least and greatest length of what is worked on; `vary`: they differ by more than a tenth."""

    least: float
    most: float
    vary: bool = False


@dataclass(slots=True)
class Curves:
    """Course of loss and pace, over all jobs of the run.

    Kept are the loss's level, the lowest so far by the training's number (`lowest`), the pace, the lengths
    that it depends on, and series and number of the job before.
    """

    level: Level | None = None
    lowest: list[tuple[float, float]] = field(default_factory=list)
    pace: Pace | None = None
    lengths: Lengths | None = None
    before: tuple[str, float] | None = None


@dataclass(slots=True)
class RunLog:
    """Memory of a run over rounds.

    `clocks`: what rises in the lines, whatever their format; `known`: a line of progress was ever known;
    `beats`: a heartbeat ever came, `beaten`: the rhythm was learned of heartbeats, `beat_before`: which
    process beat for the job before; `judged`: what was judged of any job so far (`loss`, `pace`, `skips`);
    `signs`: those of work, or against it, that other checks saw last. `stale_after`: as configured, in
    seconds; None where the limit is learned.
    """

    VERSION: ClassVar[int] = 1

    clocks: LogState = field(default_factory=LogState)
    looks: LookTimes = field(default_factory=LookTimes)
    files: Files = field(default_factory=Files)
    job: JobSeen = field(default_factory=JobSeen)
    told: JobTold = field(default_factory=JobTold)
    curves: Curves = field(default_factory=Curves)
    known: bool = False
    beats: bool = False
    beaten: bool = False
    beat_before: str = ""
    judged: list[str] = field(default_factory=list)
    signs: tuple[Sign, ...] = ()
    stale_after: float | None = None

    @property
    def crashed(self) -> bool:
        """True if the last that was heard is a line that no training survives."""
        return self.told.cause is not None and self.told.cause.crashed
