"""Values that a batch system reports: one Job a line of the queue, one Ending a line of accounting.

A Snapshot holds both at one time. All times are seconds since the epoch; None: the system did not say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

OWN_MARK = "watchdogd:"
"""Jobs that watchdogd itself submits bear `--comment=watchdogd:HOME-ID`."""
WAITING_STATES = frozenset(
    {
        "EXPEDITING",
        "LAUNCH_FAILED",
        "PENDING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
    }
)
"""Long words of squeue for a job that has no nodes (yet, or again)."""
WORKING_STATES = frozenset({"RUNNING", "RESIZING", "SIGNALING", "UPDATE_DB"})
"""Words for a job whose processes run; all but the first are flags that hide it for as long as they last."""
STARTING_STATES = frozenset({"CONFIGURING", "POWER_UP_NODE", "RECONFIG_FAIL"})
"""Words for a job whose nodes are still being made ready."""
PAUSED_STATES = frozenset({"STOPPED", "SUSPENDED"})
"""Words for a job whose processes stand still."""
ENDING_STATES = frozenset({"COMPLETING", "STAGE_OUT"})
"""Words for a job that is over, and has not left its nodes yet."""
PLACED_STATES = WORKING_STATES | STARTING_STATES | PAUSED_STATES | ENDING_STATES
"""Words for a job that has nodes. With those that wait and those that are over these are all that Slurm
documents up to 25.11 (Job State Codes: base states and flags)."""
ENDED_STATES = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
"""Words for a job that is over; the controller keeps it for MinJobAge (300 s by default)."""


@dataclass(frozen=True, slots=True)
class Job:
    """A line of the queue: a job, a task of an array, the waiting rest of an array, or a het component.

    `id` is what people see (`88_3`, `88_[4-9%1]`, `123+0`), `raw_id` the number that `srun --jobid` and the
    records go by; scancel and scontrol want `handle`. `state` is Slurm's long word without flags (RUNNING,
    PENDING ...). `expected_nodes` are those on which the scheduler means to start a job that waits.
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
    expected_nodes: str = ""
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
    def placed(self) -> bool:
        return self.state in PLACED_STATES

    @property
    def working(self) -> bool:
        return self.state in WORKING_STATES

    @property
    def leaving(self) -> bool:
        """True where it is over, and is being cleared away: nothing is to be expected of it."""
        return self.state in ENDING_STATES

    @property
    def strange(self) -> bool:
        """True where its state is a word that nobody knows: a newer Slurm's."""
        return not (self.waiting or self.placed or self.ended)

    @property
    def handle(self) -> str:
        """The id that scancel and scontrol take for this job alone (a het job as a whole), to be quoted.

        Measured on 22.05: scancel of an array task's raw id does nothing, with exit 0, and that of the last
        task, whose raw id is the array's, cancels the whole array.
        """
        return re.sub(r"%\d+(?=\]$)|\+\d+$", "", self.id)

    @property
    def ended(self) -> bool:
        """True where the controller still lists it, though it is over."""
        return self.state in ENDED_STATES

    @property
    def own(self) -> bool:
        """True for watchdogd's own links and drop-ins: they never count as anybody's run."""
        return self.comment.startswith(OWN_MARK)


_NO_OUTPUT = 53
"""Slurm's own mark in place of a signal (`0:53`): the job's files could not be opened (22.05: tried)."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A job as accounting remembers it; `ended_at` is None while it lives.

    `state` is the bare word (CANCELLED, without `by 1000`), `cancelled_by` the user of a CANCELLED one,
    `exit_code` and `signal` the two halves of Slurm's `3:0`. `step` is how one of its steps has ended, where
    that says more than the job's own end (`step 0: OUT_OF_MEMORY`), or empty. `outputs` are the files of its
    script's output (StdOut, StdErr), of a bad end, where the controller knew it still.
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
    step: str = ""
    outputs: tuple[str, ...] = ()
    work_dir: str = ""

    @property
    def over(self) -> bool:
        """True for the end of a job, also in an unknown word (a newer Slurm's).

        A REQUEUED record is the end of one attempt only.
        """
        return self.ended_at is not None and self.state not in WAITING_STATES | PLACED_STATES

    @property
    def well(self) -> bool:
        """True where it did what it was to do, as far as its exit code says."""
        return self.state == "COMPLETED" and not self.exit_code and not self.signal

    @property
    def how(self) -> str:
        """The end in words: `FAILED (exit 3)`, `CANCELLED by bob`, `FAILED by signal 9`.

        With a step's end that says more: `FAILED (exit 77; step 0: OUT_OF_MEMORY)`.
        """
        if self.signal == _NO_OUTPUT and not self.exit_code:
            return f"{self.state}, since its output file (--output, --error) could not be opened"
        more = f"exit {self.exit_code}" if self.exit_code and not self.cancelled_by else ""
        more = "; ".join(filter(None, [more, self.step]))
        return f"{self.state}{self._by}" + (f" ({more})" if more else "")

    @property
    def _by(self) -> str:
        """Return ` by bob`, ` by signal 9`, or empty."""
        if self.cancelled_by:
            return f" by {self.cancelled_by}"
        real = self.signal is not None and 0 < self.signal <= 64  # 125 is Slurm's own mark: out of memory
        return f" by signal {self.signal}" if real and not self.exit_code else ""

    @property
    def lasted(self) -> float | None:
        """Seconds from start to end; None where it never started, or still runs."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(self.ended_at - self.started_at, 0.0)

    @property
    def own(self) -> bool:
        """True for watchdogd's own links and drop-ins."""
        return self.comment.startswith(OWN_MARK)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the batch system at one time, shared by all checks of a round.

    `jobs` is what lives now, or None where the system did not answer (`trouble` says why): then nothing
    may be called gone. `endings` is what controller and accounting say of jobs that are over, newest last
    (those of the last minutes, and more where a run has no living job), or None where nobody could be asked;
    `endings_trouble` says why accounting did not answer. `attempts` are the ends of attempts of jobs that
    were requeued and live on under their id, as far as accounting was asked. `hidden` are users whose jobs
    the site does not show us (PrivateData). `renamed` are living jobs that were some run's when last seen
    and bear no run's name now. `elsewhere` are living jobs with a wanted name whose users do not count, as
    far as was looked for them: for the names in `sought`, of which nothing of our users lives. `veiled`: jobs
    of other users are not shown to us, so that finding none says nothing. `running` are the ids of all jobs
    that run, as people see them and raw, also of those that are no run's. `known` is what the next snapshot
    needs: raw ids to account for, and when each was last seen living.
    """

    taken_at: float
    jobs: tuple[Job, ...] | None = None
    trouble: str = ""
    endings: tuple[Ending, ...] | None = None
    endings_trouble: str = ""
    attempts: tuple[Ending, ...] = ()
    backend: str = "slurm"
    users: frozenset[str] = field(default_factory=frozenset)
    hidden: frozenset[str] = field(default_factory=frozenset)
    renamed: tuple[Job, ...] = ()
    elsewhere: tuple[Job, ...] = ()
    sought: frozenset[str] = field(default_factory=frozenset)
    veiled: bool = False
    running: frozenset[tuple[str, str]] = frozenset()
    known: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> tuple[Job, ...]:
        """Return the living jobs of a run by its job name; never watchdogd's own."""
        return tuple(
            job
            for job in self.jobs or ()
            if job.name == name and not job.own and (not self.users or job.user in self.users)
        )

    def ended(self, name: str) -> tuple[Ending, ...]:
        """Return what accounting remembers of a run's jobs, oldest first; never watchdogd's own."""
        return tuple(
            end
            for end in self.endings or ()
            if end.name == name and not end.own and (not self.users or end.user in self.users)
        )
