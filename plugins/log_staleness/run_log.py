"""State of log_staleness: what a run's log and its Guard have reported so far.

The parts that are not frozen are changed by `advance`, in its own copy. What comes with each line is a named
tuple, which is made three times as fast.
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
"""Output buffers are multiples of so many bytes: C's stdio, Python's and Fortran's, pipes."""


@dataclass(slots=True)
class LookTimes:
    """Times of looks: the `last` one, and the `usual` seconds between two.

    `gap`: there was no look for much longer than usual, so that the log's rhythm in between is not known.
    """

    last: float | None = None
    usual: float | None = None
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """Bytes that were skipped because looks did not end: how many looks, which bytes, whether just now."""

    times: int
    what: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Labels:
    """Numbers before lines, which are ranks or steps.

    Kept: the last one, how often the next one was greater, and how often not.
    """

    last: int = -1
    rose: int = 0
    again: int = 0


class Blocks(NamedTuple):
    """Growth in whole blocks, typical of buffered output: how often, and the longest pause."""

    number: int = 0
    longest: float = 0.0

    def after(self, before: ReadPosition | None, place: ReadPosition) -> Blocks:
        """Return it after a look at a file; growth by anything but whole blocks is not buffered."""
        grew = place.size - (before.size if before else 0)
        if grew <= 0:
            return self
        if place.size % BLOCK or grew % BLOCK:
            return Blocks()
        pause = place.grown_at - before.grown_at if before else 0.0
        return Blocks(self.number + 1, max(self.longest, pause))


@dataclass(slots=True)
class Files:
    """Files of the log.

    `places`: how far each was read, by the file's key. `drawn`: the last state of each one's open line.
    `versions`: former content of files that are rewritten, by path.
    `skew`: seconds by which the file server's clock is ahead. `blocks`: growth in whole blocks, by file.
    `missing`: since when there is no file; `obstacle`: what is there instead.
    `tail`: the last lines, to be shown. `addresses`: hosts by network address, as NCCL prints them.
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
        """Growth in blocks, if all files that grew recently do so; None: some are written line by line."""
        found = [self.blocks.get(key, Blocks()) for key in self.places]
        whole = bool(found) and all(each.number for each in found)
        return max(found, key=lambda each: each.longest) if whole else None


@dataclass(frozen=True, slots=True)
class HungJob:
    """Job that hung: its id, and the number that it had reached, of a series; empty if it had none."""

    id: str
    series: str = ""
    reached: float = 0.0


@dataclass(slots=True)
class JobSeen:
    """Job to which all of `told` belongs: its name with its start, its id, and since when it works.

    `whole`: its log was read from its beginning. `resumed`: there was a job before it.
    `work`: since when progress was possible.
    `hung`: id of the job whose hang was reported; `ended`: that job ended so. `before`: the job before this
        one, which hung; None once this one has a fault of its own.
    """

    name: str = ""
    id: str = ""
    since: float = 0.0
    whole: bool = False
    resumed: bool = False
    work: Since = field(default_factory=Since)
    hung: str | None = None
    ended: str | None = None
    before: HungJob | None = None

    def since_of(self, job: Job | None, now: float) -> float:
        """Return since when a job works; None: this job."""
        if job is None or name_of(job) == self.name:
            return self.since
        return now if job.started_at is None else job.started_at


def name_of(job: Job) -> str:
    """Return a name that identifies a job, different for each requeue."""
    return f"{job.raw_id}@{job.started_at or 0:.0f}"


class LastStep(NamedTuple):
    """Last progress: series, number and total, when it came, and the seconds per iteration.

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
    """Phase that may be silent for `allowed` seconds: its name, and when it began."""

    name: str
    allowed: float
    at: float


@dataclass(frozen=True, slots=True)
class CauseSeen:
    """Cause for which the training ends, according to a line, and when that came.

    `survived`: the one that wrote it went on writing. `core`: its core file.
    """

    cause: Cause
    at: float
    survived: bool = False
    core: str = ""

    @property
    def crashed(self) -> bool:
        """True if no training survives such a line, and its writer has written nothing since."""
        return self.cause.death and not self.survived


class Loss(NamedTuple):
    """Last loss that was a number, and the readings since that are none.

    `bad`: how many in a row are none, the first of them at `since`, the last one as `word`, under `name`.
    `beats`: heartbeats report it.
    """

    good: float | None = None
    bad: int = 0
    since: float = 0.0
    word: str = ""
    name: str = ""
    beats: bool = False


@dataclass(frozen=True, slots=True)
class Skips:
    """Which of the `last` reports skipped iterations (1), how many reported that, and the running total."""

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

    Kept: the last number that it reported, and the count of all lines at this line and at the one before.
    """

    number: float | None
    line: int
    before: int
    at: float


@dataclass(frozen=True, slots=True)
class Peer:
    """Node with the address in a cause; empty if none was found."""

    address: str
    node: str


@dataclass(frozen=True, slots=True)
class BeatSeen:
    """Last heartbeat: when it was `written` by its file server's clock, and when it came by ours.

    Also its source, and how many heartbeats brought a loss.
    """

    written: float
    at: float
    where: str
    losses: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Why the Guard asks the loop to save, and since when."""

    why: str
    at: float


@dataclass(slots=True)
class JobTold:
    """What one job has reported so far.

    `counter`: how its numbers grow.
    `grew`: when other work last reported progress, or an unfinished line without a number last grew, by more
        than dots.
    `seen`: patterns of `must_see` that came. `ranks`: who wrote, and `lines`, how many in all.
    `stray`: source and time of a heartbeat that an earlier job left.
    `outlived`: beginnings of the phase and of the cause after which a heartbeat came.
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
    """Seconds for each `unit` of work in a series (`token`, `sample`, `iteration`), and their level."""

    series: str
    unit: str
    level: Level


@dataclass(frozen=True, slots=True)
class Lengths:
    """Least and greatest length of answers, sequences or episodes; `vary`: by more than a tenth."""

    least: float
    most: float
    vary: bool = False


@dataclass(slots=True)
class Curves:
    """Loss and pace over all jobs of the run.

    Kept: the loss's level, the lowest so far by the training's number (`lowest`), the pace, the lengths that
    it depends on, and series and number of the job before.
    """

    level: Level | None = None
    lowest: list[tuple[float, float]] = field(default_factory=list)
    pace: Pace | None = None
    lengths: Lengths | None = None
    before: tuple[str, float] | None = None


@dataclass(slots=True)
class RunLog:
    """State of a run between rounds.

    `clocks`: what rises in the lines, whatever their format. `known`: a line of progress was recognised.
    `beats`: a heartbeat came. `beaten`: the rhythm was learned from heartbeats. `beat_before`: process that
        wrote heartbeats for the job before.
    `judged`: subjects judged so far, of any job (`loss`, `pace`, `skips`).
    `signs`: the last signs of work, or against it, from other checks.
    `stale_after`: as configured, in seconds; None if the limit is learned.
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
        """True if the last line that came is one that no training survives."""
        return self.told.cause is not None and self.told.cause.crashed
