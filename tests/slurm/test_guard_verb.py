"""guard in jobs of a real Slurm: on every task of srun, around srun, and around a launcher of ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until

RANK = """
import os, signal, sys, time
def save(number, frame):
    open(f"{sys.argv[1]}/saved.{os.environ['SLURM_PROCID']}", "w").write(signal.Signals(number).name)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
open(f"{sys.argv[1]}/ready.{os.environ['SLURM_PROCID']}", "w")
while True:
    time.sleep(0.1)
"""
# As torchrun does: one process a rank, RANK in its environment, and it fails when one of them fails.
LAUNCHER = """
import os, subprocess, sys
first = int(os.environ["SLURM_PROCID"]) * 2
def start(rank):
    return subprocess.Popen(sys.argv[1:], env={**os.environ, "RANK": rank, "SLURM_PROCID": rank})
ranks = [start(str(first + local)) for local in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""


@pytest.fixture
def home(slurm: Cluster) -> Path:
    home = slurm.new_folder()
    for name in ("switches", "inbox"):
        (home / name).mkdir()
        (home / name).chmod(0o777)
    (home / "rank.py").write_text(RANK)
    (home / "launcher.py").write_text(LAUNCHER)
    return home


def obeys(slurm: Cluster, home: Path, line: str, ranks: int, *options: str) -> None:
    """The job runs `line`, all its ranks save on the switch, and it ends well."""
    words = line.format(
        guard=f"{slurm.watchdogd} --home {home} guard --run run-17 --",
        rank=f"{slurm.python} {home}/rank.py {home}",
        launcher=f"{slurm.python} {home}/launcher.py",
    )
    job = slurm.sbatch("alice", words, f"--output={home}/log", *options)
    wait_until(lambda: len(list(home.glob("ready.*"))) == ranks, 90, f"{ranks} ranks run: {job}")
    (home / "switches" / "run-17.kill").write_text('{"by": "bob"}\n')
    slurm.wait_for_state(job, "COMPLETED", timeout=300)
    saved = {path.name: path.read_text() for path in home.glob("saved.*")}
    assert saved == {f"saved.{rank}": "SIGUSR1" for rank in range(ranks)}


TWO_NODES = ("--partition=gpu", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2")


def test_on_every_task_of_srun(slurm: Cluster, home: Path) -> None:
    obeys(slurm, home, "srun {guard} {rank}", 4, *TWO_NODES)


def test_around_srun_which_passes_it_to_all_tasks(slurm: Cluster, home: Path) -> None:
    obeys(slurm, home, "exec {guard} srun {rank}", 4, *TWO_NODES)


def test_on_every_rank_of_a_launcher(slurm: Cluster, home: Path) -> None:
    options = ("--partition=gpu", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1")
    obeys(slurm, home, "srun {launcher} {guard} {rank}", 4, *options)


def test_slurms_own_signal_reaches_cmd(slurm: Cluster, home: Path) -> None:
    """--signal=B:USR1 goes to the batch shell alone, which guard has taken the place of."""
    words = f"exec {slurm.watchdogd} --home {home} guard --run run-17 -- {slurm.python} {home}/rank.py {home}"
    options = ("--time=1", "--signal=B:USR1@50", f"--output={home}/log")
    job = slurm.sbatch("alice", words, *options)
    slurm.wait_for_state(job, "COMPLETED", timeout=300)
    assert (home / "saved.0").read_text() == "SIGUSR1"


def test_a_duration_ends_it_where_nobody_tells_the_end_of_the_job(slurm: Cluster, home: Path) -> None:
    """As at a site whose batch system is none that is known."""
    guard = f"env -u SLURM_JOB_ID {slurm.watchdogd} --home {home} guard --run run-17 --time-left 5m"
    words = f"exec {guard} --exit-after 1s -- {slurm.python} {home}/rank.py {home}"
    job = slurm.sbatch("alice", words, f"--output={home}/log")
    slurm.wait_for_state(job, "COMPLETED", timeout=300)
    said = (home / "log").read_text()
    assert said.count("exit_after") == 2, said
    assert "no job of Slurm or PBS is known here: no time_left" in said
    assert (home / "saved.0").read_text() == "SIGUSR1"


def test_a_queue_of_jobs_behind_a_stopped_run_burns_through(slurm: Cluster, home: Path) -> None:
    (home / "switches" / "run-17.kill").write_text('{"by": "bob"}\n')
    words = f"{slurm.watchdogd} --home {home} guard --run run-17 -- touch {home}/started"
    jobs = [slurm.sbatch("alice", words, "--output=/dev/null") for _ in range(2)]
    for job in jobs:
        slurm.wait_for_state(job, "COMPLETED", timeout=300)
    assert not (home / "started").exists()
