"""The first ten minutes of a new user on the real cluster: init, watch, check, doctor."""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.servers.slack import SlackServer
from tests.waiting import wait_until

SWEEPS = 'for n in $(seq 9); do echo "<$n> lattice swept, energy -1.$((n * 7 % 5))"; done; sleep 300'
LOOP = "for step in $(seq 9999); do echo iteration $step; sleep 0.5; done"


class Newcomer:
    """alice, who has installed watchdogd and nothing else."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.config = slurm.home("alice") / ".watchdogd/config.toml"

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.slurm.run_as("alice", [str(self.slurm.typed), *words], check=False, timeout=300)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def run(self, name: str) -> dict[str, Any]:
        """The table of a run."""
        found: dict[str, Any] = tomllib.loads(self.config.read_text())["runs"][name]
        return found

    def job(self, name: str, *options: str, user: str = "alice", script: str = LOOP) -> str:
        job_id = self.slurm.sbatch(user, script, f"--job-name={name}", "--partition=gpu", *options)
        self.slurm.wait_for_state(job_id.partition("_")[0], "RUNNING")
        return job_id


@pytest.fixture
def alice(slurm: Cluster) -> Newcomer:
    newcomer = Newcomer(slurm)
    assert newcomer("init").returncode == 0
    return newcomer


def test_a_job_becomes_a_run_whose_log_is_found_now_and_next_time(alice: Newcomer) -> None:
    name = "mo\"e 'a*[b]' ü"
    job_id = alice.job(name, "--output=%x-%6j.%N.out")
    before = alice.config.read_text()
    done = alice("watch", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert alice.config.read_text().startswith(before)
    assert alice.run("mo-e-a-b-ü")["job_name"] == name
    assert alice.run("mo-e-a-b-ü")["user"] == "alice"

    def read() -> bool:
        seen = alice.json("check", "mo-e-a-b-ü/log_staleness")
        return f"-{int(job_id):06}." in "".join(seen[0].get("facts", ())) and "step " in seen[0]["summary"]

    wait_until(read, 60, "the log is read")
    again = alice("watch", job_id)
    assert (again.returncode, "is watched already, as run 'mo-e-a-b-ü'" in again.stdout) == (0, True)
    alice.slurm.run_as("root", ["scancel", job_id])
    following = alice.job(name, "--output=%x-%6j.%N.out")
    wait_until(
        lambda: f"-{int(following):06}." in alice("check", "mo-e-a-b-ü/log_staleness").stdout,
        60,
        "the next log is read",
    )


def test_arrays_colleagues_and_names_that_are_none(alice: Newcomer) -> None:
    array = alice.job("sweep", "--array=1-2", "--output=%x_%A_%2a.log", script=SWEEPS)
    theirs = alice.job("theirs\n[daemon]", user="bob", script="sleep 300")
    logs = [alice.slurm.home("alice") / f"sweep_{array.partition('_')[0]}_0{task}.log" for task in (1, 2)]
    wait_until(lambda: all(log.exists() and "<9>" in log.read_text() for log in logs), 60, "both write")
    done = alice("watch", array)
    assert done.returncode == 0
    assert "counts as progress: '<9> lattice swept, energy #'" in done.stdout, "a form that nobody knows"
    assert alice.run("sweep")["log"] == f"{alice.slurm.home('alice')}/sweep_*_*.log"
    behind = alice.slurm.sbatch("alice", "true", "--job-name=behind", "--hold")
    jobs = {each["job"]: each for each in alice.json("queue")}
    assert jobs[f"{array.partition('_')[0]}_1"]["run"] == "sweep"
    assert jobs[behind]["waits_for"] == f"held by its user: scontrol release {behind}"
    assert "never" in alice("queue").stdout
    done = alice("watch", theirs)
    assert done.returncode == 0
    assert alice.run("theirs-daemon")["user"] == "bob"
    assert "Slurm lets only bob look into its nodes" in done.stderr
    assert {seen["status"] for seen in alice.json("check", "theirs-daemon/job_liveness")} == {"OK"}
    missing = alice("watch", "sweap")
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "did you mean 'sweep'?" in missing.stderr


def test_the_doctor_here_and_on_the_partition(alice: Newcomer) -> None:
    alice.job("moe", "--output=%x-%j.out")
    alice("watch", "moe")
    here = alice.json("doctor")
    assert [each for each in here["findings"] if each["state"] == "broken"] == []
    assert all(each["fix"] for each in here["findings"] if each["state"] != "fine")
    there = alice("doctor", "--on-partition", "--json")
    assert there.returncode == 1  # nobody is told of anything yet
    report = json.loads(there.stdout)
    assert report["where"].endswith((" on node1", " on node5"))
    said = {each["text"] for each in report["findings"]}
    assert any("takes a link from this node" in text for text in said)
    assert any("a lock holds" in text for text in said)
    assert list((alice.config.parent / "logs").iterdir()) == []
    alice.config.write_text(alice.config.read_text().replace('partition = "small"', 'partition = "smal"'))
    folded = ["env", "COLUMNS=80", str(alice.slurm.typed), "doctor"]
    wrong = alice.slurm.run_as("alice", folded, check=False, timeout=300)
    assert wrong.returncode == 2
    assert any("did you mean 'small'?" in line for line in wrong.stdout.splitlines())  # a pipe folds nothing


def test_questions_make_a_configuration_of_which_everything_is_tried(
    slurm: Cluster, slack: SlackServer
) -> None:
    alice = Newcomer(slurm)
    alice.job("moe", "--output=%x-%j.out")
    answers = {
        "partition": ["99", ""],
        "account": [""],
        "a channel that is not there": ["slack", "http://127.0.0.1:1/secret", "n"],
        "one that is": ["1", slack.url],
        "no more": [""],
        "jobs": ["2", "1"],
        "disks": [f"nowhere, {slurm.home('alice')}"],
    }
    typed = "".join(f"{answer}\n" for each in answers.values() for answer in each)
    words = ("init", "--interactive")
    done = slurm.run_as("alice", [slurm.typed, *words], stdin=typed, check=False, timeout=300)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stdout + done.stderr
    config = tomllib.loads(alice.config.read_text())
    assert config["slurm"]["partition"] == "small"
    assert alice.run("moe")["user"] == "alice"
    assert {disk["path"] for disk in config["disks"].values()} == {str(slurm.home("alice"))}
    assert config["channels"].keys() == {"console", "slack"}
    [message] = slack.messages
    assert "test message, sent by " in message.text
    kept = slurm.home("alice") / ".slack-webhook"
    assert config["channels"]["slack"]["webhook_url"] == "file:~/.slack-webhook"
    assert (kept.read_text().strip(), kept.stat().st_mode & 0o777) == (slack.url, 0o600)
    for said in (
        "not delivered: ",
        "delivered: is it there?",
        "nowhere is no path",
        "home/disk_quota",
        "fine",
    ):
        assert said in done.stdout
    assert "bytes.used=" not in done.stdout, "numbers for Nagios are for programs"
    assert done.stdout.endswith("To start it: watchdogd start\n")


HIDDEN = """
mount -t tmpfs -o mode=1777 tmpfs "$1"
exec setpriv --reuid=alice --regid=alice --init-groups env HOME="$1" USER=alice LOGNAME=alice \\
  sh -c '"$0" init >/dev/null && "$0" doctor --on-partition --json' "$2"
"""
"""A home on a file system that this machine has mounted and the nodes have not."""


def test_where_nodes_do_not_see_home_it_says_so_and_tries_the_rest(slurm: Cluster) -> None:
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", HIDDEN, "sh"]
    done = slurm.run_as("root", [*words, slurm.new_folder(), slurm.watchdogd], check=False, timeout=180)
    assert done.returncode == 2, done.stderr
    report = json.loads(done.stdout)
    said = {(each["state"], each["topic"]): each["text"] for each in reversed(report["findings"])}
    assert "does not see" in said["broken", "home"]
    assert "runs" in said["fine", "Python"]
    assert any(each["text"].startswith("squeue answers on node") for each in report["findings"])
    assert said["fine", "sbatch"].startswith("takes a link from node")
    assert "; what needs home, from " in report["where"]
    assert any("a lock holds" in each["text"] for each in report["findings"])
