"""The chain on a real Slurm: it is started once, never breaks, never acts twice, and is ended for good."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.cluster import Cluster
from tests.lab.settings import ACCOUNT
from tests.slurm.witness import LAMP, PROGRAM, Witness
from tests.waiting import wait_until
from watchdogd.home.layout import Home
from watchdogd.home.lease import alive, current, lease_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

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

    def configure(self, more: str = "", *, alerts: bool = False) -> None:
        """A daemon with a round every two seconds, on the CPU partition; `alerts`: told into a file."""
        channel = (
            'type = "statuslog"\npath = "alerts.log"' if alerts else 'type = "webhook"\nurl = "env:HOOK"'
        )
        confirm = "confirm = 1\n" if alerts else ""
        self.home.config.write_text(
            f'[daemon]\nname = "bloom-watch"\ninterval = "2s"\n{confirm}'
            f'[slurm]\npartition = "small"\nmin_poll = "1s"\n{more}\n'
            f'[channels.team]\n{channel}\n[disks.root]\npath = "/"\n'
        )

    def drop(self, name: str, text: str) -> None:
        """A drop-in of alice's."""
        path = self.home.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o700)
        for each in (path, path.parent):
            shutil.chown(each, "alice", "alice")

    def say(self, *words: str, check: bool = True, user: str = "alice") -> CompletedProcess[str]:
        argv: list[str | Path] = [self.slurm.typed, *words]
        return self.slurm.run_as(user, argv, env=self.env, check=check, timeout=300)

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

    def hurry(self, link: str) -> None:
        """Let a link look at the queue now: with the signal that Slurm sends it before its end."""
        self.slurm.run_as("alice", ["scancel", "--signal=USR1", "--batch", link])

    def log(self, name: str = "link") -> str:
        path = self.home.logs / f"{name}.log"
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
    for words in ("JobName=bloom-watch", "Partition=small", "Requeue=0", "NumCPUs=1"):
        assert words in shown, shown
    assert "TimeLimit=1-00:00:00 TimeMin=N/A" in shown
    assert f"Dependency=afterany:{link}" in site.show(successor)
    wait_until(lambda: site.status()["last_round"], UP, "a round was made")
    picture = site.status()
    assert picture["alive"] is True
    assert picture["link"]["job_id"] == link
    assert f",watchdogd,chain,OK,link,{link}.0," in site.say("history", "watchdogd", "--csv").stdout
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


def test_what_the_site_refuses_is_one_line_with_the_mend(site: Site) -> None:
    for words, mend in (
        (["--partition", "smal"], "there is no partition 'smal'; did you mean 'small'?"),
        (["--time", "3d"], "partition small allows 1-00:00:00 at most"),
        (["--time", "1m"], "two minutes at least"),
    ):
        said = site.say("start", *words, check=False)
        assert said.returncode == 1
        assert mend in said.stderr
        assert said.stderr.count("\n") == 1
    assert site.links() == []


STRICT = {
    "AccountingStorageEnforce": "associations,limits,qos",
    "PreemptType": "preempt/partition_prio",
    "PreemptMode": "CANCEL",
    "PriorityType": "priority/multifactor",
    "PriorityDecayHalfLife": "0",
    "PriorityUsageResetPeriod": "NONE",
}
URGENT = "PartitionName=urgent Nodes=node1,node5 PriorityTier=9 MaxTime=60 State=UP"


def test_a_strict_site_says_no_and_the_mend_is_told() -> None:
    """Accounts, QOS and limits are enforced here, and jobs of one partition preempt those of the others."""
    with Cluster(settings=STRICT, lines=[URGENT]) as strict:
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
        link, successor = site.wait_for_pair()
        place = ["--partition=urgent", f"--nodelist={site.node_of(link)}", "--exclusive", "--time=5"]
        urgent = strict.sbatch("bob", "sleep 300", *place)
        assert site.wait_for_next(link) < 110
        assert site.acting() == successor
        assert strict.state(link) == "PREEMPTED"
        site.say("stop")
        strict.run_as("root", ["scancel", urgent])
        strict.run_as("root", [*limit, "MaxJobs=1"])
        strict.wait_for_state(strict.sbatch("alice", "sleep 300", "--partition=gpu"), "RUNNING")
        said = site.say("start")
        assert "a limit or what is out of service (AssocMaxJobsLimit)" in said.stderr
        assert "PENDING (AssocMaxJobsLimit)" in said.stdout
        strict.run_as("root", [*limit[:3], "account", ACCOUNT, "set", "GrpTRESMins=cpu=60000"])
        site.configure('[checks.hours]\nplugin = "project_hours"\nwarn_left = "2%"\n')
        said = site.say("check", "hours", check=False)
        assert re.search(rf"{ACCOUNT}: (999|1,000) of 1,000 core hours left", said.stdout), said.stdout


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


def test_a_node_that_dies_hands_over_to_another(site: Site) -> None:
    site.say("start")
    link, successor = site.wait_for_pair()
    node, old = site.node_of(link), daemon_of(site)
    site.slurm.kill_slurmd(node)
    site.slurm.down(node)
    site.wait_for_next(link)
    wait_for_end(old)  # Slurm cannot reach it: it ended because it was asked for the lease
    assert site.wait_for_pair()[0] == successor


def test_a_controller_that_lost_all_its_jobs(site: Site) -> None:
    site.say("start")
    link, _ = site.wait_for_pair()
    end(daemon_of(site))
    site.slurm.cancel_all()
    assert site.say("status", check=False).returncode == 3
    assert site.say("ensure").stdout.startswith("started: job ")
    assert site.wait_for_pair()[0] != link


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
    site.slurm.run_as("alice", argv, env=site.env, check=False)
    return sum("(" in line for line in trace.read_text().splitlines())


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


def test_a_cancelled_successor_is_replaced(site: Site) -> None:
    site.say("start", "--time", "5m")
    link, successor = site.wait_for_pair()
    site.slurm.run_as("alice", ["scancel", successor])
    wait_until(lambda: len(site.links()) == 1, UP, "the successor is gone")
    site.hurry(link)
    assert site.wait_for_pair() == (link, str(int(successor) + 1))


def test_stop_ends_a_link_that_slurm_cannot_reach(site: Site) -> None:
    site.say("start")
    link, _ = site.wait_for_pair()
    old, node = daemon_of(site), site.node_of(link)
    site.slurm.kill_slurmd(node)
    stop = site.slurm.popen_as("alice", [site.slurm.watchdogd, "stop"], env=site.env)
    wait_for_end(old)
    assert alive(site.home) is None
    site.slurm.down(node)  # as Slurm itself would have after SlurmdTimeout
    said, _ = stop.communicate(timeout=240)
    assert (stop.returncode, f"job {link}" in said) == (0, True)
    assert site.links() == []


def test_a_controller_that_is_down_for_a_while(site: Site) -> None:
    site.say("start", "--time", "5m")
    link, successor = site.wait_for_pair()
    site.slurm.stop_controller()
    said = site.say("start", check=False)
    assert said.returncode == 1
    assert "squeue did not answer" in said.stderr
    wait_until(lambda: "the chain: squeue did not answer" in site.log("daemon"), UP, "a look fails")
    assert site.acting() == link
    site.slurm.start_controller()
    site.hurry(link)
    time.sleep(3)
    assert site.wait_for_pair() == (link, successor)


def test_a_requeued_link_costs_no_two_minutes(site: Site) -> None:
    """For so long Slurm lets it wait, with all that depends on it: its successor goes on at once."""
    site.configure('options = ["--requeue"]')
    site.say("start")
    link, successor = site.wait_for_pair()
    site.slurm.run_as("root", ["scontrol", "requeue", link])
    assert site.wait_for_next(link) < 110
    assert site.acting() == successor
    assert site.links() == [(link, "PENDING"), (successor, "RUNNING")]
    site.slurm.run_as("root", ["scontrol", "update", f"JobId={link}", "StartTime=now"])
    assert site.wait_for_next(successor) < 110  # it is the successor now, as good as any
    assert site.wait_for_pair()[0] == link


def test_tick_mode(site: Site) -> None:
    site.configure('time = "12h"\n[disks.full]\npath = "/tmp"\nwarn_free = "100%"\n')
    site.say("start", "--mode", "tick")

    def ticked() -> str:
        links = site.links()
        waits = [state for _, state in links] == ["PENDING"] and links[0][0] != first
        return links[0][0] if waits else ""

    first = site.links()[0][0]
    successor = wait_until(ticked, 2 * UP, "the first tick is over and the next one waits").value
    assert "Reason=BeginTime" in site.show(successor)
    assert "TimeLimit=00:15:00" in site.show(successor)
    assert site.home.status.exists()
    assert site.say("start").stdout.startswith("it runs already: job ")
    picture = site.status()
    assert (picture["alive"], alive(site.home)) == (True, None)
    assert (picture["link"]["job_id"], picture["link"]["reason"]) == (successor, "BeginTime")
    assert picture["link"]["mode"] == "tick"
    (found,) = picture["incidents"]  # confirmed by this tick, as the next one comes after five minutes; and
    assert (found["check"], found["status"]) == ("full/disk_quota", "WARNING")  # its successor is no trouble
    shown = site.say("status", check=False).stdout
    assert f"alive: job {successor} PENDING (BeginTime)" in " ".join(shown.split())
    assert file_system_calls(site, "status") <= 3000
    site.slurm.run_as("root", ["scontrol", "hold", successor])
    held = site.status()
    assert held["alive"] is True
    assert f"scontrol release {successor}" in "".join(held["troubles"])
    site.slurm.stop_controller()
    away = site.status()
    assert away["alive"] is True  # the last tick is not long ago
    assert "squeue did not answer" in "".join(away["troubles"])
    long_ago = json.loads(site.home.status.read_text()) | {"last_round": "2026-01-01T00:00:00+00:00"}
    site.home.status.write_text(json.dumps(long_ago))  # as its owner would: it stays readable to them
    assert site.say("status", check=False).returncode == 3
    site.slurm.start_controller()
    assert site.status()["alive"] is True
    site.say("stop")
    assert site.links() == []
    assert site.say("status", check=False).returncode == 3


def test_a_link_fits_before_a_maintenance(site: Site) -> None:
    reserve = ["scontrol", "create", "reservation", "ReservationName=weekly", "StartTime=now+2hours"]
    reserve += ["Duration=60", "Flags=MAINT,IGNORE_JOBS", "Nodes=ALL", "Users=root"]
    site.slurm.run_as("root", reserve)
    try:
        site.say("start")
        link, _ = site.wait_for_pair()
        assert " TimeMin=01:4" in site.show(link)  # nine tenths of what is left
    finally:
        site.slurm.run_as("root", ["scontrol", "delete", "ReservationName=weekly"])


def test_a_first_link_that_waits_is_seen_by_status(site: Site) -> None:
    for node in ("node1", "node5"):
        site.slurm.drain(node)
    said = site.say("start")
    (first, _), *others = site.links()
    assert others == []
    assert "a limit or what is out of service" in said.stderr
    seen = site.say("status", check=False)
    assert seen.returncode == 3
    assert f"not alive yet: job {first} PENDING" in " ".join(seen.stdout.split())


def test_stop_ends_what_drop_ins_have_in_the_queue_and_restart_does_not(site: Site) -> None:
    for name, line in (("cron.daily/long.slurm", "--time=5"), ("cron.hourly/never.sbatch", "--hold")):
        site.drop(name, f"#!/bin/bash\n#SBATCH {line}\nsleep 200\n")
    site.say("start")

    def dropped() -> list[str]:
        lines = site.slurm.run_as("root", ["squeue", "--noheader", "--format=%A %k"]).stdout.splitlines()
        return sorted(words[0] for line in lines if len(words := line.split()) == 3)

    wait_until(lambda: len(dropped()) == 2, UP, "both are in the queue", every=0.3)
    before = dropped()
    refused = site.say("restart", "--partition", "smal", check=False)
    assert refused.returncode == 1
    assert site.acting()  # what cannot be started is not ended before
    site.say("restart")
    assert dropped() == before
    wait_until(site.acting, UP, "it acts again")
    said = site.say("stop").stdout
    assert all(f"job {number}" in said for number in before)
    assert site.links() == []
    site.say("start")
    wait_until(lambda: len(dropped()) == 2, 2 * UP, "what was cut short is submitted again", every=0.3)
    assert [each for each in site.status()["incidents"] if "long.slurm" in each["check"]] == []


def test_of_several_starts_at_one_moment_one_wins(site: Site) -> None:
    env = site.env
    starts = [site.slurm.popen_as("alice", [site.slurm.watchdogd, "start"], env=env) for _ in range(4)]
    said = [start.communicate(timeout=240)[0] for start in starts]
    assert sorted(words.partition(": ")[0] for words in said) == [*["it runs already"] * 3, "started"]
    site.wait_for_pair()


def test_six_links_with_random_kills(site: Site) -> None:
    """No gap longer than a link needs to start on a busy machine, never two that act, never zero or two
    successors for longer than that, and no alert lost or doubled."""
    dice = random.Random(17)
    hows = ["kill", "kill", "scancel", "freeze", "hand over", "hand over"]
    dice.shuffle(hows)
    site.drop(LAMP, PROGRAM)
    site.configure(alerts=True)
    site.say("start", "--time", "2m")
    followed, _ = site.wait_for_pair()
    links = [followed]
    witness = Witness(site.home, site.links)
    with witness.watching():
        for how in hows:
            link, successor = site.wait_for_pair()
            wait_until(lambda: witness.links()[-1:] == [link], UP, "a round of it is seen")  # noqa: B023
            time.sleep(dice.uniform(0, 4))  # somewhere in two of its rounds
            begin = time.time()
            end_link(site, link, successor, how)
            site.wait_for_next(link)
            assert site.acting() == successor, how
            site.wait_for_pair()
            links.append(successor)
            wait_until(lambda: witness.links()[-1:] == links[-1:], UP, "a round of the next one is seen")
            # A frozen one is believed to be dead after STALE seconds; a killed one's successor has to start.
            allowed = {"hand over": 40, "freeze": 110}.get(how, 80)
            assert witness.longest_gap(begin, time.time()) < allowed, how
    assert witness.links() == links
    assert witness.longest(lambda waiting: waiting > 1) == 0
    assert witness.longest(lambda waiting: waiting < 1) < 80
    assert witness.turns > 8
    assert witness.alerts() == [["[CRITICAL]", "[RESOLVED]"][turn % 2] for turn in range(witness.turns)]
    assert current(lease_folder(site.home)).serial >= 7
    assert "Traceback" not in site.log()


def end_link(site: Site, link: str, successor: str, how: str) -> None:
    """Let a link's time be over in one of four ways."""
    daemon = daemon_of(site)
    if how == "kill":
        end(daemon)
    elif how == "scancel":
        site.slurm.run_as("alice", ["scancel", link])
    elif how == "freeze":
        daemon.suspend()
        site.slurm.run_as("alice", ["scontrol", "update", f"JobId={successor}", "Dependency="])
        site.wait_for_next(link)
        with contextlib.suppress(psutil.NoSuchProcess):  # on a busy machine its time may be over by now
            daemon.resume()  # it finds out, acts no more, and ends
        wait_for_end(daemon)
