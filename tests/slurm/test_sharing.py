"""A home that a group shares, on real accounts: alice's daemon lives, bob answers what it tells."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.waiting import wait_until

CONFIG = """
[daemon]
interval = "1s"
confirm = 1
group = "six"
[channels.out]
type = "statuslog"
path = "alerts.log"
[disks.full]
path = "{folder}"
quota = "statvfs"
warn_free = "1EB"
crit_free = "1EB"
[disks.later]
path = "{folder}/later"
quota = "statvfs"
warn_free = "1B"
crit_free = "1B"
"""


class Team:
    """Both, on one home."""

    def __init__(self, slurm: Cluster, home: Path) -> None:
        self.slurm = slurm
        self.home = home

    def say(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv: list[str | Path] = [self.slurm.typed, "--home", self.home, *words]
        done = self.slurm.run_as(user, argv, check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def incident(self, user: str, target: str) -> dict[str, Any] | None:
        """The open one about a target, as `user` reads it from the history."""
        found = json.loads(self.say(user, "incidents", "--json").stdout or "[]")
        return next((each for each in found if each["target"] == target), None)

    @property
    def alerts(self) -> str:
        path = self.home / "alerts.log"
        return path.read_text() if path.exists() else ""


def test_a_second_user_acknowledges_and_silences_through_the_living_daemon(slurm: Cluster) -> None:
    folder = slurm.new_folder()
    team = Team(slurm, folder / "home")
    assert team.say("alice", "init").returncode == 0
    (team.home / "config.toml").write_text(CONFIG.format(folder=folder))
    (folder / "later").mkdir()
    daemon = slurm.popen_as("alice", [slurm.watchdogd, "--home", team.home, "run"])
    wait_until(lambda: "[CRITICAL] full" in team.alerts, 90, "the full disk is told")
    mode = team.home.stat()
    assert (stat.S_IMODE(mode.st_mode), team.home.group()) == (0o2770, "six")

    opened = team.incident("bob", "full")
    assert opened
    done = team.say("bob", "ack", str(opened["id"]), "--reason", "I delete")
    assert (done.returncode, done.stderr) == (0, "")

    def taken() -> bool:
        seen = team.incident("alice", "full")
        return seen is not None and seen["acknowledged_by"] == "bob"

    wait_until(taken, 90, "the acknowledgement is bob's")

    assert team.say("bob", "silence", "later", "--for", "2h").returncode == 0
    wait_until(lambda: not list((team.home / "inbox").glob("*silence*")), 90, "the silence is taken in")
    (folder / "later").rename(folder / "elsewhere")
    wait_until(lambda: team.incident("bob", "later"), 90, "the other disk is gone")
    assert "[CRITICAL] later" not in team.alerts
    (silence,) = json.loads(team.say("alice", "status", "--json").stdout)["silences"]
    assert (silence["target"], silence["by"]) == ("later", "bob")
    assert team.say("alice", "unsilence", "later").returncode == 0
    wait_until(lambda: "[CRITICAL] later" in team.alerts, 90, "what is still wrong is told then")
    daemon.terminate()
    assert daemon.wait(240) == 0
