"""What lies in evidence/INCIDENT/: bounded, readable by those who share home, and gone when it is old."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from watchdogd.batch.models import Job
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Run, Status
from watchdogd.remediation import evidence
from watchdogd.remediation.executor import do
from watchdogd.remediation.models import EVIDENCE, Action, ActionRecord, ActionTask

NOW = time.time()
JOB = Job("501", "501", "glide", "ann", "RUNNING", nodes="node5", started_at=NOW - 3600)


def task(home: Home, number: int = 3, action: Action = EVIDENCE, log: str = "") -> ActionTask:
    incident = Incident(
        number, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, NOW, "silent", "x"
    )
    record = ActionRecord(number, "glide", "", action, NOW)
    return ActionTask(record, incident, home, Run("glide", "glide"), log, queue=(JOB,))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_the_end_of_each_log_the_queue_and_the_incident(home: Home, tmp_path: Path) -> None:
    for rank in range(6):
        (tmp_path / f"rank{rank}.log").write_text("old line\n" * 100_000 + f"last words of {rank}\n")
        os.utime(tmp_path / f"rank{rank}.log", (NOW - rank, NOW - rank))
    outcome = do(task(home, log=f"{tmp_path}/rank*.log"))
    folder = home.evidence / "3"
    assert (outcome.ok, outcome.text) == (True, str(folder))
    logs = (folder / "log.txt").read_text()
    assert [rank for rank in range(6) if f"last words of {rank}\n" in logs] == [0, 1, 2, 3]
    assert len(logs) < 4 * evidence.LOG_TAIL + 2000
    assert "501 ann RUNNING node5 started " in (folder / "queue.txt").read_text()
    told = json.loads((folder / "incident.json").read_text())
    assert (told["id"], told["summary"], told["details"]) == (3, "silent", "x")
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.root
def test_a_group_that_shares_home_reads_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make(group=65534)
    do(task(home))
    folder = home.evidence / "3"
    assert folder.stat().st_mode & 0o7777 == 0o2770
    assert {(path.stat().st_gid, path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())} == {
        (65534, 0o770), (65534, 0o660),
    }  # fmt: skip


def test_one_file_has_a_limit(home: Home) -> None:
    path = evidence.put(task(home), "stacks.txt", "é" * evidence.FILE_LIMIT)
    assert path.stat().st_size <= evidence.FILE_LIMIT + 100
    assert path.read_text().endswith("(cut off at 1.05 MB)\n")


def test_a_link_in_its_place_is_not_followed(home: Home, tmp_path: Path) -> None:
    (home.evidence / "3").symlink_to(tmp_path)
    outcome = do(task(home))
    assert (outcome.ok, outcome.text) == (False, f"{home.evidence}/3 is no folder: remove it")
    assert not (tmp_path / "incident.json").exists()


def test_what_is_old_goes_and_what_is_too_much(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 7):
        do(task(home, number))
        at = NOW - 1000 * (7 - number)
        os.utime(home.evidence / str(number), (at, at))
    (home.evidence / "notes").mkdir()
    assert evidence.sweep(home, keep=5500, now=NOW) == 1
    monkeypatch.setattr(evidence, "FOLDERS", 3)
    assert evidence.sweep(home, keep=5500, now=NOW) == 2
    assert sorted(path.name for path in home.evidence.iterdir()) == ["4", "5", "6", "notes"]


def test_a_disk_that_refuses_it_is_told(home: Home) -> None:
    home.evidence.rmdir()
    home.evidence.write_text("in the way")
    outcome = do(task(home))
    assert not outcome.ok
    assert "evidence" in outcome.text


def test_a_home_that_was_moved_away_is_not_made_anew(home: Home) -> None:
    assert do(task(home)).ok
    home.path.rename(home.path.with_name("away"))
    assert not do(task(home, 4)).ok
    assert not home.path.exists()
