"""A team's home on real accounts: what alice makes, bob uses, also below her folder; whose jobs count."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until
from watchdogd.home.layout import Home

RUN = """
[channels.out]
type = "statuslog"
path = "alerts.log"
[runs.run-17]
backend = "process"
command = "no such training"
[disks.scratch]
path = "{folder}"
quota = "statvfs"
"""


class Team:
    """Alice's home in her own folder, and what both say to it."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.folder = slurm.home("alice")
        self.home = self.folder / "shared-watch"

    def say(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv: list[str | Path] = [self.slurm.typed, "--home", self.home, *words]
        done = self.slurm.run_as(user, argv, check=False)
        assert "Traceback" not in done.stdout + done.stderr
        return done


def test_init_says_what_keeps_members_out_and_what_to_type(slurm: Cluster) -> None:
    team = Team(slurm)
    team.folder.chmod(0o700)
    made = team.say("alice", "init", "--group", "six")
    kept_out = f"bob cannot go through {team.folder} (rwx------, alice:alice)"
    assert (made.returncode, f"{kept_out}: chmod o+x {team.folder}" in made.stderr) == (0, True)
    done = team.say("bob", "silence", "watchdogd", "--for", "1h")
    assert (done.returncode, f"bob cannot go through {team.folder}: have alice run" in done.stderr) == (
        1,
        True,
    )
    found = json.loads(team.say("alice", "doctor", "--json").stdout)["findings"]
    told = [each for each in found if each["topic"] == "members"]
    assert [(each["state"], each["fix"]) for each in told] == [("warning", f"chmod o+x {team.folder}")]

    slurm.run_as("alice", ["chmod", "o+x", team.folder])
    (team.home / "config.toml").chmod(0o600)
    found = json.loads(team.say("alice", "doctor", "--json").stdout)["findings"]
    told = [each for each in found if each["topic"] == "members"]
    assert [each["fix"] for each in told] == [f"chmod g+r {team.home}/config.toml"]
    slurm.run_as("alice", ["chmod", "g+r", team.home / "config.toml"])
    found = json.loads(team.say("alice", "doctor", "--json").stdout)["findings"]
    assert [each["state"] for each in found if each["topic"] == "members"] == ["fine"]
    assert team.say("bob", "status").returncode == 3


def test_a_colleague_uses_a_home_below_its_owners_folder(slurm: Cluster) -> None:
    """Before the first round, so that all is read from config.toml, and after it."""
    team = Team(slurm)
    team.folder.chmod(0o711)
    assert team.say("alice", "init", "--group", "six").stderr == ""
    config = team.home / "config.toml"
    config.write_text(config.read_text() + RUN.format(folder=slurm.new_folder()))
    for _ in range(2):
        for words in (
            "kill-switch run-17 --reason wrong",
            "kill-switch run-17 --clear",
            "kill-switch --all --yes --show",
            "save-switch run-17",
            "silence scratch --for 1h",
            "unsilence scratch",
            "finish run-17",
            "finish run-17 --clear",
            "check scratch",
            "incidents",
            "history",
            "config",
            "plugins",
            "backtest",
            "report -o page.html",
            "outbox",
        ):
            done = team.say("bob", *words.split())
            shown = 1 if "--show" in words else 0
            assert (done.returncode, words) == (shown, words), done.stderr
            slurm.run_as("alice", ["rm", "-f", team.home / "switches" / "run-17.save"])
        assert team.say("alice", "tick").returncode == 0
    assert team.say("bob", "tick").returncode == 0
    assert "belongs to" not in team.say("bob", "doctor", "--json").stdout


def test_code_below_another_members_folder_is_not_run_but_its_switches_are_pressed(slurm: Cluster) -> None:
    """Bob owns the folder above: he could put another home there. To press one that is no matter."""
    team = Team(slurm)
    place = slurm.new_folder()
    slurm.run_as("bob", ["mkdir", "-m", "711", place / "bobs"])
    slurm.run_as("bob", ["mkdir", "-m", "777", place / "bobs" / "team"])
    team.home = place / "bobs" / "team" / "watch"
    assert team.say("alice", "init", "--group", "six").returncode == 0
    (place / "bobs" / "team").chmod(0o711)
    config = team.home / "config.toml"
    config.write_text(config.read_text() + RUN.format(folder=place))
    done = team.say("alice", "check")
    assert (done.returncode, "belongs to" in done.stderr) == (78, True)
    assert team.say("alice", "kill-switch", "run-17").returncode == 0
    assert team.say("alice", "silence", "scratch", "--for", "1h").returncode == 0
    (place / "bobs" / "team").chmod(0o777)
    done = team.say("alice", "silence", "scratch", "--for", "1h")
    assert (done.returncode, "chmod o-w" in done.stderr) == (78, True)


def test_whoever_starts_it_the_jobs_of_the_team_are_seen(slurm: Cluster) -> None:
    team = Team(slurm)
    team.folder.chmod(0o711)
    team.say("alice", "init", "--group", "six")
    config = team.home / "config.toml"
    job = slurm.sbatch("alice", "sleep 600", "--job-name=plain-1b")
    slurm.wait_for_state(job, "RUNNING")
    assert team.say("alice", "watch", "plain-1b").returncode == 0
    tables = tomllib.loads(config.read_text())
    assert (tables["slurm"]["group"], tables["runs"]["plain-1b"]["user"]) == ("six", "alice")
    config.write_text(config.read_text().replace('interval = "1m" ', 'interval = "1s" '))
    assert team.say("bob", "start", "--local").returncode == 0
    try:
        for user in ("alice", "bob"):

            def runs(user: str = user) -> bool:
                checks = json.loads(team.say(user, "status", "--json").stdout)["checks"]
                said = [each["summary"] for each in checks if each["check"] == "plain-1b/job_liveness"]
                return any(f"job {job} runs" in each for each in said)

            wait_until(runs, 90, f"{user} sees that it runs")
            done = team.say(user, "check", "plain-1b/job_liveness")
            assert (done.returncode, f"job {job} runs" in done.stdout) == (0, True)
    finally:
        team.say("bob", "stop")


def test_a_run_of_somebody_who_does_not_count_is_a_warning_with_the_line_to_add(slurm: Cluster) -> None:
    team = Team(slurm)
    team.folder.chmod(0o711)
    team.say("alice", "init", "--group", "six")
    config = team.home / "config.toml"
    config.write_text(
        f'[daemon]\nconfirm = 1\ngroup = "six"\n{RUN.format(folder=team.folder)}[runs.plain-1b]\n'
    )
    job = slurm.sbatch("alice", "sleep 600", "--job-name=plain-1b")
    stranger = slurm.sbatch("alice", "sleep 600", "--job-name=other", "--comment=watchdogd:x")
    for each in (job, stranger):
        slurm.wait_for_state(each, "RUNNING")
    assert team.say("bob", "tick").returncode == 0  # from now on it is bob who watches
    for user in ("bob", "alice"):
        done = team.say(user, "check", "plain-1b/job_liveness")
        assert (done.returncode, f"job {job} of alice has its name" in done.stdout) == (1, True), done.stdout
        assert 'user = "alice" under [runs.plain-1b]' in done.stdout
        found = json.loads(team.say(user, "doctor", "--json").stdout)["findings"]
        told = {each["text"]: each["fix"] for each in found if each["topic"] == "users"}
        assert told[f"plain-1b: job {job} of that name is alice's, whose jobs do not count"]
        assert told["six shares home, and the jobs of bob alone count, as who starts it"] == (
            'set group = "six" under [slurm]'
        )
        (incident,) = (
            each
            for each in json.loads(team.say(user, "status", "--json").stdout)["incidents"]
            if each["run"] == "plain-1b"
        )
        assert (incident["status"], "alice" in incident["summary"]) == ("WARNING", True)
        waited = team.say(user, "kill-switch", "plain-1b", "--wait", "1s")
        assert (waited.returncode, "is alice's" in waited.stderr) == (1, True), waited.stderr
    team.say("bob", "kill-switch", "plain-1b", "--clear")
    config.write_text(config.read_text() + 'user = "alice"\n')
    done = team.say("bob", "check", "plain-1b/job_liveness")
    assert (done.returncode, f"job {job} runs" in done.stdout) == (0, True)


@pytest.mark.attack("submit a job with home's mark")
@pytest.mark.parametrize("group", [(), ("--group", "alice")])
def test_a_strangers_job_with_the_mark_of_home_is_no_link_of_it(
    slurm: Cluster, group: tuple[str, ...]
) -> None:
    """The mark is public: squeue -o %k."""
    team = Team(slurm)
    assert team.say("alice", "init", *group).returncode == 0
    mark = f"watchdogd:{Home(team.home).id}"
    shutil.chown(team.home / ".id", "alice")
    forged = [
        slurm.sbatch("bob", "sleep 900", "--job-name=watchdogd", f"--comment={mark}{more}")
        for more in ("", " cron.daily/clean.slurm")
    ]
    for each in forged:
        slurm.wait_for_state(each, "RUNNING")
    (team.home / "link.json").write_text(
        json.dumps({"partition": "", "account": "", "time": "", "mode": "tick", "walltime": 900})
    )
    status = json.loads(team.say("alice", "status", "--json").stdout)
    assert (status["alive"], status["link"]) == (False, None)
    started = team.say("alice", "ensure", "--partition", "small", "--json")
    assert json.loads(started.stdout)["started"], started.stderr
    link = json.loads(started.stdout)["link"]["job_id"]
    again = json.loads(team.say("alice", "start", "--json").stdout)
    assert (again["started"], f"job {link}" in again["message"]) == (False, True)
    stopped = team.say("root", "stop")
    assert stopped.returncode == 0
    # The configuration may be no file of root's to trust: then nobody can report the stop, which is said.
    assert all("the stop is not reported" in line for line in stopped.stderr.splitlines())
    assert [slurm.state(each) for each in forged] == ["RUNNING", "RUNNING"]
    assert slurm.state(link) not in ("RUNNING", "PENDING")


def test_a_members_link_counts_in_a_home_of_the_group(slurm: Cluster) -> None:
    team = Team(slurm)
    team.folder.chmod(0o711)
    team.say("alice", "init", "--group", "six")
    started = json.loads(team.say("bob", "start", "--partition", "small", "--json").stdout)
    link = started["link"]["job_id"]
    again = json.loads(team.say("alice", "ensure", "--json").stdout)
    assert (again["started"], f"job {link}" in again["message"]) == (False, True)
    assert team.say("bob", "stop").returncode == 0


def test_where_the_site_hides_the_jobs_of_others_what_is_not_seen_is_unknown(slurm: Cluster) -> None:
    team = Team(slurm)
    team.folder.chmod(0o711)
    team.say("alice", "init", "--group", "six")
    config = team.home / "config.toml"
    head = f'[daemon]\nconfirm = 1\ngroup = "six"\n{RUN.format(folder=team.folder)}[runs.plain-1b]\n'
    config.write_text(head + 'user = "alice"\n')
    job = slurm.sbatch("alice", "sleep 600", "--job-name=plain-1b")
    slurm.wait_for_state(job, "RUNNING")
    assert team.say("alice", "tick").returncode == 0
    with hidden_jobs(slurm):
        for more in ('user = "alice"\n', ""):  # hers is asked for, or nobody's but one's own
            config.write_text(head + more)
            done = team.say("bob", "check", "plain-1b/job_liveness")
            assert (done.returncode, "PrivateData" in done.stdout) == (3, True), done.stdout
        assert team.say("bob", "tick").returncode == 0
        found = json.loads(team.say("bob", "doctor", "--json").stdout)["findings"]
        assert "warning" in {each["state"] for each in found if each["topic"] == "users"}


@contextlib.contextmanager
def hidden_jobs(slurm: Cluster) -> Iterator[None]:
    """The cluster with PrivateData=jobs."""
    before = slurm.conf.read_text()

    def take_up(text: str, shown: bool) -> None:
        slurm.conf.write_text(text)
        slurm.run_as("root", ["scontrol", "reconfigure"])
        asked: list[str | Path] = ["squeue", "--noheader"]
        wait_until(lambda: bool(slurm.run_as("bob", asked).stdout) is shown, 60, "it is taken up")

    take_up(f"{before}\nPrivateData=jobs\n", shown=False)
    try:
        yield
    finally:
        take_up(before, shown=True)
