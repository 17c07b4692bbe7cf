"""stacks on a real Slurm: a job of eight ranks on two nodes, one of which stands elsewhere."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until

CONFIG = """
[slurm]
users = ["alice", "bob"]
[runs.run-17]
job_name = "tr11"
"""
COLLECTIVE = """
import time
def all_reduce():
    while True:
        time.sleep(1)
"""
TRAINING = """
import os, pathlib, subprocess, sys, threading, time
here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "site-packages"))
from torch.distributed.distributed_c10d import all_reduce
rank = int(os.environ["SLURM_PROCID"])
def next_batch():
    (here / f"ready.{rank}").touch()
    time.sleep(600)
def train_step():
    (here / f"ready.{rank}").touch()
    all_reduce()
if rank == 3:
    loader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    next_batch()
train_step()
"""
GUARDED = """
import os, pathlib, sys, time
from watchdogd.training import Guard
guard = Guard("run-17", home=sys.argv[1])
here, rank = pathlib.Path(__file__).parent, os.environ["SLURM_PROCID"]
def next_batch():
    (here / f"ready.{rank}").touch()
    time.sleep(600)
def compute():
    (here / f"ready.{rank}").touch()
    time.sleep(600)
next_batch() if rank == "1" else compute()
"""


class Run:
    """A home of alice's, and the folder of the training."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.folder = slurm.new_folder()
        self.home = slurm.new_folder() / "home"
        slurm.run_as("alice", [slurm.typed, "--home", self.home, "init"])
        (self.home / "config.toml").write_text(CONFIG)
        package = self.folder / "site-packages/torch/distributed"
        package.mkdir(parents=True)
        for each in (package, package.parent):
            (each / "__init__.py").touch()
        (package / "distributed_c10d.py").write_text(COLLECTIVE)
        (self.folder / "train.py").write_text(TRAINING)
        (self.folder / "guarded.py").write_text(GUARDED)

    def start(self, user: str, line: str, ranks: int, *options: str) -> str:
        words = line.format(python=self.slurm.python, folder=self.folder, home=self.home)
        options = ("--job-name=tr11", "--partition=gpu", "--output=/dev/null", *options)
        job = self.slurm.sbatch(user, words, *options)
        wait_until(lambda: len(list(self.folder.glob("ready.*"))) == ranks, 90, f"{ranks} ranks stand")
        return job

    def stacks(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(self.slurm.typed), "--home", str(self.home), "stacks", "run-17", *words]
        return self.slurm.run_as("alice", argv, check=False, timeout=300)

    def share(self) -> None:
        """A home of the group, and what the daemon lays out for the run in it."""
        self.home = self.folder / "shared"
        words = [str(self.slurm.typed), "--home", str(self.home), "init", "--group", "six"]
        self.slurm.run_as("alice", words)
        (self.home / "config.toml").write_text(CONFIG)
        (self.home / "switches/run-17.json").write_text(json.dumps({"group": "six"}))

    def json(self, *words: str) -> Any:
        done = self.stacks("--json", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def run(slurm: Cluster) -> Run:
    return Run(slurm)


EIGHT = ("--nodes=2", "--ntasks=8", "--ntasks-per-node=4")


def test_the_one_that_stands_elsewhere_is_named(run: Run) -> None:
    run.start("alice", "srun {python} {folder}/train.py", 8, *EIGHT)
    done = run.stacks()
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first == (
        "1 of 8 ranks stands elsewhere: node2 rank 3 in next_batch (train.py:9); 7 wait in all_reduce"
    )
    text = "\n".join(rest)
    assert "1 rank stands, still for 4s: node2 rank 3\n    next_batch (train.py:9)\n    <module>" in text
    assert "7 ranks wait, still for 4s: node[2,3] ranks 0-2,4-7\n    all_reduce (torch/distributed" in text
    assert "1 helper process (data loaders, launchers)" in text


def test_json_and_array_tasks(run: Run) -> None:
    run.start("alice", "exec {python} {folder}/train.py", 1, "--array=5")
    told = run.json("--samples", "1")
    assert told["summary"] == "the rank waits in all_reduce"
    (group,) = told["groups"]
    assert (group["suspect"], group["waits_in"], group["members"][0]["rank"]) == (False, "all_reduce", 0)


def test_a_node_that_does_not_answer_is_listed(run: Run) -> None:
    run.start("alice", "srun {python} {folder}/train.py", 8, *EIGHT)
    run.slurm.kill_slurmd("node3")
    told = run.json("--samples", "1", "--deadline", "20s")
    assert [each["node"] for each in told["unread"]] == ["node3"]
    assert told["unread"][0]["why"]
    assert told["groups"][0]["members"][0]["rank"] == 3


def test_a_colleagues_job_is_asked_through_its_guards(run: Run) -> None:
    run.share()
    run.start("bob", "srun {python} {folder}/guarded.py {home}", 4, "--ntasks=4")
    done = run.stacks()
    assert done.returncode == 0
    assert "Slurm starts nothing in this job" in done.stderr
    assert "bob" in done.stderr
    assert "the stacks are from the Guards of the run" in done.stderr
    assert "rank 1 in next_batch (guarded.py:8); 3 stand in compute (guarded.py:11)" in done.stdout
    assert [path.name for path in (run.home / "inbox").iterdir() if "stacks" in path.name] == []


def test_a_colleagues_job_is_asked_through_its_probe(run: Run) -> None:
    run.share()
    probe = f"{run.slurm.watchdogd} --home {{home}} probe --run run-17 & "
    run.start("bob", probe + "srun {python} {folder}/train.py; wait", 8, *EIGHT)
    inbox = run.home / "inbox"
    wait_until(lambda: len(list(inbox.glob("run-17.sample.*"))) == 2, 90, "both nodes are sampled")
    done = run.stacks()
    assert done.returncode == 0
    assert "the stacks are from its probes on 2 nodes" in done.stderr
    assert "1 of 8 ranks stands elsewhere: node2 rank 3 in next_batch (train.py:9)" in done.stdout
    assert [path.name for path in inbox.iterdir() if "stacks" in path.name] == []


def test_a_home_without_a_group_is_told_as_the_reason(run: Run) -> None:
    for folder, mode in ((run.home, 0o755), (run.home / "inbox", 0o777), (run.home / "switches", 0o755)):
        folder.chmod(mode)
    run.start("bob", "srun {python} {folder}/guarded.py {home}", 1)
    done = run.stacks("--samples", "1", "--deadline", "20s")
    assert done.returncode == 1
    assert "cannot be read: Permission denied: a home that a team shares has a group" in done.stderr


def test_nothing_that_can_be_read(run: Run) -> None:
    (run.folder / "ready.0").touch()
    run.start("alice", "exec sleep 600", 1)
    wait_until(lambda: run.slurm.squeue("alice")[0].split("|")[2] == "RUNNING", 60, "the job runs")
    done = run.stacks("--deadline", "15s")
    assert done.returncode == 1
    assert done.stdout.startswith("no stack of a rank")
    assert "no Guard of run-17 wrote its stacks" in done.stderr


def test_no_live_job(run: Run) -> None:
    done = run.stacks()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("watchdogd: no job of run-17 runs:")
