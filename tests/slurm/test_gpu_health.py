"""gpu_health and `gpus` on a real Slurm: one step on all nodes of the job, with fake tools on their PATH."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import ANSWERING, Cluster
from tests.waiting import AT_ONCE, wait_until
from watchdogd.parsers import probe_sample as samples
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import GpuSample

NAME = "tr11-176B-ml"
CONFIG = f"""
[slurm]
users = ["alice"]
[channels.screen]
type = "console"
[runs.run-17]
job_name = "{NAME}"
gpus_per_node = 2
[runs.run-17.checks.gpu_health]
deadline = "12s"
"""
TOOL = """#!/bin/sh
exec sh "{folder}/$SLURMD_NODENAME.sh" "$@"
"""
HEADER = "index, utilization.gpu [%], power.draw [W], power.limit [W], memory.used [MiB], memory.total [MiB]"
WORKS, WAITS, STALLED = (99, 640), (100, 123), (0, 125)


def kept_off(node: str) -> str:
    """What is said below the fault of a node."""
    return f"\nTo keep the next job off {node}:\nsbatch --exclude={node} ..."


@dataclass
class Lab:
    """A user's home, a job on node2 and node3, and a fake nvidia-smi that answers by node."""

    slurm: Cluster
    folder: Path
    user: str
    job: str

    def node(self, name: str, *gpus: tuple[int, int]) -> None:
        """What nvidia-smi prints on this node."""
        rows = [
            f"{number}, {use} %, {power} W, 700 W, 60000 MiB, 81559 MiB"
            for number, (use, power) in enumerate(gpus)
        ]
        self.script(name, "cat <<'END'\n" + "\n".join([HEADER, *rows]) + "\nEND\n")

    def script(self, name: str, text: str) -> None:
        """What nvidia-smi does on this node."""
        (self.folder / f"{name}.sh").write_text(text)

    def watchdogd(self, *words: str, check: bool = False) -> str:
        """What it prints, run by the home's owner."""
        path = f"{self.folder}:{self.slurm.env['PATH']}"
        argv: list[str | Path] = [self.slurm.typed, "--home", self.home, *words]
        return self.slurm.run_as(self.user, argv, env={"PATH": path}, check=check).stdout

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def check(self) -> dict[str, tuple[str, str]]:
        """Status, and what is said with facts and advice, by subject."""
        found: list[dict[str, Any]] = json.loads(self.watchdogd("check", "run-17/gpu_health", "--json"))
        return {
            each["subject"] or "": (
                each["status"],
                "\n".join(
                    [
                        each["summary"],
                        *each.get("facts", ()),
                        *(one[part] for one in each.get("advice", ()) for part in ("sentence", "command")),
                    ]
                ),
            )
            for each in found
        }

    def bad(self) -> dict[str, str]:
        """What is not OK."""
        return {subject: status for subject, (status, _) in self.check().items() if status != "OK"}


def lab(slurm: Cluster, user: str, *options: str) -> Lab:
    folder = slurm.new_folder()
    (folder / "nvidia-smi").write_text(TOOL.format(folder=folder))
    (folder / "nvidia-smi").chmod(0o755)
    words = (f"--job-name={NAME}", "--partition=gpu", "--output=/dev/null", "--nodes=2", *options)
    job = slurm.sbatch("alice", "exec sleep 600", *words)
    slurm.run_as(user, [slurm.typed, "--home", folder / "home", "init"])
    (folder / "home" / "config.toml").write_text(CONFIG)
    slurm.wait_for_state(job + ("_1" if "--array=1" in options else ""), "RUNNING")
    return Lab(slurm, folder, user, job)


def test_all_nodes_are_asked_at_once_and_the_job_is_left_as_it_was(slurm: Cluster) -> None:
    alice = lab(slurm, "alice", "--exclusive", "--mem=0", "--array=1")
    alice.node("node2", WORKS, WORKS)
    alice.node("node3", WORKS)
    found = alice.check()
    assert found[""][1].startswith("3 GPUs on 2 nodes, utilisation 99 %, power 640 W")
    assert found["node3"] == ("CRITICAL", "node3: only 1 of 2 GPUs are there" + kept_off("node3"))
    assert slurm.state(f"{alice.job}_1") == "RUNNING"
    wait_until(lambda: not steps(slurm, alice.job), ANSWERING, "the probe's step is over")


def steps(slurm: Cluster, job: str) -> list[str]:
    """Steps of the job that run, without its batch script."""
    asked = slurm.run_as("root", ["squeue", "--steps", "--noheader", f"--jobs={job}", "--format=%i %j"])
    return [line for line in asked.stdout.splitlines() if "watchdogd" in line]


def test_a_hang_over_two_nodes_and_the_table_of_it(slurm: Cluster) -> None:
    alice = lab(slurm, "alice")
    alice.node("node2", WAITS, WAITS)
    alice.node("node3", WAITS, STALLED)
    status, summary = alice.check()["collective"]
    assert status == "WARNING"
    assert ": node3/gpu1 (125 W) at 0 %, " in summary
    table = alice.watchdogd("gpus", "run-17", check=True).splitlines()
    assert f"job {alice.job} on node[2-3]" in table[0]
    marks = [(line.split()[0], line.split()[1], line.split()[-1]) for line in table[2:]]
    assert marks == [
        ("node2", "0", "waits"),
        ("node2", "1", "waits"),
        ("node3", "0", "waits"),
        ("node3", "1", "suspect"),
    ]
    told = json.loads(alice.watchdogd("gpus", "run-17", "--json", check=True))
    assert [(each["node"], each["gpu"], each["utilisation"]) for each in told][-1] == ("node3", "gpu1", 0.0)


def test_a_node_whose_tool_hangs_is_named_and_the_other_judged(slurm: Cluster) -> None:
    alice = lab(slurm, "alice")
    alice.node("node2", WORKS, WORKS)
    alice.script("node3", "exec sleep 600")
    began = time.monotonic()
    found = alice.check()
    assert time.monotonic() - began < AT_ONCE
    assert found[""][1].startswith("2 GPUs on 1 node,")
    assert found["node3"][0] == "UNKNOWN"
    assert "nvidia-smi hangs" in found["node3"][1]


def test_a_node_that_does_not_start_the_probe(slurm: Cluster) -> None:
    alice = lab(slurm, "alice")
    alice.node("node2", WORKS)
    alice.node("node3", WORKS, WORKS)
    slurm.kill_slurmd("node3")
    found = alice.check()
    assert found["node3"][0] == "UNKNOWN"
    assert found["node2"] == ("CRITICAL", "node2: only 1 of 2 GPUs are there" + kept_off("node2"))


def test_somebody_elses_job_is_seen_through_its_own_samples(slurm: Cluster) -> None:
    bob = lab(slurm, "bob")
    bob.node("node2", WORKS, WORKS)
    bob.node("node3", WORKS, WORKS)
    found = bob.check()
    assert found[""][0] == "OK"
    assert "watchdogd probe --run run-17 &" in found[""][1]
    assert bob.bad() == {}
    work = Gpu(0, utilisation=98.0)
    for name, gpus in (("node2", (work, Gpu(1, utilisation=97.0))), ("node3", (work,))):
        path = bob.home / "inbox" / f"run-17.sample.{name}.1.json"
        path.write_text(samples.gpus_json(GpuSample("run-17", bob.job, GpuNode(name, Readout(gpus)))))
        path.chmod(0o644)
        shutil.chown(path, "alice")
    (bob.home / "inbox").chmod(0o755)
    assert bob.bad() == {"node3": "CRITICAL"}


def test_no_running_job_is_one_line(slurm: Cluster) -> None:
    alice = lab(slurm, "alice")
    slurm.cancel_all()
    path = {"PATH": f"{alice.folder}:{slurm.env['PATH']}"}
    done = slurm.run_as("alice", [slurm.typed, "--home", alice.home, "gpus", "run-17"], env=path, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("watchdogd: no job of run-17 runs")
    assert alice.bad() == {}
