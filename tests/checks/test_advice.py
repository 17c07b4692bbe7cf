"""What is offered about nodes and queues: commands of Slurm only where Slurm runs the job."""

from __future__ import annotations

import pytest

from watchdogd.batch.models import Snapshot
from watchdogd.batch.run_models import Run
from watchdogd.checks import node_checks
from watchdogd.plugin import Advice, critical

SLURM = ("sbatch", "scontrol", "sinfo")


def tools(advice: tuple[Advice, ...]) -> set[str]:
    return {each.command.split()[0] for each in advice if each.command}


@pytest.mark.parametrize("backend", ["slurm", "pbs", "process"])
def test_commands_of_slurm_are_offered_for_jobs_of_slurm_alone(backend: str) -> None:
    run = Run("run-17", "tr11", backend=backend)
    full = critical("n4:/tmp: 1 GB of 99 GB free").saying(
        advice=["du -x -d1 -h /tmp", node_checks.leave_out("n4")]
    )
    kept = tools(node_checks.for_backend(full, backend).advice)
    (silent,) = node_checks.silent(run, "its disks are", {"n4": "no answer"})
    unknown = node_checks.nothing_to_judge(Snapshot(0.0, None, trouble="it is away", backend=backend), ())
    assert unknown is not None
    offered = kept | tools(silent.advice) | tools(unknown.advice) | tools(node_checks.ask_nodes(backend))
    assert "du" in offered
    assert "watchdogd" in offered
    assert offered.isdisjoint(SLURM) == (backend != "slurm")
