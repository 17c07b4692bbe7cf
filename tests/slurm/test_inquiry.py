"""On a real Slurm each node of a job is asked who holds it up; NCCL's RAS is a fake one on a real port."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import psutil

from tests.cluster import Cluster
from tests.servers.ras import gpu, mismatch, serving, text
from tests.waiting import wait_until
from watchdogd.batch import scontrol, sinfo, slurmtext

TRAINING = """
import os, pathlib, time
here = pathlib.Path(__file__).parent
rank = os.environ["SLURM_PROCID"]
(here / f"pid.{rank}").write_text(str(os.getpid()))
time.sleep(600)
"""
ASK = """
import json, sys
from watchdogd.remediation import stall_inquiry, suspects
from watchdogd.batch import live_job
from watchdogd.plugin import Run
live = live_job.locate(Run("run-17", "tr11"), frozenset(sys.argv[1:]))
seen = stall_inquiry.look_at(live.run, live.jobs)
told = {"silent": sorted(seen.silent), "closed": seen.closed}
words = suspects.merge(seen.suspects()).words()
print(json.dumps({**told, "nodes": sorted(each.node for each in seen.nodes), "words": words}))
"""
WAKE = """
import sys
from watchdogd.batch import live_job
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Run, Status
from watchdogd.probe.node_answers import stacks_can_be_taken
from watchdogd.remediation import stall_inquiry, suspects
from watchdogd.remediation.models import EVIDENCE, ActionRecord, ActionTask
home = Home.find(sys.argv[1])
run = Run("run-18", "tr12", users=frozenset(["alice"]), inbox=f"{sys.argv[1]}/inbox")
live = live_job.locate(run, run.users)
seen = stall_inquiry.look_at(run, live.jobs)
incident = Incident(3, "run-18/log_staleness", "run-18", "run-18", "", Status.CRITICAL, 2e9, "stalled")
task = ActionTask(ActionRecord(3, "run-18", "on_hang", EVIDENCE, 0.0), incident, home, run, queue=live.jobs)
for each in stall_inquiry.continued(task, suspects.merge(seen.suspects()), seen.nodes):
    print(each.sentence, each.command, sep="\\n")
print(stacks_can_be_taken(run, live.job))
"""
REQUEUE = """
import sys
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Run, Status
from watchdogd.remediation import executor
from watchdogd.remediation.models import Action, ActionRecord, ActionTask, Exclusion
home, run = Home.find(sys.argv[1]), Run("run-17", "tr11", users=frozenset(["alice"]))
deed = ActionRecord(3, "run-17", "on_hang", Action("requeue", exclusion=Exclusion()), 0.0)
incident = Incident(3, "run-17/log_staleness", "run-17", "run-17", "", Status.CRITICAL, 2e9, "stalled")
print(executor.do(ActionTask(deed, incident, home, run, users=run.users)).text)
"""


def ask(slurm: Cluster, user: str, *users: str) -> dict[str, object]:
    told = slurm.run_as(user, [slurm.python, "-c", ASK, *users], timeout=120)
    found: dict[str, object] = json.loads(told.stdout)
    return found


def requeued_elsewhere(slurm: Cluster, job: str) -> tuple[str, list[str]]:
    """Return what a requeue that leaves node3 out says, and the nodes that the job leaves out after it."""
    dog = [str(slurm.typed), "--home", str(slurm.new_folder() / "home")]
    slurm.run_as("alice", [*dog, "init"])
    config = f"{dog[2]}/config.toml"
    slurm.run_as("alice", ["sh", "-c", f"printf '[runs.run-17]\\njob_name = \"tr11\"\\n' >> {config}"])
    slurm.run_as("alice", [*dog, "nodes", "run-17", "--add", "node3", "--reason", "bad link"])
    said = slurm.run_as("alice", [slurm.python, "-c", REQUEUE, dog[2]], timeout=120).stdout
    shown = slurm.run_as("root", ["scontrol", "show", "job", job]).stdout
    return said.strip().rpartition(", ")[2], list(slurmtext.expand_hostlist(scontrol.excluded(shown)))


def test_every_node_is_asked_who_holds_the_job_up(slurm: Cluster) -> None:
    folder = slurm.new_folder()
    (folder / "train.py").write_text(TRAINING)

    def says() -> str:
        last = int((folder / "pid.3").read_text())
        behind = f"Rank 3 has launched up to operation 6 -- {gpu(1, last, '127.0.0.1')}"
        return text(mismatch(["3 ranks have launched up to operation 7", behind]), 4)

    with serving(says) as fake:
        job = slurm.sbatch(
            "alice",
            f"export NCCL_RAS_ADDR={fake.address} WORLD_SIZE=4; srun {slurm.python} {folder}/train.py",
            "--job-name=tr11", "--partition=gpu", "--output=/dev/null", "--nodes=2", "--ntasks=4",
            "--ntasks-per-node=2", "--exclude=node1",
        )  # fmt: skip
        wait_until(lambda: len(list(folder.glob("pid.*"))) == 4, 90, "four ranks run")
        told = ask(slurm, "alice", "alice")
        theirs = ask(slurm, "bob", "alice")
        again = requeued_elsewhere(slurm, job)
    assert again == ("without node3", ["node1", "node3"])
    query = ["sinfo", "--noheader", "--Node", "--partition=gpu", f"--format={sinfo.USABLE_FORMAT}"]
    shown = slurm.run_as("root", ["scontrol", "show", "job", job]).stdout
    assert sinfo.usable(slurm.run_as("alice", query).stdout) == {"node2", "node3", "node4"}
    assert scontrol.demand(shown) == ("gpu", 2, "")
    assert len(fake.heard) >= 4
    assert (told["silent"], told["closed"]) == ([], "")
    assert len(told["nodes"]) == 2  # type: ignore[arg-type]
    assert str(told["words"]).startswith("rank 3 (node ")
    assert str(told["words"]).endswith(", GPU 1) is behind: it has not entered AllReduce 7")
    assert theirs["nodes"] == []
    assert "Slurm starts no step in " in str(theirs["closed"])


def test_a_stopped_process_comes_with_the_line_that_lets_it_go_on_on_its_node(slurm: Cluster) -> None:
    folder = slurm.new_folder()
    (folder / "train.py").write_text(TRAINING)
    job = slurm.sbatch(
        "alice", f"export WORLD_SIZE=4; srun {slurm.python} {folder}/train.py",
        "--job-name=tr12", "--partition=gpu", "--output=/dev/null", "--nodes=2", "--ntasks=4",
        "--ntasks-per-node=2",
    )  # fmt: skip
    wait_until(lambda: len(list(folder.glob("pid.*"))) == 4, 90, "four ranks run")
    stopped = psutil.Process(int((folder / "pid.3").read_text()))
    home = str(folder / "home")
    slurm.run_as("alice", [str(slurm.typed), "--home", home, "init"])
    wake: list[str | Path] = [slurm.python, "-c", WAKE, home]
    assert slurm.run_as("alice", wake, timeout=120).stdout.splitlines() == ["True"]
    stopped.suspend()
    sentence, command, stacks = slurm.run_as("alice", wake, timeout=120).stdout.splitlines()
    assert (sentence, stacks) == ("To let it go on (as alice):", "True")
    assert command.startswith(f"srun --jobid={job} --overlap --nodes=1 --ntasks=1 --nodelist=node")
    assert command.endswith(f" kill -CONT {stopped.pid}")
    assert stopped.status() == psutil.STATUS_STOPPED
    slurm.run_as("alice", shlex.split(command), timeout=60)
    wait_until(lambda: stopped.status() != psutil.STATUS_STOPPED, 10, "it goes on")
    script = WAKE.replace("Home.find(sys.argv[1])", "None")  # alice's is closed to bob
    theirs = slurm.run_as("bob", [slurm.python, "-c", script, home], timeout=120)
    assert theirs.stdout.splitlines() == ["False"], "Slurm starts nothing for bob, and no probe runs"
