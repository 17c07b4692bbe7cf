"""`check --explain`: what a verdict rests on, as people and programs read it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.lab.dog import Dog
from watchdogd.cli import main
from watchdogd.parsers.logs.failures import Cause
from watchdogd.plugins.log_staleness.explain import explain
from watchdogd.plugins.log_staleness.learned_rhythm import LogState
from watchdogd.plugins.log_staleness.run_log import CauseSeen, JobTold, RunLog

CONFIG = """
[runs.opal]
pid_file = "opal.pid"
log = "opal.log"
[disks.here]
path = "."
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = Dog(tmp_path / "home").settle(CONFIG).home
    (home / "opal.pid").write_text(f"{os.getpid()}\n")
    lines = [f"pass {n} of 900, loss 2.{n % 9}\nutil 9{n % 7} %\n" for n in range(1, 41)]
    (home / "opal.log").write_text("".join(lines))
    return home


def test_the_clocks_the_limits_and_where_they_come_from_are_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--home", str(home), "check", "opal/log_staleness", "--explain"])
    said = capsys.readouterr().out
    assert "counts as progress: 'pass 40 of #, loss " in said
    assert "its name, or a loss beside it, says that it is the training's step" in said
    assert "last progress: " in said
    assert "silence after 'util # %' is reported after " in said
    assert "opal/log_staleness rests on:" in said


def test_programs_get_the_same_as_a_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--home", str(home), "check", "--explain", "--json"])
    found = {each["check"]: each.get("explanation") for each in json.loads(capsys.readouterr().out)}
    assert any(line.startswith("counts as progress: ") for line in found["opal/log_staleness"])
    assert found["here/disk_quota"] is None


def test_a_limit_that_is_configured_is_the_one_that_is_named() -> None:
    state = LogState()
    for step in range(30):
        state.advance([(f"step {step} loss 2.{step}", False)], 60.0 * step)
    lines = [*explain(RunLog(state, stale_after=15.0), 1800.0)]
    assert "silence, or lines without progress, are reported after 15s (stale_after)" in lines
    assert not [line for line in lines if "learned" in line or "15m" in line]


def test_what_was_passed_over_is_named() -> None:
    state = LogState()
    for n in range(1, 40):
        lines = [f"iteration {n}/90 loss 2.{n % 7}", f"tick {n}", f"up for {n * 60} s"]
        state.advance([(line, False) for line in lines], n * 60.0)
    cause = CauseSeen(Cause("x", "GPU out of memory on rank 3"), 2400.0)
    said = "\n".join(explain(RunLog(state, told=JobTold(cause=cause)), 2500.0))
    assert "passed over: 'tick 39' (it counts as regularly as something that waits)" in said
    assert "passed over: 'up for # s' (a number of it goes as time does)" in said
    assert "taken for a cause: GPU out of memory on rank 3" in said


def test_before_anything_was_read_that_is_said() -> None:
    assert list(explain(RunLog(), 0.0)) == ["nothing was read yet: no line of the log, no heartbeat"]
