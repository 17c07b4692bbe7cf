"""node_health on a real Slurm: a node of bob's job is drained, and spare nodes run out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.lab.alice import check, shared_home

CONFIG = """
[checks.spare-nodes]
plugin = "node_health"
partition = "gpu"
min_idle = 2
"""


def looked(slurm: Cluster, home: Path) -> dict[str, dict[str, Any]]:
    """What is said of the nodes' states; jobs of other tests may have failed on them before."""
    found = check(slurm, home, "spare-nodes")
    return {subject: each for subject, each in found.items() if not subject.startswith("exclude ")}


def test_a_drained_node_of_a_colleagues_job_and_too_few_spare_ones(slurm: Cluster) -> None:
    home = shared_home(slurm, slurm.new_folder(), CONFIG)
    found = looked(slurm, home)
    assert {subject: each["status"] for subject, each in found.items()} == {"": "OK"}
    assert found[""]["summary"] == "3 of 3 nodes in gpu are idle"
    options = ("--job-name=tr11", "--partition=gpu", "--nodelist=node2", "--exclusive", "--output=/dev/null")
    job = slurm.sbatch("bob", "exec sleep 600", *options)
    slurm.wait_for_state(job, "RUNNING")
    slurm.drain("node2", "Kill task failed")
    slurm.drain("node3", "bad | DIMM")
    found = looked(slurm, home)
    assert {subject: each["status"] for subject, each in found.items()} == {"": "WARNING", "node2": "WARNING"}
    assert found[""]["summary"] == "only 1 spare node in partition gpu, 2 wanted, 2 out of service"
    assert "by root: bad | DIMM" in found[""]["details"]
    mild = "Kill task failed (mostly a healthy node: a process was slow to die)"
    said = re.sub(r"draining for \d\w*", "draining", found["node2"]["summary"])  # after a minute
    assert said == f"node2: draining by root: {mild}"
    assert f"job {job} (tr11) runs on, no other starts there" in found["node2"]["facts"]
    assert "scontrol update NodeName=node2 State=RESUME" in found["node2"]["details"]
