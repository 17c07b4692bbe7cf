"""What a batch system says of jobs, as values: one Job a line of the queue, one Ending a line of accounting.

A Snapshot is one look at both. All times are seconds since the epoch; None means that the system did not say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

OWN_MARK = "watchdogd:"
"""Jobs that watchdogd itself submits bear `--comment=watchdogd:HOME-ID` (contract §8)."""
WAITING_STATES = frozenset(
    {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
"""Long words of squeue for a job that has no nodes (yet, or again)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the queue: a job, one task of an array, the waiting rest of an array, or one het component.

    `id` is what people see (`88_3`, `88_[4-9%1]`, `123+0`), `raw_id` the number that every Slurm command
    takes. `state` is Slurm's long word without flags (RUNNING, PENDING ...).
    """

    id: str
    raw_id: str
    name: str
    user: str
    state: str
    reason: str = ""
    array_id: str = ""
    tasks: int = 1
    partition: str = ""
    account: str = ""
    comment: str = ""
    dependency: str = ""
    nodes: str = ""
    node_count: int = 1
    submitted_at: float | None = None
    started_at: float | None = None
    start_estimate: float | None = None
    ends_at: float | None = None
    time_limit: float | None = None
    stdout: str = ""
    work_dir: str = ""

    @property
    def waiting(self) -> bool:
        """True while it has no nodes: its start is to come."""
        return self.state in WAITING_STATES

    @property
    def own(self) -> bool:
        """True for watchdogd's own links and drop-ins: they never count as anybody's run."""
        return self.comment.startswith(OWN_MARK)


@dataclass(frozen=True, slots=True)
class Ending:
    """One job as accounting remembers it; `ended_at` is None while it lives.

    `state` is the bare word (CANCELLED, without `by 1000`), `cancelled_by` the user of a CANCELLED one,
    `exit_code` and `signal` the two halves of Slurm's `3:0`.
    """

    id: str
    raw_id: str
    name: str
    user: str
    state: str
    exit_code: int | None = None
    signal: int | None = None
    submitted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    nodes: str = ""
    cancelled_by: str = ""
    comment: str = ""
    reason: str = ""

    @property
    def own(self) -> bool:
        """True for watchdogd's own links and drop-ins."""
        return self.comment.startswith(OWN_MARK)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the batch system, shared by all checks of a round.

    `jobs` is what lives now, or None where the system did not answer (`trouble` says why): then nothing
    may be called gone. `endings` is what accounting says of jobs of the configured names that are no longer
    in the queue, newest last, or None where it did not answer (`endings_trouble`).
    """

    taken_at: float
    jobs: tuple[Job, ...] | None = None
    trouble: str = ""
    endings: tuple[Ending, ...] | None = None
    endings_trouble: str = ""
    backend: str = "slurm"
    users: frozenset[str] = field(default_factory=frozenset)

    def of(self, name: str) -> tuple[Job, ...]:
        """The living jobs of a run by its job name; never watchdogd's own."""
        return tuple(
            job
            for job in self.jobs or ()
            if job.name == name and not job.own and (not self.users or job.user in self.users)
        )

    def ended(self, name: str) -> tuple[Ending, ...]:
        """What accounting remembers of a run's jobs, oldest first; never watchdogd's own."""
        return tuple(
            end
            for end in self.endings or ()
            if end.name == name and not end.own and (not self.users or end.user in self.users)
        )
