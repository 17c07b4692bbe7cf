"""The chain on a real Slurm: it is started once, never breaks, never acts twice, and is ended for good."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.cluster import Cluster
from tests.waiting import wait_until
from watchdogd.home import Home
from watchdogd.lease import alive, folder_of, look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

pytestmark = [pytest.mark.slurm, pytest.mark.root]

UP = 60.0
SECRET = "https://hooks.example.org/T0/B0/very-secret"


class Site:
    """alice's watchdog on the cluster, as she sees it."""

    def __init__(self, slurm: Cluster) -> None:
        self.slurm = slurm
        self.home = Home(slurm.home("alice") / "watch")
        self.env = {"WATCHDOGD_HOME": str(self.home.path), "HOOK": SECRET}
        self.say("init")
        self.configure()

    def configure(self, more: str = "") -> None:
        """A daemon with a round every two seconds, on the CPU partition."""
        self.home.config.write_text(
            f'[daemon]\nname = "bloom-watch"\ninterval = "2s"\n[slurm]\npartition = "small"\n{more}\n'
            '[channels.team]\ntype = "webhook"\nurl = "env:HOOK"\n[disks.root]\npath = "/"\n'
        )

    def say(self, *words: str, check: bool = True, user: str = "alice") -> CompletedProcess[str]:
        argv: list[str | Path] = [self.slurm.watchdogd, *words]
        return self.slurm.run_as(user, argv, env=self.env, check=check, timeout=150)

    def status(self) -> dict[str, Any]:
        picture: dict[str, Any] = json.loads(self.say("status", "--json", check=False).stdout)
        return picture

    def links(self) -> list[tuple[str, str]]:
        """(id, state) of alice's jobs, oldest first."""
        lines = [line.split("|") for line in self.slurm.squeue("alice")]
        return sorted(((words[0], words[2]) for words in lines), key=lambda pair: int(pair[0]))

    def running(self) -> list[str]:
        return [number for number, state in self.links() if state == "RUNNING"]

    def acting(self) -> str:
        """The job id of the daemon that holds the lease, or empty."""
        holder = alive(self.home)
        return holder.job_id if holder else ""

    def show(self, job_id: str) -> str:
        return self.slurm.run_as("root", ["scontrol", "show", "job", job_id]).stdout

    def wait_for_pair(self) -> tuple[str, str]:
        """Until one link runs and acts, and exactly one waits behind it: (link, successor)."""

        def pair() -> tuple[str, str] | None:
            links = self.links()
            if [state for _, state in links] == ["RUNNING", "PENDING"] and self.acting() == links[0][0]:
                return links[0][0], links[1][0]
            return None

        return wait_until(pair, 2 * UP, "one link acts and one waits", every=0.2).value

    def wait_for_next(self, link: str) -> float:
        """Seconds until another link than this one acts."""
        return wait_until(
            lambda: self.acting() not in ("", link), 3 * UP, f"a successor of {link} acts", every=0.1
        ).seconds

    def node_of(self, link: str) -> str:
        return self.show(link).split(" NodeList=")[1].split()[0]

    def log(self) -> str:
        path = self.home.logs / "link.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def site(slurm: Cluster) -> Iterator[Site]:
    site = Site(slurm)
    yield site
    site.say("stop", check=False)


def wait_for_end(process: psutil.Process) -> None:
    """Until it is dead; one that nobody reaps is."""

    def ended() -> bool:
        try:
            return process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    wait_until(ended, UP, f"process {process.pid} ended")


def end(process: psutil.Process) -> None:
    """kill -9, and wait until it is dead."""
    process.kill()
    wait_for_end(process)


def daemon_of(site: Site) -> psutil.Process:
    holder = alive(site.home)
    assert holder is not None
    return psutil.Process(holder.pid)


def test_start_status_start_again_and_stop(site: Site) -> None:
    said = site.say("start")
    assert said.stdout.startswith("started: job ")
    link, successor = site.wait_for_pair()
    shown = site.show(link)
    assert f"Comment=watchdogd:{site.home.id}" in shown
    for words in ("JobName=bloom-watch", "Partition=small", "Requeue=0", "TimeMin=12:00:00", "NumCPUs=1"):
        assert words in shown, shown
    assert f"Dependency=afterany:{link}" in site.show(successor)
    wait_until(lambda: site.status()["last_round"], UP, "a round was made")
    picture = site.status()
    assert picture["alive"] is True
    assert picture["link"]["job_id"] == link
    again = site.say("start")
    assert again.stdout.startswith(f"it runs already: job {link} RUNNING on node")
    assert site.say("ensure").stdout == again.stdout
    assert [number for number, _ in site.links()] == [link, successor]
    ended = site.say("stop")
    assert f"job {link}" in ended.stdout
    assert site.links() == []
    assert alive(site.home) is None
    assert site.say("status", check=False).returncode == 3
    assert "it was stopped by alice on " in site.say("ensure").stdout
    assert site.say("stop").stdout == "it was not running\n"
    assert site.links() == []
    assert [name for name in os.listdir(site.home.logs) if name.startswith("slurm-")] == []


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        (["--partition", "smal"], "there is no partition 'smal'; did you mean 'small'?"),
        (["--time", "3d"], "partition small allows 1-00:00:00 at most"),
        (["--time", "1m"], "two minutes at least"),
    ],
)
def test_what_the_site_refuses_is_one_line_with_the_mend(site: Site, words: list[str], mend: str) -> None:
    said = site.say("start", *words, check=False)
    assert said.returncode == 1
    assert mend in said.stderr
    assert said.stderr.count("\n") == 1
    assert site.links() == []


def test_a_strict_site_says_no_and_the_mend_is_told() -> None:
    """Accounts, QOS and submit limits are enforced here; the last refuses the successor of a link."""
    with Cluster(settings={"AccountingStorageEnforce": "associations,limits,qos"}) as strict:
        site = Site(strict)
        said = site.say("start", "--account", "nobody", check=False)
        assert said.returncode == 1
        assert 'name yours: account = "..." under [slurm], or --account' in said.stderr
        site.configure('options = ["--qos=golden"]')
        said = site.say("start", check=False)
        assert said.returncode == 1
        assert "Invalid qos specification: correct --qos under [slurm] options" in said.stderr
        assert site.links() == []
        site.configure()
        limit = ["sacctmgr", "-i", "modify", "user", "alice", "set"]
        strict.run_as("root", [*limit, "MaxSubmitJobs=1"])
        site.say("start", "--time", "10m")

        def troubled() -> bool:
            return any("you have as many jobs queued" in line for line in site.status().get("troubles", []))

        wait_until(troubled, 2 * UP, "the missing successor is told", every=1)
        assert [state for _, state in site.links()] == ["RUNNING"]
        strict.run_as("root", [*limit, "MaxSubmitJobs=-1"])
        site.wait_for_pair()
        wait_until(lambda: not troubled(), UP, "all is well again", every=1)
        site.say("stop")


def test_a_secret_reaches_the_link_by_name_and_shows_nowhere(site: Site) -> None:
    said = site.slurm.run_as(
        "alice",
        [site.slurm.watchdogd, "start", "--home", str(site.home.path)],
        env={"OTHER_SECRET": "other"},
        check=False,
    )
    assert (said.returncode, site.links()) == (1, [])
    assert "environment variable HOOK is not set" in said.stderr
    site.env["OTHER_SECRET"] = "other"
    site.say("start")
    link, successor = site.wait_for_pair()
    environment = daemon_of(site).environ()
    assert environment["HOOK"] == SECRET
    assert "OTHER_SECRET" not in environment
    assert SECRET not in site.show(link) + site.show(successor) + site.log()
    site.slurm.run_as("alice", ["scancel", link])
    site.wait_for_next(link)
    assert daemon_of(site).environ()["HOOK"] == SECRET


def test_a_link_hands_over_without_a_gap(site: Site) -> None:
    site.say("start", "--time", "2m")
    link, successor = site.wait_for_pair()
    gaps: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not ended.is_set():
            if alive(site.home):
                gaps.append(time.monotonic() - seen)
                seen = time.monotonic()
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        site.wait_for_next(link)
        assert site.wait_for_pair()[0] == successor
        wait_until(lambda: site.slurm.state(link) == "COMPLETED", UP, f"link {link} ended by itself")
    finally:
        ended.set()
        watcher.join()
    assert max(gaps) < 10
    assert "Traceback" not in site.log()


@pytest.mark.parametrize("how", ["kill", "scancel"])
def test_a_link_that_is_killed_is_replaced_at_once(site: Site, how: str) -> None:
    site.say("start")
    link, successor = site.wait_for_pair()
    if how == "kill":
        end(daemon_of(site))
    else:
        site.slurm.run_as("alice", ["scancel", link])
    assert site.wait_for_next(link) < 30
    assert site.wait_for_pair()[0] == successor


def test_a_cancelled_successor_is_replaced(site: Site) -> None:
    site.say("start", "--time", "5m")
    link, successor = site.wait_for_pair()
    site.slurm.run_as("alice", ["scancel", successor])
    wait_until(lambda: len(site.links()) == 1, UP, "the successor is gone")
    assert site.wait_for_pair() == (link, str(int(successor) + 1))


def test_a_node_that_dies_hands_over_to_another(site: Site) -> None:
    site.say("start")
    link, successor = site.wait_for_pair()
    node, old = site.node_of(link), daemon_of(site)
    site.slurm.kill_slurmd(node)
    site.slurm.run_as("root", ["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test"])
    site.wait_for_next(link)
    wait_for_end(old)  # Slurm cannot reach it: it ended because it was asked for the lease
    assert site.wait_for_pair()[0] == successor


def test_stop_ends_a_link_that_slurm_cannot_reach(site: Site) -> None:
    site.say("start")
    link, _ = site.wait_for_pair()
    old = daemon_of(site)
    site.slurm.kill_slurmd(site.node_of(link))
    site.say("stop", check=False)
    wait_for_end(old)
    assert alive(site.home) is None
    assert [state for _, state in site.links() if state in ("RUNNING", "PENDING")] == []


def test_a_controller_that_is_down_for_a_while(site: Site) -> None:
    site.say("start", "--time", "5m")
    link, successor = site.wait_for_pair()
    site.slurm.stop_controller()
    said = site.say("start", check=False)
    assert said.returncode == 1
    assert "squeue did not answer" in said.stderr
    time.sleep(25)
    assert site.acting() == link
    site.slurm.start_controller()
    time.sleep(20)
    assert site.wait_for_pair() == (link, successor)


def test_a_controller_that_lost_all_its_jobs(site: Site) -> None:
    site.say("start")
    link, _ = site.wait_for_pair()
    end(daemon_of(site))
    site.slurm.cancel_all()
    assert site.say("status", check=False).returncode == 3
    assert site.say("ensure").stdout.startswith("started: job ")
    assert site.wait_for_pair()[0] != link


def test_a_requeued_link_has_one_successor(site: Site) -> None:
    site.configure('options = ["--requeue"]')
    site.say("start")
    link, _ = site.wait_for_pair()
    site.slurm.run_as("root", ["scontrol", "requeue", link])
    site.wait_for_next("")

    def settled() -> bool:
        states = [state for _, state in site.links()]
        return (
            states.count("RUNNING") == 1 and states.count("PENDING") == 1 and site.acting() in site.running()
        )

    wait_until(settled, 3 * UP, "one link runs and one waits", every=0.5)


def test_stop_wins_while_links_come_and_go(site: Site) -> None:
    site.say("start", "--time", "2m")
    site.slurm.run_as("alice", ["scancel", site.wait_for_pair()[0]])  # the successor is just starting
    site.say("stop")
    assert site.links() == []
    time.sleep(5)
    assert site.links() == []


def file_system_calls(site: Site, verb: str) -> int:
    """How many a verb makes, with its commands: each is a round trip on a network file system."""
    trace = site.slurm.new_folder() / "trace"
    argv: list[str | Path] = ["strace", "-f", "-e", "trace=%file", "-o", trace, site.slurm.watchdogd, verb]
    site.slurm.run_as("alice", argv, env=site.env)
    return sum("(" in line for line in trace.read_text().splitlines())


def test_tick_mode_is_alive_in_the_queue(site: Site) -> None:
    site.say("start", "--mode", "tick")

    def ticked() -> list[tuple[str, str]] | None:
        links = site.links()
        return links if [state for _, state in links] == ["PENDING"] and links[0][0] != first else None

    first = site.links()[0][0]
    ((successor, _),) = wait_until(ticked, 2 * UP, "the first tick is over and the next one waits").value
    assert "Reason=BeginTime" in site.show(successor)
    assert site.home.status.exists()
    assert site.say("start").stdout.startswith("it runs already: job ")
    picture = site.status()
    assert (picture["alive"], alive(site.home)) == (True, None)
    assert (picture["link"]["job_id"], picture["link"]["reason"]) == (successor, "BeginTime")
    assert picture["link"]["mode"] == "tick"
    assert picture["incidents"] == []  # a tick that has just submitted its successor is in no trouble
    assert f"alive: job {successor} PENDING (BeginTime)" in site.say("status").stdout
    assert file_system_calls(site, "status") <= 3000
    site.say("stop")
    assert site.links() == []
    assert site.say("status", check=False).returncode == 3


def test_status_in_tick_mode_says_when_slurm_is_away_or_holds_the_tick(site: Site) -> None:
    site.say("start", "--mode", "tick")

    def waits() -> str:
        links = site.links()
        return (
            links[0][0]
            if len(links) == 1 and links[0][1] == "PENDING" and site.status()["last_round"]
            else ""
        )

    successor = wait_until(waits, 2 * UP, "the first tick is over and the next one waits").value
    site.slurm.run_as("root", ["scontrol", "hold", successor])
    held = site.status()
    assert held["alive"] is True
    assert f"scontrol release {successor}" in "".join(held["troubles"])
    site.slurm.stop_controller()
    away = site.status()
    assert away["alive"] is True  # the last tick is not long ago
    assert "squeue did not answer" in "".join(away["troubles"])
    long_ago = json.loads(site.home.status.read_text()) | {"last_round": "2026-01-01T00:00:00+00:00"}
    site.home.write(site.home.status, json.dumps(long_ago))
    assert site.say("status", check=False).returncode == 3
    site.slurm.start_controller()
    assert site.status()["alive"] is True


def test_a_link_fits_before_a_maintenance(site: Site) -> None:
    site.say("start")
    site.wait_for_pair()
    site.say("stop")
    reserve = ["scontrol", "create", "reservation", "ReservationName=weekly", "StartTime=now+2hours"]
    reserve += ["Duration=60", "Flags=MAINT,IGNORE_JOBS", "Nodes=ALL", "Users=root"]
    site.slurm.run_as("root", reserve)
    try:
        site.say("start")
        link, _ = site.wait_for_pair()
        assert " TimeMin=00:30:00" in site.show(link)
    finally:
        site.slurm.run_as("root", ["scontrol", "delete", "ReservationName=weekly"])


def test_a_local_background_process(site: Site) -> None:
    said = site.say("start", "--local")
    daemon = daemon_of(site)
    assert said.stdout.startswith(f"started here: process {daemon.pid} on ")
    assert daemon.username() == "alice"
    assert os.getsid(daemon.pid) == daemon.pid
    assert site.say("start").stdout.startswith(f"it runs already: process {daemon.pid}")
    assert site.links() == []
    assert f"process {daemon.pid}" in site.say("stop").stdout
    wait_for_end(daemon)
    site.home.config.write_text("[daemon]\nnmae = 'x'\n")
    assert site.say("start", "--local", check=False).returncode == 78


def test_six_links_with_random_kills(site: Site) -> None:
    """No gap over 10 s beyond the recovery of a kill, and never zero or two successors for long."""
    dice = random.Random(17)
    site.say("start", "--time", "2m")
    for _ in range(6):
        link, successor = site.wait_for_pair()
        time.sleep(dice.uniform(0, 8))
        how = dice.choice(["kill", "scancel", "stop and continue", "hand over"])
        if how == "kill":
            end(daemon_of(site))
        elif how == "scancel":
            site.slurm.run_as("alice", ["scancel", link])
        elif how == "stop and continue":
            daemon_of(site).send_signal(signal.SIGSTOP)
            threading.Timer(5, os.kill, [daemon_of(site).pid, signal.SIGCONT]).start()
        took = site.wait_for_next(link)
        assert took < (30 if how in ("kill", "scancel") else 110), how
        assert site.acting() == successor, how
    assert look(folder_of(site.home)).serial >= 7
    assert "Traceback" not in site.log()
