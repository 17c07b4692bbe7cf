"""A tick by itself: a fault is confirmed and reported by the tick that sees it first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.lab.dog import Dog

if TYPE_CHECKING:
    from pathlib import Path

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
