"""The probe in a job of a real Slurm: bob's job on two nodes, read by alice's watchdog."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cluster import ANSWERING, Cluster
from tests.lab.alice import shared_home
from tests.waiting import wait_until
from watchdogd.parsers import probe_sample

CONFIG = "gpus_per_node = 2\n"
TOOL = """#!/bin/sh
echo "index, utilization.gpu [%], power.draw [W], power.limit [W], memory.used [MiB], memory.total [MiB]"
echo "0, 98 %, 640 W, 700 W, 60000 MiB, 81559 MiB"
[ "$SLURMD_NODENAME" = node3 ] || echo "1, 97 %, 630 W, 700 W, 60000 MiB, 81559 MiB"
"""
TRAINING = """
{probe} & srun --ntasks=2 --ntasks-per-node=1 sh -c 'until test -e {folder}/go; do sleep 0.2; done'
{ending}
"""
NODES = ("--partition=gpu", "--nodes=2", "--ntasks-per-node=2", "--job-name=tr11")


class Lab:
    """Alice's home, which bob's group shares, and a tool that tells of GPUs on the PATH of jobs."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.folder = slurm.new_folder()
        self.home = shared_home(slurm, self.folder, CONFIG)
        tool = self.folder / "nvidia-smi"
        tool.write_text(TOOL)
        tool.chmod(0o755)

    def start(self, user: str, ending: str, *options: str) -> str:
        verb = f"{self.slurm.watchdogd} --home {self.home} probe --run run-17 --every 5s"
        probe = f"PATH={self.folder}:$PATH {verb}"
        text = TRAINING.format(probe=probe, folder=self.folder, ending=ending)
        job = self.slurm.sbatch(user, text, f"--output={self.folder}/log", *(options or NODES))
        self.slurm.wait_for_state(job, "RUNNING")
        return job

    def samples(self) -> list[Path]:
        return sorted((self.home / "inbox").glob("run-17.sample.*.json"))

    def wait_for_samples(self, count: int) -> list[Path]:
        what = f"{count} samples are there"
        return wait_until(
            lambda: self.samples() if len(self.samples()) == count else [], 2 * ANSWERING, what
        ).value

    def log(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
def lab(slurm: Cluster) -> Lab:
    return Lab(slurm)


def test_alice_sees_the_gpus_of_bobs_job_through_his_samples(lab: Lab, slurm: Cluster) -> None:
    job = lab.start("bob", "wait")
    found = [probe_sample.read_usage(path.read_text()) for path in lab.wait_for_samples(2)]
    assert [(each.run, each.job, each.node) for each in found] == [
        ("run-17", job, "node2"),
        ("run-17", job, "node3"),
    ]
    assert all(each.memory is not None and each.memory.processes for each in found)
    assert all("/tmp" in each.disks for each in found)
    words: list[str | Path] = [slurm.typed, "--home", lab.home, "check", "run-17/gpu_health", "--json"]
    told = json.loads(slurm.run_as("alice", words, check=False).stdout)
    assert told[0]["summary"].startswith("3 GPUs on 2 nodes")
    statuses = {each["subject"] or "": each["status"] for each in told}
    assert statuses == {"": "OK", "node2": "OK", "node3": "CRITICAL"}


@pytest.mark.parametrize("ending", ["wait", "true"])
def test_the_job_ends_with_its_training_and_no_sample_stays(lab: Lab, slurm: Cluster, ending: str) -> None:
    job = lab.start("bob", ending)
    lab.wait_for_samples(2)
    assert slurm.state(job) == "RUNNING"
    (lab.folder / "go").touch()
    assert slurm.wait_for_state(job, "COMPLETED", "FAILED", "CANCELLED") == "COMPLETED"
    wait_until(lambda: not lab.samples(), ANSWERING, "the samples have gone")
    said = [line for line in lab.log().splitlines() if not line.startswith(("srun: ", "slurmstepd-"))]
    assert said == []


def test_a_cancelled_job_leaves_no_sample(lab: Lab, slurm: Cluster) -> None:
    job = lab.start("bob", "wait")
    lab.wait_for_samples(2)
    slurm.run_as("bob", ["scancel", job])
    wait_until(lambda: not lab.samples(), ANSWERING, "the samples have gone")


def test_a_signal_that_asks_the_training_to_save_does_not_end_it(lab: Lab, slurm: Cluster) -> None:
    job = lab.start("bob", "wait")
    before = {path: path.stat().st_mtime_ns for path in lab.wait_for_samples(2)}
    slurm.run_as("bob", ["scancel", "--signal=USR2", f"{job}.0"])
    renewed = time.monotonic()
    wait_until(
        lambda: lab.samples() and all(path.stat().st_mtime_ns != before.get(path) for path in lab.samples()),
        ANSWERING,
        "both samples are renewed",
    )
    assert time.monotonic() - renewed < ANSWERING
    assert sorted(before) == lab.samples()


def test_a_home_that_is_not_shared_is_one_line_in_the_jobs_log(lab: Lab, slurm: Cluster) -> None:
    (lab.home / "inbox").chmod(0o755)
    (lab.home / "switches").chmod(0o755)
    lab.home.chmod(0o755)
    job = lab.start("bob", "wait")
    (lab.folder / "go").touch()
    assert slurm.wait_for_state(job, "COMPLETED", "FAILED") == "COMPLETED"
    assert lab.log().splitlines() == [
        f"watchdogd: probe: {lab.home}/inbox cannot be written: a home that a team shares has a group"
    ]
