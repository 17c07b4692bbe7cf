"""memory_leak on a real Slurm: one's own job through srun, a colleague's through its probe."""

from __future__ import annotations

from pathlib import Path

from tests.cluster import ANSWERING, Cluster
from tests.lab.alice import check, shared_home
from tests.waiting import wait_until

CONFIG = 'memory_free = "{free}"\n'
LEAK = "run-17/memory_leak"
HOLDER = """
import pathlib, sys, time
held = bytearray(96 << 20)
pathlib.Path(sys.argv[1], "ready").touch()
time.sleep(600)
"""
NODES = ("--partition=gpu", "--nodes=2", "--job-name=tr11", "--ntasks-per-node=1", "--output=/dev/null")


def home_of_alice(slurm: Cluster, free: str) -> Path:
    folder = slurm.new_folder()
    (folder / "hold.py").write_text(HOLDER)
    return shared_home(slurm, folder, CONFIG.format(free=free))


def start(slurm: Cluster, user: str, home: Path, before: str = "") -> None:
    """The batch script's process, on the first node, holds 96 MiB."""
    text = f"{before}\n{slurm.python} {home.parent}/hold.py {home.parent}\n"
    slurm.wait_for_state(slurm.sbatch(user, text, *NODES), "RUNNING")
    wait_until(lambda: (home.parent / "ready").exists(), ANSWERING, "the memory is held")


def test_ones_own_job_is_asked_on_all_its_nodes(slurm: Cluster) -> None:
    home = home_of_alice(slurm, "1MB")
    start(slurm, "alice", home)
    found = check(slurm, home, LEAK)
    assert {node: each["status"] for node, each in found.items()} == {"": "OK", "node2": "OK", "node3": "OK"}
    held = {node: found[node]["metrics"]["anonymous"]["value"] for node in ("node2", "node3")}
    assert held["node2"] > 96 << 20 > held["node3"]
    assert found["node2"]["details"].startswith("python")


def test_a_colleagues_job_tells_through_its_probe_that_memory_is_short(slurm: Cluster) -> None:
    home = home_of_alice(slurm, "99.9%")
    start(slurm, "bob", home, f"{slurm.watchdogd} --home {home} probe --run run-17 --every 5s &")
    wait_until(
        lambda: (
            {node for node, each in check(slurm, home, LEAK).items() if each["status"] == "CRITICAL"}
            == {"node2", "node3"}
        ),
        2 * ANSWERING,
        "both nodes are short of memory",
        every=2.0,
    )
    found = check(slurm, home, LEAK)["node2"]["facts"]
    assert "most is held by python" in "".join(found)
