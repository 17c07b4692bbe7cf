"""The Guard in a job of a real Slurm: the end of the job, as extended while it runs."""

import time
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until

LOOP = """
import sys, time
from watchdogd import training
guard = training.Guard("run-17", home=sys.argv[1], time_left=sys.argv[2], every=0.2)
while not guard.poll(step=1).stop:
    time.sleep(0.1)
print(guard.poll().reason, flush=True)
"""


def start(slurm: Cluster, home: Path, time_left: str) -> str:
    """A job of two minutes that wants to stop so long before its end."""
    for name in ("switches", "inbox"):
        (home / name).mkdir()
        (home / name).chmod(0o777)
    (home / "loop.py").write_text(LOOP)
    script = f"exec {slurm.python} {home}/loop.py {home} {time_left}"
    return slurm.sbatch("alice", script, "--time=2", f"--output={home}/log")


def reason(slurm: Cluster, job: str, home: Path) -> str:
    slurm.wait_for_state(job, "COMPLETED", timeout=300)
    return wait_until(lambda: (home / "log").read_text().strip(), 30, "the reason is in the log").value


@pytest.mark.slurm
def test_a_job_stops_before_slurm_ends_it(slurm: Cluster) -> None:
    home = slurm.new_folder()
    job = start(slurm, home, "110s")
    assert reason(slurm, job, home).startswith("time limit: 1")


@pytest.mark.slurm
def test_a_job_whose_limit_is_extended_goes_on(slurm: Cluster) -> None:
    home = slurm.new_folder()
    job = start(slurm, home, "110s")
    slurm.wait_for_state(job, "RUNNING")
    slurm.run_as("root", ["scontrol", "update", f"JobId={job}", "TimeLimit=60"])
    time.sleep(20)  # without the extension it would have stopped after ten
    assert slurm.state(job) == "RUNNING"
    (home / "switches" / "run-17.kill").touch()
    assert reason(slurm, job, home) == "kill switch set"
