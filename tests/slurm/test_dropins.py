"""Slurm scripts in drop-in folders on a real Slurm: submitted as they are, once, and followed to the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.cluster import Cluster
from tests.deploy import test_dropins as ready
from tests.memory import memory_of
from tests.waiting import wait_until
from watchdogd.batch import slurm as submit
from watchdogd.config.loading import parse
from watchdogd.daemon.dropins import crontab, dropins
from watchdogd.daemon.dropins import dropin_jobs as module
from watchdogd.daemon.dropins.dropins import DropInKind
from watchdogd.home.layout import Home
from watchdogd.plugin import Plugin, Result, Status, remembered
from watchdogd.system import umask

SCRIPT: Plugin = module.script
DAY = 86400.0


class Follower:
    """The rounds of one drop-in script: its memory goes through JSON, as in the history."""

    def __init__(self, cluster: Cluster, home: Home, name: str, text: str) -> None:
        self.cluster, self.home = cluster, home
        self.path = home.path / name
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(text)
        self.name = name
        self.memory: dict[str, Any] = {}
        self.changed: dict[str, Any] = {}

    @property
    def known(self) -> module.Followed:
        """What is remembered of it."""
        return remembered(module.Followed, self.memory) or module.Followed()

    @property
    def job(self) -> str:
        """The id of the job that is followed."""
        return self.known.job or ""

    def look(self, later: float = 0.0) -> Result:
        """One execution, `later` seconds from now by its clock."""
        text = '[slurm]\npartition = "gpu"\n[daemon]\ntimezone = "Asia/Kathmandu"\n'
        config = parse(text, self.home.config)
        [dropin] = [each for each in dropins.look(self.home) if each.name == self.name]
        assert dropin.kind is DropInKind.SLURM
        [check] = crontab.build([dropin], config, self.home, crontab.Scouts())
        memory = json.loads(json.dumps(self.memory))
        injected = {"memory": memory, "now": time.time() + later}
        [result] = SCRIPT.results({**check.parameters, **self.changed}, injected)
        self.memory = memory
        return result

    def until(self, *words: str, seconds: float = 90.0, later: float = 0.0) -> Result:
        """Look after look until the summary holds all words."""

        def said() -> Result | None:
            result = self.look(later)
            return result if all(word in result.summary for word in words) else None

        return wait_until(said, seconds, f"the drop-in says {words}", every=0.5).value

    def jobs(self) -> list[str]:
        """The ids of all jobs of it that Slurm knows of, by accounting (which lags) and the controller."""
        mark = f"watchdogd:{self.home.id} {self.name}"
        fields = ["--noheader", "--allocations", "--parsable2", "--format=JobIDRaw,SubmitLine"]
        past = self.cluster.run_as("root", ["sacct", *fields, "--starttime=now-1hours"]).stdout
        present = self.cluster.run_as("root", ["squeue", "--noheader", "--states=all", "--format=%A|%k"])
        lines = (past + present.stdout).splitlines()
        return sorted({line.partition("|")[0] for line in lines if mark in line}, key=int)


@pytest.fixture
def home(slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for key, value in slurm.env.items():
        monkeypatch.setenv(key, value)
    home = Home(tmp_path / "home")
    home.make()
    return home


def job(text: str, *lines: str) -> str:
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), text, ""])


def said_in(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def shown(slurm: Cluster, job_id: str) -> str:
    return slurm.run_as("root", ["scontrol", "show", "job", job_id]).stdout


def test_submitted_once_followed_to_its_good_end_and_again_when_it_is_due(slurm: Cluster, home: Home) -> None:
    text = job("echo $WATCHDOGD_HOME $SLURM_MEM_PER_NODE.; sleep 2")
    script = Follower(slurm, home, "cron.daily/tidy.slurm", text)
    first = script.look()
    assert (first.status, first.summary) == (Status.OK, f"job {script.job} is submitted")
    job_id = script.job
    details = shown(slurm, job_id)
    assert f"Comment=watchdogd:{home.id} cron.daily/tidy.slurm" in details
    assert "Partition=gpu" in details
    assert "JobName=tidy.slurm" in details
    assert f"WorkDir={home.path}" in details
    end = script.until("ended well after")
    assert end.status is Status.OK
    assert (home.logs / f"cron.daily.tidy.slurm-{job_id}.out").read_text() == f"{home.path} .\n"
    for _ in range(3):
        assert script.look().summary == end.summary
    again = script.look(later=DAY)
    assert "is submitted" in again.summary
    assert script.job != job_id


def test_at_its_hour_in_the_sites_zone_and_what_it_prints_is_in_logs(slurm: Cluster, home: Home) -> None:
    begin = datetime.now(ZoneInfo("Asia/Kathmandu")) + timedelta(hours=2)
    text = job("echo tidied", "--output=%x-%j.out")
    script = Follower(slurm, home, f"cron.at-{begin:%H%M}/tidy.slurm", text)
    for early in (0.0, 6900.0):
        script.look(later=early)
        assert script.jobs() == []
    assert "is submitted" in script.look(later=7260.0).summary
    job_id = script.job
    assert script.until("ended well after", later=7260.0).status is Status.OK
    printed = home.logs / f"{script.name.replace('/', '.')}-{job_id}.out"
    assert printed.read_text() == "tidied\n"
    assert list(home.path.glob("*.out")) == [], "what it prints piles up in logs/ alone, where it is cleaned"
    script.look(later=7260.0 + DAY - 600)
    assert script.jobs() == [job_id]


def test_its_own_lines_hold(slurm: Cluster, home: Home, tmp_path: Path) -> None:
    lines = ["--partition=small # the small one", "-J nightly", f"-o {tmp_path}/mine-%j", "-t 7", "-D /tmp"]
    script = Follower(slurm, home, "cron.daily/own.sbatch", job("sleep 60", *lines))
    script.look()
    details = shown(slurm, script.job)
    for words in ("Partition=small", "JobName=nightly", "TimeLimit=00:07:00", "WorkDir=/tmp"):
        assert words in details
    assert f"StdOut={tmp_path}/mine-" in details
    running = script.until("runs for", " on node")
    assert running.status is Status.OK


def test_a_failed_one_is_critical_with_its_last_lines_until_the_next_ends_well(
    slurm: Cluster, home: Home
) -> None:
    script = Follower(slurm, home, "cron.hourly/copy.slurm", job("echo no room left; exit 3"))
    failed = script.until("FAILED (exit 3) after ")
    bad_id = script.known.last
    output = home.path / "logs" / f"cron.hourly.copy.slurm-{bad_id}.out"
    assert (failed.status, failed.details) == (Status.CRITICAL, f"{output}:\nno room left")
    script.path.write_text(job("sleep 3"))
    again = script.look(later=3600.0)
    assert again.status is Status.CRITICAL
    assert again.summary.startswith(f"job {bad_id} FAILED (exit 3)")
    assert f"now job {script.job} is submitted" in again.summary
    good = script.until("ended well", later=3600.0)
    assert good.status is Status.OK


def test_a_cancelled_one_is_told_with_who_did_it(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/long.slurm", job("sleep 600"))
    script.until("runs for", " on node")
    slurm.run_as("root", ["scancel", script.job])
    ended = script.until("cancelled by its owner root after ")
    assert ended.status is Status.WARNING


def test_one_that_never_starts_is_told_and_none_is_submitted_beside_it(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.every-5s/never.slurm", job("true", "-p small", "--time=9-00:00:00"))
    never = script.until("never starts: ", "(PartitionTimeLimit)")
    assert never.status is Status.WARNING
    assert never.advice[0].command.startswith(f"scontrol update JobId={script.job} ")
    for later in (10.0, 20.0, 30.0):
        assert "never starts: " in script.look(later=later).summary
    assert len(slurm.squeue()) == 1


def test_one_that_waits_for_longer_than_its_cadence_is_told(slurm: Cluster, home: Home) -> None:
    for node in slurm.nodes:
        slurm.drain(node)
    script = Follower(slurm, home, "cron.hourly/wait.slurm", job("true"))
    assert script.until("waits (").status is Status.OK
    late = script.look(later=3700.0)
    assert late.status is Status.WARNING
    assert "none is submitted beside it" in late.summary
    assert len(slurm.squeue()) == 1


def test_what_was_submitted_and_not_remembered_is_found_by_its_mark(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/crash.slurm", job("sleep 8"))
    other = Follower(slurm, home, "cron.daily/other.slurm", job("sleep 60"))
    script.look()
    other.look()
    job_id = script.job
    script.memory = {}  # the daemon was killed before it could store the round
    script.look()
    assert script.job == job_id
    script.until("ended well")
    script.memory = {}  # and once more, when the job is over
    assert f"job {job_id} ended well" in script.look().summary
    assert script.jobs() == [job_id]
    assert other.job in other.jobs()


def test_sbatch_that_reports_failure_though_the_job_was_taken(
    slurm: Cluster, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying = tmp_path / "bin" / "sbatch"
    lying.parent.mkdir()
    said = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    lying.write_text(f"#!/bin/sh\n{shutil.which('sbatch')} \"$@\" >/dev/null\necho '{said}' >&2\nexit 1\n")
    lying.chmod(0o755)
    script = Follower(slurm, home, "cron.daily/taken.slurm", job("sleep 30"))
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{lying.parent}:{os.environ['PATH']}")
        first = script.look()
    assert first.status is Status.OK
    assert "Slurm does not answer now" in first.summary
    assert script.known.job is None
    script.until("runs for", " on node")
    assert script.jobs() == [script.job]


def test_a_controller_that_is_away_delays_and_loses_nothing(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/later.slurm", job("sleep 1"))
    slurm.stop_controller()
    away = script.look()
    assert away.status is Status.OK
    assert "Slurm does not answer now" in away.summary
    assert script.look(later=1900.0).status is Status.UNKNOWN
    slurm.start_controller()
    script.until("ended well")
    assert len(script.jobs()) == 1


def test_what_slurm_refuses_is_told_and_tried_again_after_an_edit(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/wrong.slurm", job("true", "--partition=smal"))
    refused = script.look()
    assert refused.status is Status.CRITICAL
    assert "Invalid partition" in refused.summary
    assert script.look() == refused
    assert script.known.refused
    assert script.known.refused.tries == 1
    script.look(later=120.0)
    assert script.known.refused
    assert script.known.refused.tries == 2
    script.path.write_text(job("true", "--partition=small"))
    script.until("ended well")


def test_an_array_is_judged_by_all_its_tasks(slurm: Cluster, home: Home) -> None:
    text = job("[ $SLURM_ARRAY_TASK_ID != 2 ]", "--array=1-3")
    script = Follower(slurm, home, "cron.daily/many.slurm", text)
    script.look()
    array = script.job
    end = script.until("of 3 tasks of job")
    assert end.status is Status.CRITICAL
    assert f"1 of 3 tasks of job {array} did not end well: {array}_2 FAILED (exit 1)" in end.summary


def test_an_end_during_a_long_downtime_is_known_from_accounting(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/past.slurm", job("exit 4"))
    script.look()
    job_id = script.job
    forgotten = ["scontrol", "show", "job", job_id]
    wait_until(
        lambda: slurm.run_as("root", forgotten, check=False).returncode, 180, f"job {job_id} is forgotten"
    )
    script.memory = memory_of(replace(script.known, seen=script.known.seen - 7200.0))
    end = script.look()
    assert end.status is Status.CRITICAL
    assert end.summary.startswith(f"job {job_id} FAILED (exit 4)")


def test_looking_only_submits_nothing(slurm: Cluster, home: Home) -> None:
    script = Follower(slurm, home, "cron.daily/dry.slurm", job("true"))
    script.changed = {"dry": True}
    assert "would be submitted" in script.look().summary
    assert script.jobs() == []


def test_what_others_can_write_is_not_submitted(
    slurm: Cluster, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Follower(slurm, home, "cron.daily/open.slurm", job("true"))
    original = dropins.look(home)
    os.chmod(script.path, 0o666)  # between the look at the folder and the submission
    monkeypatch.setattr(dropins, "look", lambda _: original)
    refused = script.look()
    assert refused.status is Status.CRITICAL
    assert "chmod o-w" in refused.summary
    assert script.jobs() == []


CONFIG = """
[daemon]
name = "bloom-watch"
interval = "1s"
[slurm]
partition = "small"
min_poll = "1s"
[channels.alerts]
type = "statuslog"
path = "alerts.log"
"""


def test_a_daemon_inside_of_a_job_submits_follows_and_tells(slurm: Cluster) -> None:
    folder = slurm.new_folder() / "watch"
    env = {"WATCHDOGD_HOME": str(folder)}

    def dog(*words: str) -> subprocess.CompletedProcess[str]:
        return slurm.run_as("alice", [str(slurm.typed), *words], env=env, check=False)

    assert dog("init").returncode == 0
    (folder / "config.toml").write_text(CONFIG)
    for name, text in {
        "cron.daily/fails.slurm": job("srun hostname; echo the reason; exit 5"),
        "cron.daily/works.slurm": job("srun true"),
    }.items():
        (folder / name).write_text(text)
        shutil.chown(folder / name, "alice", "alice")
    for step in range(1, 6):
        ready.aged(folder / f"scratch/global_step{step}/model.pt", 20 - step)
    ready.aged(folder / "scratch/main.log", 20, "iteration 41\n" * 900)
    for path in [
        ready.edited("compress-logs", folder / "cron.daily", folders=f"({folder}/scratch)"),
        ready.edited("thin-checkpoints", folder / "cron.daily", CHECKPOINTS=f"'{folder}/scratch/global_*'"),
        *(folder / "scratch").rglob("*"),
        folder / "scratch",
    ]:
        shutil.chown(path, "alice", "alice")
    alerts = folder / "alerts.log"
    link = slurm.sbatch("alice", f"exec {slurm.watchdogd} run --home {folder}", "--mem=256M", "--time=5")
    headline = re.compile(r"\[CRITICAL\] cron\.daily/fails\.slurm: job (\d+) FAILED \(exit 5\) .*")
    told = wait_until(
        lambda: headline.search(alerts.read_text()) if alerts.exists() else None,
        120,
        "the failed job is told",
    ).value
    wait_until(
        lambda: any(
            seen["check"] == "cron.daily/works.slurm" and "ended well" in seen["summary"]
            for seen in json.loads(dog("status", "--json").stdout)["checks"]
        ),
        60,
        "the other one ended well",
    )
    assert "works.slurm" not in alerts.read_text()
    counted = dog("history", "--csv").stdout
    assert re.search(r"cron.daily/compress-logs,,OK,compressed,1.0,", counted)
    assert re.search(r"cron.daily/thin-checkpoints,,OK,removed,1.0,", counted)
    assert sorted(os.listdir(folder / "scratch")) == [f"global_step{n}" for n in (1, 3, 4, 5)] + [
        "main.log.gz"
    ]
    shown_lines = (folder / "logs" / f"cron.daily.fails.slurm-{told[1]}.out").read_text()
    assert "the reason" in shown_lines
    assert slurm.state(link) == "RUNNING"
    assert "bloom-watch" not in " ".join(slurm.squeue())


def test_a_job_has_the_umask_of_the_user_and_a_drop_in_none_that_lets_everybody_write(
    slurm: Cluster, home: Home, tmp_path: Path
) -> None:
    before = os.umask(0o000)
    said = {}
    try:
        for mask in (0o000, 0o027):
            os.umask(mask)
            umask.begin()
            file = tmp_path / f"job-{mask:o}"
            submit.sbatch((f"--output={file}", "--partition=gpu"), job("umask"))
            said[mask] = wait_until(partial(said_in, file), 60, "a job's umask").value
            umask.end()
        os.umask(0o000)
        umask.begin()
        script = Follower(slurm, home, "cron.daily/tidy.slurm", job("umask"))
        script.look()
        script.until("ended well after")
    finally:
        umask.end()
        os.umask(before)
    assert said == {0o000: "0000\n", 0o027: "0027\n"}
    (output,) = home.logs.glob("cron.daily.tidy.slurm-*.out")
    assert output.read_text() == "0022\n"
    assert output.stat().st_mode & 0o002 == 0
