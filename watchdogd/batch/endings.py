"""End of a job as accounting reports it. Times are seconds since the epoch; None: not reported."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.batch.models import OWN_MARK, PLACED_STATES, WAITING_STATES

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
        """Return whether its own user cancelled it."""
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
        """Return ` by bob`, ` by signal 9`, or empty."""
        if self.cancelled_by:
            return f" by {self.cancelled_by}"
        real = self.signal is not None and 0 < self.signal <= 64  # 125 is Slurm's own code: out of memory
        return f" by signal {self.signal}" if real and not self.exit_code else ""

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
