"""preflight in job scripts of a real Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster import Cluster
from watchdogd.stacks import stack_folding

CONFIG = """
[slurm]
users = ["alice"]
[runs.run-17]
checkpoints = "{folder}/checkpoints/step*"
node_disks = ["/tmp", "{folder}/home/own"]
"""


@pytest.fixture
def home(slurm: Cluster) -> Path:
    folder = slurm.new_folder()
    home = folder / "home"
    slurm.run_as("alice", [slurm.typed, "--home", home, "init"])
    slurm.run_as("alice", ["mkdir", home / "own"])
    (folder / "checkpoints/step1").mkdir(parents=True)
    (folder / "checkpoints/step1/weights").write_bytes(bytes(1_000_000))
    (home / "config.toml").write_text(CONFIG.format(folder=folder))
    return home


def start(slurm: Cluster, home: Path, words: str = "", before: str = "", *options: str) -> tuple[str, str]:
    """How a job script that asks first has ended, and what it printed."""
    script = (
        f"{before}\n{slurm.watchdogd} --home {home} preflight --run run-17 {words} || exit $?\necho started"
    )
    job = slurm.sbatch("alice", script, "--partition=gpu", f"--output={home}/log", *options)
    state = slurm.wait_for_state(job, "COMPLETED", "FAILED", timeout=300)
    return state, (home / "log").read_text()


def test_a_job_that_may_go(slurm: Cluster, home: Path) -> None:
    state, said = start(slurm, home, "--tasks 2", "export NNODES=2", "--nodes=2", "--ntasks=2")
    assert state == "COMPLETED", said
    assert "fine     nodes        node[2,3] answered\n" in said
    assert "fine     checkpoints  room for one of 1 MB: " in said
    assert said.endswith("go\nstarted\n")
    assert list((home / "own").iterdir()) == []


def test_a_run_that_is_not_configured_yet_goes_and_its_nodes_are_looked_at(
    slurm: Cluster, home: Path
) -> None:
    (home / "config.toml").write_text("[runs.pike]\n")
    state, said = start(slurm, home)
    assert state == "COMPLETED", said
    assert "warning: preflight: there is no run 'run-17'; there are pike: what needs no" in said
    assert "fine     nodes        node2 answered\n" in said
    assert said.endswith("go\nstarted\n")


def test_a_step_that_cannot_be_started_as_the_training_will_be_stops_nothing(
    slurm: Cluster, home: Path
) -> None:
    state, said = start(slurm, home, "--srun --nonsense", "", "--ntasks=2")
    assert state == "COMPLETED", said
    assert "warning  affinity     which cores the ranks have is not known: srun: unrecognized option" in said


@pytest.mark.parametrize(
    ("words", "before", "text"),
    [
        ("", "export NNODES=4", "broken   nodes        the job has 1, the script goes by 4\n"),
        ("--tasks 8", "", "broken   tasks        the job has 1, the script goes by 8\n"),
        ("--cpus 4096", "", "can be used here, the job has 4096: look at --cpu-bind\n"),
        ("--gpus 2", "", "broken   GPUs         node2: its GPUs cannot be seen: "),
        ("", "rmdir {home}/own", "broken   disks        node2: nothing can be written to"),
        ("", "touch {home}/switches/run-17.kill", "broken   switches     the kill switch is set by alice"),
        ("", "touch {home}/switches/run-17.finished", "broken   switches     the run is marked finished"),
    ],
)
def test_a_job_that_would_waste_its_allocation(
    slurm: Cluster, home: Path, words: str, before: str, text: str
) -> None:
    before = before.format(home=home)
    state, said = start(slurm, home, words, before, "--ntasks=1")
    assert state == "FAILED", said
    assert text in said
    assert "started" not in said
    assert "do not start: 1 thing is broken" in said


def test_the_masks_of_all_ranks(slurm: Cluster, home: Path) -> None:
    """Started by srun as the training will be; the GPUs, near one core each, are played."""
    tool = home / "bin/nvidia-smi"
    tool.parent.mkdir()
    rows = r"GPU0\t X \tSYS\t0\t0\tN/A\nGPU1\tSYS\t X \t1\t1\tN/A\n"
    gpus = r"00000000:F1:00.0, GPU-1\n00000000:F2:00.0, GPU-2\n"
    tool.write_text(f"#!/bin/sh\n[ $1 = topo ] && printf '{rows}' || printf '{gpus}'\n")
    tool.chmod(0o755)
    asked = '--gpus 0 --srun "--ntasks=4 --ntasks-per-node=2 --label"'
    state, said = start(
        slurm, home, asked, f"export PATH={home}/bin:$PATH", "--nodes=2", "--ntasks-per-node=2"
    )
    assert state == "COMPLETED", said
    here = stack_folding.numbers(os.sched_getaffinity(0))
    at = said.index("warning  affinity     node[2,3]: none of its 2 ranks is bound to cores of its own")
    table = [line.split() for line in said[at:].splitlines()[1:5]]
    assert table[1:3] == [["0", here, "0", "(f1:00.0)", "0"], ["1", here, "1", "(f2:00.0)", "1"]]
    assert table[3] == ["right:", "srun", "--cpu-bind=mask_cpu:0x1,0x2", "..."]


def test_a_node_that_does_not_answer_is_to_be_left_out(slurm: Cluster, home: Path) -> None:
    before = f"touch {home}/begun; while [ ! -e {home}/go ]; do sleep 0.1; done"
    script = f"{before}\n{slurm.watchdogd} --home {home} preflight --run run-17 --deadline 20s"
    options = ("--partition=gpu", "--nodes=2", f"--output={home}/log")
    job = slurm.sbatch("alice", script, *options)
    slurm.wait_for_state(job, "RUNNING")
    slurm.kill_slurmd("node3")
    (home / "go").touch()
    slurm.wait_for_state(job, "FAILED", timeout=300)
    said = (home / "log").read_text()
    assert "broken   nodes        node3 does not answer: " in said
    assert said.endswith("do not start: 1 thing is broken; submit it again with --exclude=node3\n")


def test_outside_of_a_job(slurm: Cluster, home: Path) -> None:
    words = [str(slurm.typed), "--home", str(home), "preflight", "--run", "run-17"]
    done = slurm.run_as("alice", words, check=False)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == ("watchdogd: preflight belongs into a job script: SLURM_JOB_ID is not set here\n")
