"""A member of a team who would act under another one's name, on real accounts: alice's home, bob's tricks."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.lab.machine import Machine
from watchdogd.probe.sample_files import left

pytestmark = pytest.mark.xdist_group("machine")
CONFIG = """
[daemon]
confirm = 1
group = "six"
[channels.out]
type = "statuslog"
path = "alerts.log"
[alerts]
channels = ["out"]
[disks.full]
path = "{folder}"
quota = "statvfs"
crit_free = "1EB"
"""
ACK = '{"kind": "ack", "id": ID, "reason": "forged"}'
OWN = "others than its owner may write it"
TRICKS = (
    (OWN, f"echo '{ACK}' > status.json && mv status.json inbox/ID.ack.node1.1-1.json"),
    (
        "it has more than one name",
        f"echo '{ACK}' > report.html && ln report.html inbox/ID.ack.node1.1-2.json",
    ),
    (
        "it is no plain file",
        f"echo '{ACK}' > report.html && ln -s ../report.html inbox/ID.ack.node1.1-3.json",
    ),
    (OWN, f"umask 0; echo '{ACK}' > inbox/ID.ack.node1.1-4.json"),
    (
        "its time does not fit",
        f"echo '{ACK}' > inbox/ID.ack.n.1-5.json; touch -d yesterday inbox/ID.ack.n.1-5.json",
    ),
    ("its time does not fit", "mv notes.json inbox/ID.ack.node1.1-6.json"),
    (
        "who does not own home",
        "mv inbox theirs && mkdir inbox && chmod 2770 inbox"
        f" && echo '{ACK}' > report.html && mv report.html inbox/ID.ack.node1.1-7.json",
    ),
)


class Team:
    """Both, on one home."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.home = machine.new_folder() / "home"
        said = self.say("alice", "init", "--group", "six")
        assert "made " in said, said
        (self.home / "config.toml").write_text(CONFIG.format(folder=self.home.parent))
        self.say("alice", "tick")
        self.say("alice", "report")
        self.id = str(self.incident()["id"])

    def say(self, user: str, *words: str) -> str:
        done = self.machine.run_as(user, [self.machine.typed, "--home", self.home, *words])
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout + done.stderr

    def sh(self, user: str, script: str) -> int:
        return self.machine.run_as(
            user, ["sh", "-c", script.replace("ID", self.id)], cwd=self.home
        ).returncode

    def incident(self) -> dict[str, Any]:
        listed: list[dict[str, Any]] = json.loads(self.say("alice", "incidents", "--json"))
        (found,) = [each for each in listed if each["target"] == "full"]
        return found

    def by(self) -> str | None:
        """Who acknowledged it."""
        by: str | None = self.incident()["acknowledged_by"]
        return by

    @property
    def papers(self) -> list[str]:
        return [name for name in os.listdir(self.home / "inbox") if ".ack." in name]


@pytest.fixture
def team(machine: Machine) -> Team:
    return Team(machine)


@pytest.mark.attack("forge an acknowledgement in a colleague's name")
def test_what_bob_puts_into_the_inbox_is_not_alices_word(team: Team) -> None:
    assert team.sh("alice", f"umask 022; echo '{ACK}' > notes.json; touch -d yesterday notes.json") == 0
    for why, trick in TRICKS:
        assert team.sh("bob", trick) == 0, why
        said = team.say("alice", "tick")
        assert not team.by(), why
        told = team.say("alice", "status") + said + (team.home / "alerts.log").read_text()
        assert why in " ".join(told.split())
        team.say("alice", "report")  # another file of hers


@pytest.mark.attack("remove, move or change what a colleague handed in")
def test_what_alice_handed_in_is_hers_until_it_is_taken(team: Team) -> None:
    team.say("alice", "ack", team.id)
    assert len(team.papers) == 1
    for trick in (
        "rm -f inbox/ID.ack*",
        "mv inbox/ID.ack* plugins/",
        "ln inbox/ID.ack* plugins/x",
        "for each in inbox/ID.ack*; do echo x >> $each; done",
    ):
        assert team.sh("bob", trick) != 0, trick
    team.say("bob", "tick")  # a daemon that may not remove it takes it once
    team.say("bob", "tick")
    assert len(team.papers) == 1
    assert json.loads((team.home / ".taken.json").read_text()) == team.papers
    assert team.by() == "alice"
    team.say("alice", "tick")
    assert team.papers == []
    team.say("bob", "ack", team.id)
    team.say("alice", "tick")
    assert team.papers == []


@pytest.mark.attack("forge a heartbeat or a node's sample")
def test_a_beat_counts_from_the_user_of_the_run(team: Team) -> None:
    for kind in ("beat", "sample"):
        for user in ("alice", "bob"):
            assert team.sh(user, f"umask 027; echo {user} > inbox/run-17.{kind}.{user}.1.json") == 0
        counted = [text.strip() for _, text in left(str(team.home / "inbox"), "run-17", "alice", kind)]
        assert counted == ["alice"]
