"""A tick by itself: a fault is confirmed and reported by the tick that sees it first."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.lab.dog import Dog
from watchdogd.home.layout import Home
from watchdogd.home.markers import mark_stopped
from watchdogd.system.account import own_name

CONFIG = """
[daemon]
interval = "1s"
confirm = 3
[channels.alerts]
type = "statuslog"
path = "alerts.log"
[checks.pump]
plugin = "pump"
every = "10m"
[checks.fan]
plugin = "fan"
every = "1s"
"""
PLUGIN = """
import os, time
from watchdogd.plugin import check, critical, ok

def looked(name):
    path = os.path.join({home!r}, name)
    with open(path, "a") as file:
        file.write(f"{{time.time()}}\\n")
    return len(open(path).readlines())

@check()
def pump():
    return critical("the pump stands") if looked("pump") <= {bad} else ok("it runs")

@check()
def fan():
    looked("fan")
    return ok("it turns")
"""


def made(folder: Path, bad: int) -> Dog:
    """A home whose pump is found standing so many times."""
    dog = Dog(folder / "home").settle(CONFIG)
    dog.env["PATH"] = str(Path(sys.executable).parent)  # a machine without Slurm
    plugin = dog.home / "plugins/machines.py"
    plugin.write_text(PLUGIN.format(home=str(dog.home), bad=bad))
    plugin.chmod(0o600)
    return dog


def times(dog: Dog, name: str) -> list[float]:
    return [float(line) for line in (dog.home / name).read_text().split()]


@pytest.mark.parametrize("words", [("tick",), ("tick", "--dry-run")])
def test_a_fault_is_reported_by_the_tick_that_finds_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    dog = made(tmp_path, bad=9)
    done = dog(*words)
    assert done.returncode == 0
    assert "[CRITICAL] pump: the pump stands" in dog.alerts() + done.stdout
    looks = times(dog, "pump")
    assert len(looks) == 3
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(looks))
    assert len(times(dog, "fan")) == 1, "what is well is not looked at again"


@pytest.mark.parametrize("words", [("tick",), ("tick", "--dry-run")])
def test_what_is_over_at_the_second_look_is_not_reported(tmp_path: Path, words: tuple[str, ...]) -> None:
    dog = made(tmp_path, bad=1)
    done = dog(*words)
    assert done.returncode == 0
    assert "pump stands" not in dog.alerts() + done.stdout
    assert "pump: it runs" in done.stdout or "dry" not in "".join(words)
    assert len(times(dog, "pump")) == 2


STOPPED = f"[INFO] watchdogd: the watchdog was stopped by {own_name()}, nobody watches now: new disks"


def test_a_stop_is_reported_by_the_next_tick_once(tmp_path: Path) -> None:
    dog = made(tmp_path, bad=0)
    assert dog("tick").returncode == 0
    assert dog.json("status")["alive"]
    assert dog("stop", "--reason", "new disks").returncode == 0
    seen = dog.json("status")
    assert not seen["alive"]
    assert (seen["stopped"]["by"], seen["stopped"]["reason"]) == (own_name(), "new disks")
    assert "stopped" not in dog.alerts()
    for _ in range(2):
        assert "nothing done: it was stopped by" in dog("tick").stdout
        assert dog.alerts().count(STOPPED) == 1
    assert len(times(dog, "fan")) == 1


def test_a_stop_between_ticks_of_slurm_is_reported_by_the_verb(tmp_path: Path) -> None:
    dog = made(tmp_path, bad=0)
    said = {"partition": "", "account": "", "time": "", "mode": "tick", "walltime": 300}
    (dog.home / "link.json").write_text(json.dumps(said))
    for _ in range(2):
        assert dog("stop", "--reason", "new disks").returncode == 0
        assert dog.alerts().count(STOPPED) == 1


def test_the_stop_of_a_daemon_is_reported_by_itself(tmp_path: Path) -> None:
    dog = made(tmp_path, bad=0)
    with dog.running():
        assert dog("stop", "--reason", "new disks").returncode == 0
    assert dog.alerts().count(STOPPED) == 1
    assert re.search(rf"stopped by {own_name()} on \S+ \d+s ago: new disks", dog("status").stdout)
    assert "nothing done: it was stopped by" in dog("tick").stdout
    assert dog.alerts().count(STOPPED) == 1


def test_a_restart_reports_no_stop(tmp_path: Path) -> None:
    dog = made(tmp_path, bad=0)
    assert dog("tick").returncode == 0
    mark_stopped(Home(dog.home), "restart", jobs_go_on=True)
    assert dog("tick").returncode == 0
    assert "stopped by" not in dog.alerts()
    assert dog.json("status")["stopped"] is None
