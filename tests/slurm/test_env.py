"""env on a real Slurm: what it prints is fit for a shell, and srun works with it at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import Cluster

NAME = "tr11 'odd' name"
CONFIG = f"""
[slurm]
users = ["alice"]
[runs.run-17]
job_name = "{NAME}"
gpus_per_node = 8
"""


@pytest.fixture
def home(slurm: Cluster) -> Path:
    home = slurm.new_folder() / "home"
    slurm.run_as("alice", [slurm.typed, "--home", home, "init"])
    (home / "config.toml").write_text(CONFIG)
    return home


def env(slurm: Cluster, home: Path, *words: str) -> str:
    return slurm.run_as("alice", [slurm.typed, "--home", home, "env", "run-17", *words]).stdout


def start(slurm: Cluster, *options: str) -> str:
    words = (f"--job-name={NAME}", "--partition=gpu", "--output=/dev/null", *options)
    job = slurm.sbatch("alice", "exec sleep 600", *words)
    slurm.wait_for_state(job, "RUNNING")
    return job


def test_a_new_shell_works_with_the_job_at_once(slurm: Cluster, home: Path) -> None:
    job = start(slurm, "--nodes=2", "--time=30")
    script = f"""eval "$({slurm.watchdogd} --home {home} env run-17)"
        srun --overlap printenv SLURMD_NODENAME
        echo "$SLURM_JOB_NAME|$JOB_ID|$HOSTS|$NUM_HOSTS|$GPUS_PER_HOST|$NUM_GPUS|$MASTER_ADDR"
        echo $((SLURM_JOB_END_TIME - $(date +%s)))"""
    *nodes, told, left = slurm.run_as("alice", ["bash", "-c", script]).stdout.splitlines()
    assert sorted(nodes) == ["node2", "node3"]
    assert told == f"{NAME}|{job}|node2 node3|2|8|16|node2"
    assert 1500 < int(left) <= 1800


def test_a_hostfile_and_json(slurm: Cluster, home: Path) -> None:
    job = start(slurm, "--nodes=2")
    assert env(slurm, home, "--hostfile") == "node2 slots=8\nnode3 slots=8\n"
    told = json.loads(env(slurm, home, "--json"))
    assert (told["run"], told["SLURM_JOB_ID"], told["HOSTS"]) == ("run-17", job, "node2 node3")


def test_an_array_task_goes_by_its_raw_id(slurm: Cluster, home: Path) -> None:
    start(slurm, "--array=3-4%1")
    told = json.loads(env(slurm, home, "--json"))
    assert told["SLURM_ARRAY_TASK_ID"] == "3"
    here = ["srun", f"--jobid={told['SLURM_JOB_ID']}", "--overlap", "true"]
    slurm.run_as("alice", here)


def test_no_live_job_is_one_line_and_nothing_to_eval(slurm: Cluster, home: Path) -> None:
    words: list[str | Path] = [slurm.typed, "--home", home, "env", "run-17"]
    none = slurm.run_as("alice", words, check=False)
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr == f"watchdogd: no job of run-17 runs: alice has no job named '{NAME}' in the queue\n"
    slurm.sbatch("alice", "true", f"--job-name={NAME}", "--hold", "--output=/dev/null")
    waits = slurm.run_as("alice", words, check=False)
    assert (waits.returncode, waits.stdout) == (1, "")
    assert waits.stderr == "watchdogd: no job of run-17 runs: 1 of its jobs wait in the queue\n"
    unknown = slurm.run_as("alice", [*words[:-1], "run-71"], check=False)
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no run 'run-71'" in unknown.stderr
    assert "run-17" in unknown.stderr
