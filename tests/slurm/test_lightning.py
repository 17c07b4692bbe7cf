"""Lightning and a Guard in a job of a real Slurm: who requeues the job is Lightning."""

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.lab.environments import python_of
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE = 100.0  # seconds: loading PyTorch alone takes twenty where the processors are shared


@pytest.mark.timeout(1800)  # the environment may have to come first
def test_lightning_requeues_a_job_whose_guard_was_made_first(slurm: Cluster) -> None:
    python = python_of("examples", "examples")
    home = slurm.new_folder()
    for name in ("switches", "inbox"):
        (home / name).mkdir()
    script = f"WATCHDOGD_HOME={home} srun {python} {ROOT}/tests/frameworks/requeued.py before"
    # By root, whose files the libraries are: where the project lies, others may have no way in.
    job = slurm.sbatch(
        "root", script, "--requeue", "--ntasks=1", "--job-name=tr11", f"--output={home}/log", cwd=home
    )
    wait_until(lambda: any((home / "inbox").glob("*.beat.*")), PATIENCE, "it trains")
    slurm.run_as("root", ["scancel", "--signal=USR1", job])
    wait_until(lambda: "Restarts=1 " in shown(slurm, job), PATIENCE, f"job {job} is requeued")
    wait_until(lambda: (home / "stopped.ckpt").exists(), PATIENCE, "the loop ends at the Guard's word")
    assert (home / "hpc_ckpt_1.ckpt").exists()
    assert slurm.wait_for_state(job, "PENDING", "RUNNING")  # it is to go on


def shown(slurm: Cluster, job: str) -> str:
    return slurm.run_as("root", ["scontrol", "show", "job", job]).stdout
