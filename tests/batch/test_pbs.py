"""A run of PBS, whose qstat is played here: PBS cannot be installed beside these tests."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import commands_of, text_of
from watchdogd.batch import pbs
from watchdogd.batch.models import Snapshot
from watchdogd.plugin import Plugin, Result, Run, Status
from watchdogd.plugins.job_liveness.check import job_liveness

LIVENESS: Plugin = job_liveness
NOW = time.mktime((2026, 11, 28, 10, 0, 0, 0, 0, -1))
RUNNING = {
    "Job_Name": "tr4",
    "Job_Owner": "alice@login1",
    "job_state": "R",
    "queue": "gpu",
    "exec_host": "n8/0*32+n9/0*32",
    "Resource_List": {"walltime": "12:00:00"},
    "qtime": "Sat Nov 28 08:00:00 2026",
    "stime": "Sat Nov 28 09:00:00 2026",
}
OVER = RUNNING | {"job_state": "F", "Exit_status": 2, "substate": 92, "obittime": "Sat Nov 28 09:59:00 2026"}
QSTAT = """#!/bin/sh
case "$*" in
  *-B*) cat "$PLAYED/server" ;;
  *-x*) cat "$PLAYED/history" 2>/dev/null || { echo "qstat: job history is not enabled" >&2; exit 35; } ;;
  *json*) cat "$PLAYED/json" 2>/dev/null || { echo "qstat: illegal option -- F
usage: qstat [-f]" >&2; exit 2; } ;;
  *) cat "$PLAYED/text" 2>/dev/null || { echo "qstat: cannot connect to server b (errno=1)" >&2; exit 1; } ;;
esac
"""


class Pbs:
    """A played qstat, and rounds of job_liveness on top of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: Mapping[str, float] = {}
        self.memory: dict[str, Any] = {}
        self.now = NOW

    def play(self, name: str, jobs: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps({"pbs_server": "batch", "Jobs": jobs} if jobs else {}))

    def seen(self) -> Snapshot:
        found = pbs.look(["tr4"], ["alice"], self.known, 20.0, self.now, ())
        self.known = found.known
        return found

    def look(self) -> Result:
        self.now += 60
        run = Run("run-4", "tr4", backend="pbs", users=frozenset({"alice"}))
        injected = {"run": run, "snapshot": self.seen(), "memory": self.memory, "now": self.now}
        parameters = {name: each.default for name, each in LIVENESS.parameters.items()}
        return LIVENESS.results(parameters, injected)[0]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pbs:
    (tmp_path / "bin").mkdir()
    qstat = tmp_path / "bin" / "qstat"
    qstat.write_text(QSTAT)
    qstat.chmod(0o755)
    monkeypatch.setenv("PLAYED", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return Pbs(tmp_path)


def test_whose_job_bears_its_name_and_that_others_jobs_are_not_shown(
    played: Pbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.play("json", {"7.batch": RUNNING | {"Job_Owner": "carol@login1"}})
    seen = played.look()
    assert seen.status is Status.WARNING
    assert "runs as carol" in seen.summary
    assert "job 7.batch of carol has its name" in text_of(seen)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    server = played.folder / "server"
    server.write_text("Server: b\n    server_state = Active\n    query_other_jobs = True\n")
    played.play("json", {})
    assert (played.seen().hidden, played.seen().veiled) == (frozenset(), False)
    server.write_text("Server: b\n    server_state = Active\n    query_other_jobs = False\n")
    assert (played.seen().hidden, played.seen().veiled) == (frozenset({"alice"}), True)
    assert "query_other_jobs" in text_of(played.look())


def test_runs_then_fails_as_its_history_tells(played: Pbs) -> None:
    played.play("json", {"88.batch": RUNNING, "7.batch": RUNNING | {"Job_Owner": "carol@login1"}})
    runs = played.look()
    assert (runs.status, "job 88.batch runs for 1h1m" in runs.summary) == (Status.OK, True)
    assert " on n8,n9, 10h59m left" in runs.summary
    played.play("json", {})
    played.play("history", {"88.batch": OVER})
    gone = played.look()
    assert gone.status is Status.CRITICAL
    assert gone.summary.startswith("job 88.batch FAILED (exit 2) after")


def test_without_history_it_is_gone_after_a_while_and_nobody_knows_how(played: Pbs) -> None:
    played.play("json", {"88.batch": RUNNING})
    played.look()
    played.play("json", {})
    assert [played.look().status for _ in range(3)] == [Status.OK, Status.OK, Status.CRITICAL]
    gone = played.look()
    assert gone.summary == "gone, last seen 4m ago, not known how it ended"
    assert "qstat: job history is not enabled" in gone.facts


def test_a_subjob_fails_and_the_next_takes_over(played: Pbs) -> None:
    array = {"Job_Name": "tr4", "Job_Owner": "alice@login1", "job_state": "B"}
    waits = array | {"job_state": "Q"}
    played.play("json", {"88[].batch": array, "88[0].batch": RUNNING, "88[1].batch": waits})
    first = played.look().summary
    assert first.startswith("job 88[0].batch runs for")
    assert first.endswith(", 1 waiting")
    failed = OVER | {"job_state": "X"}
    played.play("json", {"88[].batch": array, "88[0].batch": failed, "88[1].batch": RUNNING})
    assert played.look().summary.startswith("job 88[1].batch runs for")
    assert "88[0].batch" not in played.known


def test_held_by_its_user_is_told_with_what_releases_it(played: Pbs) -> None:
    played.play("json", {"88.batch": RUNNING | {"job_state": "H", "Hold_Types": "u"}})
    held = played.look()
    assert (held.status, commands_of(held)) == (Status.WARNING, ["qrls 88.batch"])


def test_torque_knows_no_json(played: Pbs) -> None:
    (played.folder / "text").write_text(
        "Job Id: 55.torque\n    Job_Name = tr4\n    Job_Owner = alice@login1\n    job_state = R\n"
        "    exec_host = n1/0\n    start_time = Sat Nov 28 09:00:00 2026\n"
    )
    assert played.look().summary.startswith("job 55.torque runs for 1h1m")


def test_a_server_that_is_away_is_no_gone_run(played: Pbs) -> None:
    played.play("json", {"88.batch": RUNNING})
    played.look()
    (played.folder / "json").unlink()
    away = [played.look() for _ in range(5)]
    assert {result.status for result in away} == {Status.UNKNOWN}
    assert "qstat: cannot connect to server b (errno=1)" in away[0].summary
    played.play("json", {"88.batch": RUNNING})
    assert played.look().status is Status.OK
