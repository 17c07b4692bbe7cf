"""Jobs in the queue, their ends as accounting reports them, and a snapshot of both.

Times are seconds since the epoch; None: not reported.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdogd.batch import commands

OWN_MARK = "watchdogd:"
"""Prefix of the comment of watchdogd's own jobs: `--comment=watchdogd:HOME-ID`."""
WAITING_STATES = frozenset((
    "EXPEDITING", "LAUNCH_FAILED", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD",
    "SPECIAL_EXIT",
))  # fmt: skip
"""squeue's long words for a job without nodes."""
WORKING_STATES = frozenset({"RUNNING", "RESIZING", "SIGNALING", "UPDATE_DB"})
"""Words for a job whose processes run; all but the first are flags that hide it while they last."""
STARTING_STATES = frozenset({"CONFIGURING", "POWER_UP_NODE", "RECONFIG_FAIL"})
"""Words for a job whose nodes are being prepared."""
PAUSED_STATES = frozenset({"STOPPED", "SUSPENDED"})
"""Words for a job whose processes are stopped."""
ENDING_STATES = frozenset({"COMPLETING", "STAGE_OUT"})
"""Words for a job that has ended, but not left its nodes."""
PLACED_STATES = WORKING_STATES | STARTING_STATES | PAUSED_STATES | ENDING_STATES
"""Words for a job with nodes. With waiting and ended ones these are all that Slurm documents up to 25.11 (Job
State Codes: base states and flags)."""
ENDED_STATES = frozenset((
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "REVOKED", "TIMEOUT",
))  # fmt: skip
"""Words for an ended job; the controller keeps it for MinJobAge (300 s by default)."""


@dataclass(frozen=True)
class Job:
    """Line of the queue: a job, a task of an array, the waiting rest of an array, or a het component.

    `id` is what users see (`88_3`, `88_[4-9%1]`, `123+0`), `raw_id` the number for `srun --jobid` and
    accounting; scancel and scontrol need `handle`. `state` is Slurm's long word without flags (RUNNING,
    PENDING). `expected_nodes`: nodes on which the scheduler plans to start a waiting job.
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
        """Return whether it has no nodes yet."""
        return self.state in WAITING_STATES

    @property
    def placed(self) -> bool:
        return self.state in PLACED_STATES

    @property
    def working(self) -> bool:
        return self.state in WORKING_STATES

    @property
    def leaving(self) -> bool:
        """Return whether it has ended and is being cleaned up."""
        return self.state in ENDING_STATES

    @property
    def strange(self) -> bool:
        """Return whether its state is unknown, as of a newer Slurm."""
        return not (self.waiting or self.placed or self.ended)

    @property
    def handle(self) -> str:
        """Return the id for scancel and scontrol of this job alone (a het job as a whole), to be quoted.

        Tested with 22.05: scancel of an array task's raw id does nothing, with exit 0, and that of the last
        task, whose raw id is the array's, cancels the whole array.
        """
        return re.sub(r"%\d+(?=\]$)|\+\d+$", "", self.id)

    @property
    def ended(self) -> bool:
        """Return whether it has ended, though the controller still lists it."""
        return self.state in ENDED_STATES

    @property
    def own(self) -> bool:
        """Return whether it is one of watchdogd's own links and drop-in jobs, which belong to no run."""
        return self.comment.startswith(OWN_MARK)


_NO_OUTPUT = 53
"""Slurm's code in place of a signal (`0:53`): the job's files could not be opened (tested with 22.05)."""


@dataclass(frozen=True)
class Ending:
    """Record of a job in accounting; `ended_at` is None while it lives.

    `state` is one word (CANCELLED, without `by 1000`), `cancelled_by` the user of a CANCELLED one,
    `exit_code` and `signal` the two halves of Slurm's `3:0`. `step`: end of one of its steps, where that says
    more than the job's own (`step 0: OUT_OF_MEMORY`), or empty. `outputs`: paths of StdOut and StdErr of a
    failed job, where the controller still knows them.
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
        """Return whether the job has ended, in a known or unknown state.

        A REQUEUED record is the end of one attempt only.
        """
        return self.ended_at is not None and self.state not in WAITING_STATES | PLACED_STATES

    @property
    def well(self) -> bool:
        """Return whether the job succeeded, by its exit code."""
        return self.state == "COMPLETED" and not self.exit_code and not self.signal

    @property
    def complete(self) -> bool:
        """Return whether the record has the exit code, or who cancelled the job."""
        return bool(self.cancelled_by) if self.state == "CANCELLED" else self.exit_code is not None

    @property
    def cancelled_by_owner(self) -> bool:
        return bool(self.cancelled_by) and self.cancelled_by == self.user

    @property
    def how(self) -> str:
        """Describe the end: `CANCELLED by bob`, `FAILED (exit 77; step 0: OUT_OF_MEMORY)`."""
        if self.signal == _NO_OUTPUT and not self.exit_code:
            return f"{self.state}, since its output file (--output, --error) could not be opened"
        more = f"exit {self.exit_code}" if self.exit_code and not self.cancelled_by else ""
        more = "; ".join(filter(None, [more, self.step]))
        return f"{self.state}{self._by}" + (f" ({more})" if more else "")

    @property
    def _by(self) -> str:
        """Return ` by bob`, ` by SIGKILL`, or empty."""
        if self.cancelled_by:
            return f" by {self.cancelled_by}"
        real = self.signal is not None and 0 < self.signal <= 64  # 125 is Slurm's own code: out of memory
        return f" by {_signal_name(self.signal or 0)}" if real and not self.exit_code else ""

    @property
    def lasted(self) -> float | None:
        """Return the seconds from start to end; None where it never started, or still runs."""
        if self.started_at is None or self.ended_at is None:
            return None
        return max(self.ended_at - self.started_at, 0.0)

    @property
    def own(self) -> bool:
        """Return whether it is one of watchdogd's own links and drop-in jobs."""
        return self.comment.startswith(OWN_MARK)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Snapshot:
    """State of a batch system at one time, shared by all checks of a round.

    jobs             living jobs, or None without an answer (`trouble` says why): then no job counts as gone
    endings          ends by controller and accounting, newest last (of the last minutes, and more for a run
                     without a living job), or None without an answer
    endings_trouble  why accounting did not answer
    attempts         ends of attempts of requeued jobs that live on, where accounting was asked
    hidden           users whose jobs the site hides (PrivateData)
    renamed          living jobs that had a run's name when last seen
    elsewhere        living jobs of users who do not count, with names in `sought`
    sought           names without a living job that were searched under other users
    veiled           whether other users' jobs are hidden, so that finding none means nothing
    running          ids of all running jobs, as users see them and raw
    known            input of the next snapshot: raw ids to account for, and when each was last seen alive
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

    @property
    def noun(self) -> str:
        """Word for one of its jobs."""
        return commands.of(self.backend).noun

    def of(self, name: str) -> tuple[Job, ...]:
        """Return the living jobs with a run's job name, without watchdogd's own."""
        return tuple(
            job
            for job in self.jobs or ()
            if job.name == name and not job.own and (not self.users or job.user in self.users)
        )

    def ended(self, name: str) -> tuple[Ending, ...]:
        """Return the ends of jobs with a run's job name, oldest first, without watchdogd's own."""
        return tuple(
            end
            for end in self.endings or ()
            if end.name == name and not end.own and (not self.users or end.user in self.users)
        )
