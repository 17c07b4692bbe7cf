"""Processor time as a sign of work: of recorded samples, and of real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.parsers.probe_sample import Cpu
from watchdogd.plugin import Sign, Strength
from watchdogd.plugins.memory_leak import check
from watchdogd.probe.node_answers import here

MINUTE = 60.0


class Spent:
    """Samples of two nodes, a minute apart, and what is made of them."""

    def __init__(self, *, gpus: bool = False) -> None:
        self.known = check.CpuUse()
        self.now, self.seconds, self.gpus = 1_800_000_000.0, 5000.0, gpus

    def look(self, cores: float, *, gets_on: bool = False, newer: bool = True) -> tuple[Sign, ...]:
        """`cores`: how many processors were busy on each node in the last minute."""
        self.now += MINUTE
        self.seconds += cores * MINUTE
        at = self.now if newer else self.now - MINUTE
        spent = {node: Cpu(self.seconds, at, self.gpus) for node in ("n1", "n2")}
        self.known = check.advance_cpu(self.known, spent, self.now, gets_on=gets_on)
        return self.known.signs

    def learn(self, cores: float) -> None:
        for _ in range(10):
            self.look(cores, gets_on=True)


@pytest.mark.parametrize(
    ("gpus", "usual", "cores", "strength"),
    [
        (False, 8.0, 7.5, Strength.WEAK),
        (False, 8.0, 5.0, None),
        (False, 8.0, 0.3, Strength.AGAINST),
        (False, 0.01, 0.01, None),  # it works by hardly any: neither says anything
        (True, 8.0, 8.0, None),  # what waits for GPUs burns as well
        (True, 8.0, 0.002, Strength.AGAINST),
    ],
)
def test_it_is_held_against_the_runs_own_past(
    gpus: bool, usual: float, cores: float, strength: Strength | None
) -> None:
    spent = Spent(gpus=gpus)
    spent.learn(usual)
    found = spent.look(cores)
    assert [each.strength for each in found] == ([strength] if strength else [])


def test_without_a_past_only_sleep_says_something() -> None:
    spent = Spent()
    assert spent.look(8.0) == spent.look(8.0) == ()
    [sign] = spent.look(0.0)
    assert sign.what == "its processes keep 0.00 processors busy"
    assert spent.look(0.0)[0].since == sign.since


def test_a_sample_that_is_not_renewed_says_what_it_said_then() -> None:
    spent = Spent()
    spent.learn(4.0)
    [before] = spent.look(4.0)
    assert before.what == "its processes keep 8.0 processors busy, 8.0 while it got on"
    assert spent.look(0.0, newer=False) == (before,)


def test_processes_that_have_ended_say_nothing() -> None:
    spent = Spent()
    spent.learn(4.0)
    spent.seconds = 3.0
    assert spent.look(0.0) == ()
    assert spent.look(4.0)[0].strength is Strength.WEAK


def test_a_real_process_that_burns_is_told_from_one_that_sleeps() -> None:
    burn = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
    with (
        started([sys.executable, "-c", burn]) as burns,
        started(["sleep", "600"]) as sleeps,
    ):
        try:

            def taken(process: subprocess.Popen[bytes]) -> float:
                return here([process.pid])[1].seconds

            before = taken(burns), time.time()
            assert wait_until(lambda: taken(burns) > before[0] + 0.3, 60, "its child took processor time")
            assert taken(sleeps) < 0.1
        finally:
            for child in (*_children(burns.pid), burns, sleeps):
                child.kill()


def _children(pid: int) -> list[Any]:
    import psutil

    return psutil.Process(pid).children(recursive=True)
