"""Which job's progress is judged."""

from __future__ import annotations

from watchdogd.checks.working_job import working
from watchdogd.plugin import Job, Run, Snapshot


def seen(backend: str, *jobs: Job) -> Snapshot:
    return Snapshot(taken_at=100.0, jobs=jobs, backend=backend)


def test_the_job_that_started_last_is_judged_and_a_waiting_one_is_not() -> None:
    run = Run("run-9", "pretrain")
    old = Job("1", "1", "pretrain", "ann", "RUNNING", started_at=10.0)
    new = Job("2", "2", "pretrain", "ann", "RUNNING", started_at=20.0)
    assert working(run, seen("slurm", new, old)).job == new
    waiting = Job("3", "3", "pretrain", "ann", "PENDING", reason="Priority")
    assert working(run, seen("slurm", waiting)).excuse == "job 3 waits (Priority)"
    assert working(run, seen("slurm")).excuse == "no job runs"
    paused = Job("4", "4", "pretrain", "ann", "SUSPENDED")
    assert "suspended" in working(run, seen("slurm", paused)).excuse
    assert "away" in working(run, Snapshot(100.0, trouble="the controller is away")).blind


def test_a_process_goes_by_the_runs_name_and_is_judged_also_while_it_is_stopped() -> None:
    run = Run("run-9", "pretrain", backend="process")
    stopped = Job("77", "77@5", "run-9", "ann", "SUSPENDED")
    assert working(run, seen("process", stopped)).job == stopped
