"""A job in the queue as a batch system reports it, and the words for its states.

All times are seconds since the epoch; None: the system did not say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True)
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
        """True where the job is over and being cleared away: nothing more is expected of it."""
        return self.state in ENDING_STATES

    @property
    def strange(self) -> bool:
        """True where its state is unknown here: a newer Slurm's."""
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
        """True where the controller still lists the job although it is over."""
        return self.state in ENDED_STATES

    @property
    def own(self) -> bool:
        """True for watchdogd's own links and drop-ins: they never count as anybody's run."""
        return self.comment.startswith(OWN_MARK)
