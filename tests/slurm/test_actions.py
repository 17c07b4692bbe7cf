"""The whole of it on a real Slurm: a hang is caught, looked at, kept as evidence, requeued once, and told."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until

COLLECTIVE = """
import time
def all_reduce():
    time.sleep(600)
"""
TRAINING = """
import os, pathlib, sys, time
here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "site-packages"))
from torch.distributed.distributed_c10d import all_reduce
rank, healthy = int(os.environ["SLURM_PROCID"]), os.environ.get("SLURM_RESTART_COUNT", "0") != "0"
def next_batch():
    time.sleep(600)
for step in range(1, 100000):
    if rank == 0:
        with open(here / "train.log", "a") as log:
            log.write(f"iteration {step} loss 2.5\\n")
    time.sleep(0.5)
    if (here / "poison").exists() and "well" not in sys.argv:
        if rank == 5:
            print("[rank5]: RuntimeError: CUDA error: uncorrectable ECC error encountered", file=sys.stderr)
        sys.exit(3)
    if step == 4 and not (healthy or "well" in sys.argv):
        next_batch() if rank in (2, 5) else all_reduce()
"""
SCRIPT = """#!/bin/sh
#SBATCH --partition=gpu --nodes=1 --output=again.out
exec {python} {folder}/train.py well
"""

HEAD = r"(\d+ \w+ [\d:]+ \w+ )?\[[A-Z]+\] "


class Watch:
    """alice's home and training, a job of bob's that hangs as well, and a daemon that watches both."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.folder = slurm.new_folder()
        self.home = self.folder / "watch"
        self.bobs_log = slurm.new_folder() / "bob.log"
        self.dog("init")
        package = self.folder / "site-packages/torch/distributed"
        package.mkdir(parents=True)
        for each in (package, package.parent):
            (each / "__init__.py").touch()
        (package / "distributed_c10d.py").write_text(COLLECTIVE)
        (self.folder / "train.py").write_text(TRAINING)
        self.own("train.slurm", SCRIPT.format(python=slurm.python, folder=self.folder))
        (self.home / "config.toml").write_text(
            textwrap.dedent(
                f"""
                [daemon]
                interval = "2s"
                [slurm]
                partition = "small"
                users = ["alice", "bob"]
                min_poll = "1s"
                [channels.out]
                type = "console"
                [runs.glide]
                log = "{self.folder}/train.log"
                stale_after = "6s"
                absent_after = "6s"
                on_hang = ["stacks", "requeue"]
                on_gone = [{{ resubmit = "{self.folder}/train.slurm" }}]
                [runs.loop]
                on_crash_loop = ["hold"]
                [runs.dive]
                log = "{self.bobs_log}"
                stale_after = "6s"
                on_hang = ["requeue"]
                """
            )
        )

    def own(self, name: str, text: str) -> None:
        """A file of alice's: whose scripts are submitted matters."""
        self.slurm.run_as("alice", ["sh", "-c", f"cat > {self.folder}/{name} <<'END'\n{text}END\n"])

    def dog(self, *words: str) -> str:
        argv = [str(self.slurm.typed), "--home", str(self.home), *words]
        return self.slurm.run_as("alice", argv, check=False).stdout

    def told(self, *parts: str, lines: str = HEAD) -> list[str]:
        """First lines of what was told, also of what travelled in another's message."""
        said = [
            line for path in (self.home / "logs").glob("link.log*") for line in path.read_text().splitlines()
        ]
        return [line for line in said if re.match(lines, line) and all(part in line for part in parts)]

    def wait_done(self, *parts: str) -> str:
        """Likewise of an action, a line below the first one, in the message about its incident's end too."""
        return self.wait_told(*parts, lines=r"(watchdogd did: )?\S+( \S+)?( FAILED)?: ")

    def wait_told(self, *parts: str, lines: str = HEAD) -> str:
        try:
            waited = wait_until(lambda: self.told(*parts, lines=lines), 60, f"{parts} is told", every=0.3)
        except AssertionError:
            print("\n".join(self.told()), self.dog("status"))
            raise
        print(f"{parts}: told after {waited.seconds:.1f} s")
        return waited.value[0]

    def restarts(self, job: str) -> str:
        shown = self.slurm.run_as("root", ["scontrol", "show", "job", job]).stdout
        return next(word for word in shown.split() if word.startswith("Restarts="))


@pytest.fixture
def watch(slurm: Cluster) -> Iterator[Watch]:
    watch = Watch(slurm)
    yield watch
    watch.dog("stop")


def test_a_hang_is_caught_and_the_job_goes_on(watch: Watch) -> None:
    slurm = watch.slurm
    line = f"srun {slurm.python} {watch.folder}/train.py"
    options = ("--partition=gpu", "--output=/dev/null")
    many = ("--nodes=2", "--ntasks=8", "--ntasks-per-node=4", f"--error={watch.folder}/%j.err")
    job = slurm.sbatch("alice", line, *options, "--job-name=glide", *many)
    array = slurm.sbatch("alice", "exit 1", *options, "--job-name=loop", "--array=1-60%1")
    bobs = slurm.sbatch(
        "bob", f"echo iteration 7 > {watch.bobs_log}; exec sleep 600", *options, "--job-name=dive"
    )
    watch.dog("start", "--partition", "small")

    # told; then looked at, and only then requeued
    watch.wait_told("[CRITICAL] glide", "no output for")
    stacks = watch.wait_done("stacks: ")
    assert "2 of 8 ranks stand elsewhere: " in stacks
    assert "ranks 2,5 in next_batch (train.py:8); 6 wait in all_reduce" in stacks
    assert f"job {job} on " in watch.wait_done("requeue: ", "is requeued")
    (evidence,) = (entry for entry in (watch.home / "evidence").iterdir() if (entry / "stacks.txt").exists())
    assert "6 ranks wait" in (evidence / "stacks.txt").read_text()
    assert "iteration 4 loss 2.5" in (evidence / "log.txt").read_text()
    assert f"{job} alice RUNNING" in (evidence / "queue.txt").read_text()
    assert json.loads((evidence / "incident.json").read_text())["run"] == "glide"

    # somebody else's job is left to its owner
    watch.wait_told(f"watchdogd will not requeue its job: job {bobs} is bob's, who alone may.", lines="")
    watch.wait_told(f"scontrol requeue {bobs}", lines=r"\s+scontrol ")
    assert watch.restarts(bobs) == "Restarts=0"

    # an array that burns is held
    watch.wait_done("hold: ", "held")
    watch.wait_told(f"'{array}_[", lines=r" *scontrol release ")
    assert [line.split("|")[2] for line in slurm.squeue("alice") if line.startswith(array)] == ["PENDING"]

    # it runs again, once
    watch.wait_told("[RESOLVED] glide")
    slurm.run_as("root", ["scontrol", "update", f"jobid={job}", "StartTime=now"])  # else after two minutes
    wait_until(lambda: "iteration 20 " in (watch.folder / "train.log").read_text(), 90, "it trains again")
    assert watch.restarts(job) == "Restarts=1"
    assert len(watch.told("[ACTION] glide", f"job {job} requeued")) <= 1
    assert not watch.told("[INFO] glide", "was requeued"), "its own report says so"
    assert not watch.told("[ACTION] dive"), "what cannot be done is not announced and then refused"

    # gone by a fault of its node: its script is submitted again, once, elsewhere, and is the run's
    (watch.folder / "poison").touch()
    watch.wait_told("[CRITICAL] glide: job", "uncorrectable ECC error on rank 5")
    bad = watch.wait_told("--exclude=", lines=r"\s*sbatch ").partition("--exclude=")[2].split()[0]
    watch.wait_told(f"uncorrectable ECC error on rank 5, node {bad}", lines="")
    again = watch.wait_done("resubmit: ", "is submitted")
    assert f", without {bad} (under suspicion)" in again
    successor = again.partition("as job ")[2].partition(",")[0]
    assert f"ExcNodeList={bad}" in slurm.run_as("root", ["scontrol", "show", "job", successor]).stdout
    assert bad in watch.dog("nodes", "glide")
    wait_until(lambda: len(watch.told("[RESOLVED] glide")) == 2, 90, "the run is back", every=0.3)
    assert len(watch.told("[ACTION] glide", "submitted as job")) <= 1
    assert Path(watch.folder / "again.out").exists()
    assert f"job {job} requeued" in watch.dog("history", "glide")
