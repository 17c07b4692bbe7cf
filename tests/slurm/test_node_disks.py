"""node_disks and --exclude on a real Slurm: one's own job through srun, a colleague's through its probe."""

from __future__ import annotations

from pathlib import Path

from tests.cluster import ANSWERING, Cluster
from tests.lab.alice import check, shared_home
from tests.waiting import wait_until

CONFIG = """
node_disks = ["/dev/shm", "{folder}/gone"]
[checks.nodes]
plugin = "node_health"
run = "run-17"
"""
NODES = ("--partition=gpu", "--nodes=2", "--ntasks-per-node=1", "--job-name=tr11", "--output=/dev/null")


def home_of_alice(slurm: Cluster) -> Path:
    folder = slurm.new_folder()
    return shared_home(slurm, folder, CONFIG.format(folder=folder))


def gone(home: Path) -> dict[str, str]:
    return {"": "OK", **{f"{node}:{home.parent}/gone": "CRITICAL" for node in ("node2", "node3")}}


def test_the_disks_of_ones_own_job_are_asked_on_all_its_nodes(slurm: Cluster) -> None:
    home = home_of_alice(slurm)
    job = slurm.sbatch("alice", "exec sleep 600", *NODES)
    slurm.wait_for_state(job, "RUNNING")
    found = check(slurm, home, "run-17/node_disks")
    assert {subject: each["status"] for subject, each in found.items()} == gone(home)
    assert "2 nodes, least is left on node" in found[""]["summary"]
    missing = f"node2:{home.parent}/gone: missing (No such file or directory)"
    assert missing in found[f"node2:{home.parent}/gone"]["summary"]


def test_a_colleagues_probe_looks_at_the_runs_disks_by_itself(slurm: Cluster) -> None:
    home = home_of_alice(slurm)
    slurm.run_as("alice", [slurm.typed, "--home", home, "tick"], check=False)
    probe = f"{slurm.watchdogd} --home {home} probe --run run-17 --every 5s"
    slurm.wait_for_state(slurm.sbatch("bob", f"{probe} & sleep 600", *NODES), "RUNNING")
    wait_until(
        lambda: (
            {subject: each["status"] for subject, each in check(slurm, home, "run-17/node_disks").items()}
            == gone(home)
        ),
        2 * ANSWERING,
        "both nodes tell of their disks",
        every=2.0,
    )


def test_jobs_that_fail_by_their_own_code_accuse_no_node(slurm: Cluster) -> None:
    home = home_of_alice(slurm)
    config = home / "config.toml"
    config.write_text(config.read_text().replace('"tr11"', '"fails-twice"'))  # jobs of other tests are tr11
    options = ("--job-name=fails-twice", "--partition=gpu", "--nodelist=node2", "--output=/dev/null")
    jobs = [slurm.sbatch("bob", "exit 3", *options) for _ in range(2)]
    for job in jobs:
        slurm.wait_for_state(job, "FAILED")
    told = [
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={','.join(jobs)}",
        "--format=State",
    ]
    wait_until(
        lambda: slurm.run_as("alice", told).stdout.split() == ["FAILED", "FAILED"],
        ANSWERING,
        "both are known",
    )
    found = check(slurm, home, "nodes")
    assert found
    assert "exclude" not in found
