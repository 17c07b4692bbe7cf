"""A job in the queue, and the batch system's words for states.

Times are seconds since the epoch; None: not reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
