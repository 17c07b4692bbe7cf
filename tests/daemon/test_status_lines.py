"""The pulse: one line of a run's status a round, in a file of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdogd.daemon.publishing import line
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import Wiring, assembled
from watchdogd.home.layout import Home
from watchdogd.plugin import Result, Status

CONFIG = """
[channels.out]
type = "console"
[runs.run-4]
backend = "process"
pid_file = "{folder}/pid"
log = "{folder}/*.log"
stale_after = "1h"
pulse = "{pulse}"
[runs.run-5]
backend = "process"
pid_file = "{folder}/pid"
"""
NOON = 1_800_014_400.0


def words(*results: Result) -> str:
    return line("run-4", "", results, NOON).partition(" UTC ")[2]


def test_a_line_is_made_as_alerts_are() -> None:
    running, silent = Result(Status.OK, "1 running"), Result(Status.CRITICAL, "no new line for 25m")
    loss = Result(Status.OK, "loss 2", subject="loss")
    short = Result(Status.WARNING, "no job waits behind it", subject="queue")
    assert words(running, loss) == "[OK] run-4: 1 running"
    assert words(running, short, silent) == "[CRITICAL] run-4: no new line for 25m; no job waits behind it"
    assert line("run-4", "hung", [silent], NOON).endswith("[CRITICAL] run-4: stalled; no new line for 25m")
    assert words() == "[UNKNOWN] run-4: no check has answered yet"
    assert "\n" not in line("run-4", "", [Result(Status.OK, "a\nforged line")], NOON)
    assert line("run-4", "", [running], NOON).startswith("15 Jan ")


@pytest.fixture
def pulse(tmp_path: Path) -> Path:
    return tmp_path / "pulse.log"


@pytest.fixture
def parts(tmp_path: Path, pulse: Path) -> Iterator[Wiring]:
    """A run that is this very process; rounds are ours to make."""
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "train.log").write_text("iteration 1 | loss 2.0\n")
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text(CONFIG.format(folder=tmp_path, pulse=pulse))
    with assembled(home, Setup.load(home)) as parts:
        yield parts


def test_every_round_appends_one_line(parts: Wiring, pulse: Path) -> None:
    for _ in range(3):
        parts.engine.round(patience=60)
    lines = pulse.read_text().splitlines()
    assert len(lines) == 3
    for each in lines:  # watchdogd's own process is nobody's training
        begin = r"\d+ \w{3} [\d:]{8} UTC \[OK\] run-4: not running; "
        assert re.match(rf"{begin}no process of .* was seen yet; ", each)
    assert not parts.engine.trouble


def test_a_pulse_that_cannot_be_written_is_told(parts: Wiring, pulse: Path) -> None:
    pulse.mkdir()
    parts.engine.round(patience=60)
    assert parts.engine.trouble == f"the pulse file {pulse} is not updated: Is a directory"
    pulse.rmdir()
    parts.engine.round(patience=60)
    assert not parts.engine.trouble
    assert len(pulse.read_text().splitlines()) == 1


def test_what_only_looks_leaves_no_pulse(parts: Wiring, pulse: Path) -> None:
    with assembled(parts.home, parts.engine.setup.harmless(), looking=True) as looking:
        looking.engine.rehearse()
        looking.engine.round(patience=60)
    assert not pulse.exists()
