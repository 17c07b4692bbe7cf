"""The main job, end to end, on the real cluster: what a team lives through with one training."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.servers.slack import SlackServer
from tests.servers.smtp import Mailbox
from tests.waiting import wait_until

INTERVAL = 2.0
CONFIRM = 2
STALE_AFTER = 6.0
SLOW = 20.0
"""Seconds that a busy machine may add to what is promised."""

TRAIN = """
import os, sys, time
from watchdogd.training import Guard

rank = int(os.environ.get("SLURM_PROCID", "0"))
guard = Guard("run-17")
guard.exit_if_stopped()
log = open(sys.argv[1], "a", buffering=1) if rank == 0 else None
for step in range(1, 100000):
    time.sleep(0.5)
    if log:
        log.write(f" iteration {step:8d}/ 100000 | lm loss: {6 - step / 1e5:.4E} |\\n")
    wish = guard.poll(step=step, loss=6.0)
    if wish.save:
        guard.saved()
    if wish.stop:
        if log:
            log.write(f"saved at iteration {step}: {wish.reason}\\n")
        sys.exit(0)
"""


class Team:
    """alice and bob with one home, one run, one small disk, Slack and mail."""

    def __init__(self, slurm: Cluster, slack: SlackServer, mailbox: Mailbox, disk: Path) -> None:
        self.slurm, self.slack, self.mailbox, self.disk = slurm, slack, mailbox, disk
        self.place = slurm.new_folder()
        self.home = self.place / "watch"
        self.log = self.place / "main_log.txt"
        self.switch = self.place / "kill-switch"
        self.env = {"WATCHDOGD_HOME": str(self.home), "SLACK_WEBHOOK_URL": slack.url}

    def dog(self, user: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A verb of watchdogd, as a user."""
        return self.slurm.run_as(user, [str(self.slurm.typed), *words], env=self.env, check=check)

    def set_up(self) -> None:
        """`init`, the configuration, and the training script."""
        self.dog("alice", "init", "--group", "six")
        (self.home / "config.toml").write_text(
            textwrap.dedent(
                f"""
                [daemon]
                name = "bloom-watch"
                interval = "{INTERVAL:g}s"
                confirm = {CONFIRM}
                group = "six"
                [slurm]
                partition = "small"
                users = ["alice", "bob"]
                min_poll = "1s"
                [channels.slack]
                type = "slack"
                webhook_url = "env:SLACK_WEBHOOK_URL"
                [channels.mail]
                type = "email"
                smtp = "{self.mailbox.url}"
                from = "watchdog@example.org"
                to = ["team@example.org"]
                rate = "none"
                [runs.run-17]
                job_name = "tr11-176B-ml"
                log = "{self.log}"
                stale_after = "{STALE_AFTER:g}s"
                kill_switch = "{self.switch}"
                [disks.scratch]
                path = "{self.disk}"
                """
            )
        )
        (self.place / "train.py").write_text(TRAIN)

    def train(self, *options: str, body: str | None = None) -> str:
        """alice submits a two-node job of the run; returns its id."""
        script = body or f"srun {self.slurm.python} {self.place}/train.py {self.log}"
        return self.slurm.sbatch(
            "alice",
            f"export WATCHDOGD_HOME={self.home}\n{script}",
            "--job-name=tr11-176B-ml",
            "--partition=gpu",
            "--nodes=2",
            f"--output={self.place}/job-%j.out",
            *options,
        )

    def told(self, *parts: str) -> str:
        """The first Slack message whose text holds all parts, or empty."""
        return next((m.text for m in self.slack.messages if all(part in m.text for part in parts)), "")

    def count(self, *parts: str) -> int:
        """How many first lines of Slack messages hold all parts."""
        return sum(all(part in m.text.splitlines()[0] for part in parts) for m in self.slack.messages)

    def mailed(self, *parts: str) -> str:
        """The subject of the first mail that holds all parts, or empty."""
        subjects = [str(mail.message["Subject"]) for mail in self.mailbox.messages]
        return next((subject for subject in subjects if all(part in subject for part in parts)), "")

    def wait_told(self, *parts: str, within: float) -> str:
        """Both in Slack and by mail, and how long that took is on the record."""
        text = wait_until(lambda: self.told(*parts), within + SLOW, f"Slack has {parts}")
        wait_until(lambda: self.mailed(*parts), SLOW, f"mail has {parts}")
        print(f"{parts}: told after {text.seconds:.1f} s (promised {within:.0f} s)")
        return text.value

    def status(self) -> dict[str, Any]:
        """`status --json`."""
        picture: dict[str, Any] = json.loads(self.dog("alice", "status", "--json", check=False).stdout)
        return picture

    def processes(self, signal: str) -> None:
        """Send a signal to every process of the training."""
        subprocess.run(["pkill", f"-{signal}", "-u", "alice", "-f", "train.py"], check=True)

    def own_jobs(self) -> list[str]:
        """What watchdogd has in the queue, by its mark."""
        out = self.slurm.run_as("root", ["squeue", "--noheader", "--all", "--format=%i %T %k"]).stdout
        return [line for line in out.splitlines() if "watchdogd:" in line]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small real file system that everybody may write to."""
    place = Path("/tmp") / f"watchdogd-story-{os.getpid()}"
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=2000,mode=1777", "tmpfs", str(place)], check=True
    )
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def team(slurm: Cluster, slack: SlackServer, mailbox: Mailbox, disk: Path) -> Iterator[Team]:
    """The team, set up; whatever happens, the watchdog is stopped at the end."""
    team = Team(slurm, slack, mailbox, disk)
    team.set_up()
    yield team
    team.dog("alice", "stop", check=False)


def test_the_story_of_a_run(team: Team) -> None:
    fault = (CONFIRM + 1) * INTERVAL
    job = team.train("--array=1-3%1")
    wait_until(lambda: team.log.exists() and team.log.stat().st_size > 200, 120, "the training iterates")

    # 2. one link on a CPU node, alive; a second start changes nothing
    team.dog("alice", "start", "--partition", "small")
    wait_until(lambda: team.status()["alive"], 90, "a link is alive")
    links = team.own_jobs()
    again = team.dog("alice", "start", "--partition", "small")
    assert "already" in again.stdout
    assert team.own_jobs() == links

    # 3. healthy: no message at all
    first_round = team.status()["last_round"]
    wait_until(lambda: team.status()["last_round"] != first_round, 60, "rounds go on")
    time.sleep(STALE_AFTER + fault)
    assert [message.text for message in team.slack.messages] == []
    assert team.mailbox.messages == []
    assert team.dog("alice", "status", check=False).returncode == 0

    # 4. a hang, told with the last lines; it goes on: resolved, once
    team.processes("STOP")
    hang = team.wait_told("[CRITICAL] run-17", within=STALE_AFTER + fault)
    assert re.search(r"stalled(, .*)? for .*, at (iteration|step) \d", hang), "by its log, or by heartbeats"
    assert team.dog("alice", "status", check=False).returncode == 2
    team.processes("CONT")
    team.wait_told("[RESOLVED] run-17", within=fault)
    assert team.count("[RESOLVED] run-17") == 1

    # 5. the disk fills by bytes, then by inodes; each is named
    (team.disk / "big").write_bytes(b"x" * 16_700_000)
    assert "inode" not in team.wait_told("[CRITICAL] scratch", within=fault).splitlines()[0]
    (team.disk / "big").unlink()
    team.wait_told("[RESOLVED] scratch", within=fault)
    for number in range(1990):
        (team.disk / f"small-{number}").touch()
    team.wait_told("[CRITICAL] scratch", "inode", within=fault)
    for path in team.disk.iterdir():
        path.unlink()
    wait_until(lambda: team.count("[RESOLVED] scratch") == 2, fault + SLOW, "inodes are resolved")

    # 6. bob stops it: it saves, the queued tasks burn through, and it is no fault
    before = team.slurm.run_as("bob", ["id", "-un"]).stdout.strip()
    team.dog("bob", "kill-switch", "run-17", "--reason", "wrong learning rate")
    burnt = wait_until(
        lambda: not team.slurm.squeue("alice") or _only_links(team), 60, "the array burns through"
    )
    print(f"the array of 3 tasks burnt through in {burnt.seconds:.1f} s")
    assert "saved at iteration" in team.log.read_text()
    told = team.wait_told("run-17", before, "wrong learning rate", within=fault)
    assert not told.startswith("[CRITICAL]")
    wait_until(
        lambda: any(
            "bob" in seen["summary"] and "wrong learning rate" in seen["summary"]
            for seen in team.status()["incidents"] + team.status()["checks"]
        ),
        fault + SLOW,
        "status says that the switch is set, by whom and why",
    )
    wait_until(lambda: team.told("[WARNING] run-17", "wrong learning rate"), fault + SLOW, "the end is told")
    assert team.count("[CRITICAL] run-17") == 1
    team.dog("bob", "kill-switch", "run-17", "--clear")
    assert not team.switch.exists()
    wait_until(lambda: not _open(team, "run-17"), fault + SLOW, "the stop closes quietly")

    # 7. one more job ends with 3, and nothing runs or waits after it
    last = team.train(body="sleep 3; echo 'torch.OutOfMemoryError: CUDA out of memory.'; exit 3")
    gone = team.wait_told(f"[CRITICAL] run-17: job {last} FAILED (exit 3) after", within=3 + fault)
    assert gone.splitlines()[0].endswith(": GPU out of memory")
    assert gone.count("out of memory") == 1
    team.train()
    wait_until(lambda: team.count("[RESOLVED] run-17") == 2, 60 + fault, "the run is back")

    # 8. nothing is left
    team.dog("alice", "stop")
    assert team.own_jobs() == []
    assert job


def _only_links(team: Team) -> bool:
    return all("tr11-176B-ml" not in line for line in team.slurm.squeue("alice"))


def _open(team: Team, run: str) -> list[dict[str, Any]]:
    return [incident for incident in team.status()["incidents"] if incident["run"] == run]
