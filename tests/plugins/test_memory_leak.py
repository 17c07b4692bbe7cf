"""memory_leak: what is left, leaks and what only looks like one, and the ways in."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.lab.controlgroup import control_group
from tests.lab.processes import started
from tests.plugins.words import text_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.parsers.probe_sample import JobProcess, NodeMemory
from watchdogd.plugin import History, Plugin, Result, Run, Status
from watchdogd.plugins.memory_leak.check import MemoryLimits, judge, memory_leak
from watchdogd.units import Amount

LEAK: Plugin = memory_leak
GB = 1e9
START = 1_795_800_000.0
ME = pwd.getpwuid(os.getuid()).pw_name
LIMITS = MemoryLimits(Amount(share=0.05), 6 * 3600.0, 1800.0)


def told(points: list[float], left: float = 20 * GB, minutes: float = 1.0) -> Result:
    """A node of 64 GB whose processes held so many GB, one reading every `minutes`."""
    series = [(START + number * 60 * minutes, held * GB) for number, held in enumerate(points)]
    held = NodeMemory("cgroup job_88", left, 64 * GB, series[-1][1], (JobProcess(7, "python", 9 * GB),))
    result: Result = judge("node2", held, LIMITS, series)
    return result


def test_less_left_than_wanted_names_who_holds_it() -> None:
    result = told([44.0], left=3 * GB)
    assert (result.status, result.subject) == (Status.CRITICAL, "node2")
    assert "left (cgroup job_88), its processes hold" in text_of(result)
    assert "python[7]" in text_of(result)
    assert told([44.0], left=3.3 * GB).status is Status.OK


def test_a_leak_is_told_with_the_time_that_is_left() -> None:
    result = told([20 + 0.1 * minute for minute in range(61)])
    assert result.status is Status.WARNING
    assert "run out in 3h20m" in text_of(result)


def test_a_leak_beneath_a_sawtooth_is_seen() -> None:
    assert told([20 + 0.1 * n + 3 * (n % 7) / 7 for n in range(121)]).status is Status.WARNING


@pytest.mark.parametrize(
    "points",
    [
        [20 + 5 * (n % 10) / 10 for n in range(240)],  # garbage is collected
        [20 + (12 if n % 60 > 50 else 0) + 0.001 * (n % 7) for n in range(240)],  # an evaluation each hour
        [20 + (10 if n > 100 else 0) + 0.001 * (n % 7) for n in range(240)],  # one larger batch, then level
        [30 - 0.01 * n for n in range(240)],
        [20.0] * 240,
        [20 + 0.5 * n for n in range(20)],  # still filling: not yet as long as the warm-up
        [20 + 0.0001 * n for n in range(240)],  # would last for months
    ],
    ids=["sawtooth", "evaluation", "step", "shrinks", "level", "young", "slow"],
)
def test_what_is_no_leak(points: list[float]) -> None:
    assert told(points).status is Status.OK


def rounds(
    run: Run, snapshot: Snapshot, memory: dict[str, Any], past: History | None = None, free: int = 1
) -> dict[str, Result]:
    given = {
        "run": run,
        "snapshot": snapshot,
        "memory": memory,
        "history": past or History(),
        "now": time.time(),
    }
    results = LEAK.results({"memory_free": Amount(absolute=free), "deadline": 10.0}, given)
    return {result.subject: result for result in results if not result.notice}


def test_a_plain_process_and_what_it_started() -> None:
    script = "import sys, time; held = bytearray(64 << 20); print(flush=True); time.sleep(600)"
    with started([sys.executable, "-c", script], stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout
            running.stdout.readline()
            job = Job(str(running.pid), "1", "run-17", ME, "RUNNING", started_at=time.time())
            seen = Snapshot(time.time(), (job,), backend="process")
            memory: dict[str, Any] = {}
            run = Run("run-17", "run-17", backend="process")
            found = rounds(run, seen, memory)
            short = rounds(run, seen, memory, free=10**15)
        finally:
            running.kill()
    [node] = set(found) - {""}
    assert 64 << 20 <= found[node].metrics["anonymous"].value < 256 << 20
    assert found[node].status is Status.OK
    assert short[node].status is Status.CRITICAL
    for _ in range(3):  # as often as the end has to be confirmed
        gone = rounds(run, Snapshot(0.0, ()), memory)
        assert (gone[node].status, gone[node].quiet) == (Status.OK, True)


HOLDER = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as procs:
    procs.write(str(os.getpid()))
held = bytearray(os.urandom(1)) * int(sys.argv[2])
with open(sys.argv[3], "wb") as file:
    file.write(bytes(24 << 20))  # page cache, which the kernel gives back
    os.fsync(file.fileno())
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.root
@pytest.mark.parametrize(("held", "status"), [(20, Status.OK), (56, Status.CRITICAL)])
def test_the_control_groups_of_the_watched_process_count(held: int, status: Status, tmp_path: Path) -> None:
    """The tighter limit is the upper one's; neither is of this process, nor of the node."""
    with ExitStack() as stack:
        upper = stack.enter_context(control_group(80 << 20))
        group = stack.enter_context(control_group(120 << 20, above=upper))
        words = [sys.executable, "-c", HOLDER, str(group), str(held << 20), str(tmp_path / "file")]
        running = stack.enter_context(
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert running.stdout
        assert running.stdout.readline()
        job = Job(str(running.pid), "1", "run-17", ME, "RUNNING", started_at=time.time())
        run = Run("run-17", "run-17", backend="process")
        found = rounds(run, Snapshot(time.time(), (job,), backend="process"), {}, free=32 << 20)
        [node] = set(found) - {""}
        assert found[node].status is status
        assert f"of 83.9 MB memory left (cgroup {upper.name})" in text_of(found[node])


JOB = Job("88", "88", "tr11", ME, "RUNNING", nodes="node[2-3]", started_at=START)


def leave(folder: Path, node: str, job: str = "88", held: float = GB) -> Path:
    path = folder / f"run-17.sample.{node}.1.json"
    path.write_text(
        f'{{"run": "run-17", "job": "{job}", "node": "{node}", "memory": {{"pool": "node", "left": 5e9, '
        f'"total": 6e10, "anonymous": {held}, "processes": []}}}}'
    )
    return path


def test_samples_of_this_job_are_read_and_old_or_missing_ones_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun: only samples can tell
    run, seen = Run("run-17", "tr11", inbox=str(tmp_path)), Snapshot(0.0, (JOB,))
    for node in ("node2", "node3"):
        leave(tmp_path, node)
    assert {node: each.status for node, each in rounds(run, seen, {}).items()} == {
        "": Status.OK,
        "node2": Status.OK,
        "node3": Status.OK,
    }
    leave(tmp_path, "node2", job="77")
    found = rounds(run, seen, {})
    assert {node: each.status for node, each in found.items()} == {"": Status.UNKNOWN}
    assert "no node of job 88 could be asked: srun cannot be run" in text_of(found[""])


def test_the_past_of_an_earlier_job_and_the_warm_up_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    now = time.time()
    for node in ("node2", "node3"):
        leave(tmp_path, node, held=60 * GB)
    grows = tuple((now - 60.0 * (90 - minute), minute * GB / 2) for minute in range(90))
    history = History({("node2", "anonymous"): grows})
    run = Run("run-17", "tr11", inbox=str(tmp_path))
    for age, status in ((7200.0, Status.WARNING), (1900.0, Status.OK)):
        job = Job("88", "88", "tr11", ME, "RUNNING", nodes="node[2-3]", started_at=now - age)
        assert rounds(run, Snapshot(0.0, (job,)), {}, history)["node2"].status is status


def test_no_way_in_is_told_once(tmp_path: Path) -> None:
    job = Job("88", "88", "tr11", "nobody", "RUNNING", nodes="node2", started_at=START)
    memory: dict[str, Any] = {}
    given = {"run": Run("run-17", "tr11", inbox=str(tmp_path)), "snapshot": Snapshot(0.0, (job,))}
    given |= {"memory": memory, "history": History(), "now": START}
    first, second = (LEAK.results({"memory_free": Amount(absolute=1)}, given) for _ in range(2))
    assert [result.notice for result in first] == [False, True]
    assert [result.notice for result in second] == [False]
    assert "watchdogd probe --run run-17 &" in text_of(second[0])


def test_a_queue_that_does_not_answer_is_unknown() -> None:
    found = rounds(Run("run-17", "tr11"), Snapshot(0.0, None, "no answer"), {"recovering": {"node2": 0}})
    assert {node: each.status for node, each in found.items()} == {"": Status.UNKNOWN}
