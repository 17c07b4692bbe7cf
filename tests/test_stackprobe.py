"""Taking stacks on this machine: real processes, real py-spy, and what cannot be read."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.cli import main
from watchdogd.parsers import pyspy
from watchdogd.parsers.stack_models import Frame, StackDump, Thread
from watchdogd.stacks import node_stacks, stack_collection
from watchdogd.stacks.node_stacks import Parcel, TrainingProcess

Start = Callable[..., int]
Says = pytest.CaptureFixture[str]

TRAINING = """
import os, subprocess, sys, time
def next_batch():
    print("ready", flush=True)
    time.sleep(600)
if "loader" in sys.argv:
    loader = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
    process = subprocess.Popen(loader)
next_batch()
"""
MOVING = """
import time
print("ready", flush=True)
def one(): time.sleep(0.7)
def two(): time.sleep(0.7)
while True:
    one()
    two()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a Python program; returns its process id when it, and what it starts, is ready."""
    started: list[subprocess.Popen[str]] = []

    def begin(script: str, *words: str, lines: int = 1, **env: str) -> int:
        path = tmp_path / f"train{len(started)}.py"
        path.write_text(script)
        argv = [sys.executable, str(path), *words]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **env},
                                   start_new_session=True)  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(lines)] == ["ready\n"] * lines
        return process.pid

    yield begin
    for process in started:
        os.killpg(process.pid, 9)
        process.communicate(timeout=240)


def tool() -> str:
    path = stack_collection.py_spy()
    assert path, "install the extra for developers: py-spy is missing"
    return path


def probe(capsys: Says, *words: str) -> list[Parcel]:
    node_stacks.main(["--py-spy", tool(), *words])
    said = capsys.readouterr().out
    assert said.startswith(f"@@ node {os.uname().nodename}\n")
    assert max(map(len, said.splitlines())) < 1000  # srun parts longer lines
    return node_stacks.parcels(said)


def test_what_is_sent_is_what_arrives() -> None:
    frames = tuple(Frame(f"function{number}", "a µ.py", number or None, "/x/a µ.py") for number in range(500))
    thread = Thread("7", 9, "MainThread", frames=frames)
    parcel = Parcel(
        TrainingProcess(9, 1, {"RANK": 3}),
        (StackDump(9, (thread,)),),
    )
    lines = list(node_stacks.packages(parcel))
    assert len(lines) > 3
    mixed = "\n".join(["noise", *reversed(lines), "@@ part 10 1 2 eJw=", "@@ part 11 1 1 !!!"])
    assert node_stacks.parcels(mixed) == [parcel]


def test_a_process_and_what_it_started(start: Start, capsys: Says) -> None:
    pid = start(TRAINING, "loader", lines=2, RANK="3")
    first, second = sorted(probe(capsys, "--below", str(pid)), key=lambda parcel: parcel.found.pid != pid)
    assert (first.found.pid, second.found.parent) == (pid, pid)
    assert first.found.ranks == {"RANK": 3}
    assert str(first.samples[0].threads[0].frames[0]) == "next_batch (train0.py:5)"
    processes = stack_collection.processes_of([("node1", [first, second])])
    assert [(each.rank, each.helper) for each in processes] == [(3, False), (3, True)]


def test_the_processes_of_a_job_on_a_node(
    start: Start, capsys: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.uname().nodename
    job = str(time.time_ns())  # no other process has it
    wanted = start(TRAINING, SLURM_JOB_ID=job, SLURMD_NODENAME=here, SLURM_PROCID="5")
    start(TRAINING, SLURM_JOB_ID=job, SLURMD_NODENAME="node9")
    start(TRAINING, SLURM_JOB_ID="1")
    start(TRAINING, SLURM_JOB_ID=job, SLURM_CLUSTER_NAME="other")
    start(TRAINING, SLURM_JOB_ID=job, SLURM_CLUSTER_NAME="ours", SLURM_CONF="/other/slurm.conf")
    monkeypatch.setenv("SLURMD_NODENAME", here)
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "ours")
    monkeypatch.setenv("SLURM_CONF", "/ours/slurm.conf")
    (found,) = probe(capsys, "--job", job)
    assert (found.found.pid, found.found.ranks) == (wanted, {"SLURM_PROCID": 5})
    began = psutil.Process(wanted).create_time()
    assert node_stacks.began(wanted) == pytest.approx(began, abs=1.5)
    assert [each.pid for each in node_stacks.of_job(job, began + 60)] == [wanted]  # clocks differ
    assert node_stacks.of_job(job, began + 600) == []  # left over from before the job


def test_samples_tell_what_moves(start: Start, capsys: Says) -> None:
    pid = start(MOVING)
    (moving,) = probe(capsys, "--below", str(pid), "--samples", "3", "--every", "0.7")
    assert len(moving.samples) == 3
    assert len({sample.threads[0].frames for sample in moving.samples}) == 2


def test_watchdogds_own_processes_are_none_of_the_run(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "watchdogd", "--home", str(tmp_path), "guard", "--run", "r", "--"]
    with started([*words, sys.executable, "-c", TRAINING], stdout=subprocess.PIPE, text=True) as guard:
        try:
            assert guard.stdout is not None
            assert guard.stdout.readline() == "ready\n"
            (found,) = node_stacks.below([guard.pid])
            assert found.parent == guard.pid
        finally:
            guard.terminate()


def test_a_process_that_has_ended_and_a_zombie(capsys: Says) -> None:
    with started([sys.executable, "-c", "pass"]) as process:
        wait_until(lambda: node_stacks.state(process.pid).startswith("Z"), 30, "it is a zombie")
        assert node_stacks.below([process.pid]) == []
    assert node_stacks.state(process.pid) == ""
    gone = Parcel(TrainingProcess(process.pid, 1))
    dump, trouble = node_stacks._dump(
        gone.found.pid, node_stacks._arguments(["--py-spy", "x", "--job", "1"]), 0.0
    )
    assert (dump, trouble) == (None, "it has ended")


def test_what_proc_says(start: Start) -> None:
    pid = start(TRAINING)
    wait_until(lambda: node_stacks.state(pid).startswith("S (sleeping)"), 30, "it sleeps")


@pytest.mark.root
def test_py_spy_without_the_right_to_attach_says_so(start: Start) -> None:
    with tempfile.TemporaryDirectory() as folder:  # where anybody can run it
        os.chmod(folder, 0o755)
        copy = shutil.copy(tool(), folder)
        words = ["setpriv", "--reuid=65534", "--clear-groups", copy, "dump", "--pid", str(start(TRAINING))]
        told = subprocess.run(words, capture_output=True, text=True, check=False)
    trouble = pyspy.read(told.stdout, told.stderr).trouble
    assert trouble is not None, told.stderr
    assert trouble.kind == "permission", told.stderr


@pytest.mark.parametrize(
    ("does", "trouble"),
    [
        (
            "echo 'Permission Denied: Try running again' >&2; exit 1",
            "Permission Denied: py-spy may not attach",
        ),
        ("sleep 60", "did not answer within"),
        ("echo nonsense", "py-spy showed no thread"),
    ],
)
def test_what_cannot_be_read_comes_with_its_state(
    start: Start, capsys: Says, tmp_path: Path, does: str, trouble: str
) -> None:
    strange = tmp_path / "py-spy"
    strange.write_text(f"#!/bin/sh\n{does}\n")
    strange.chmod(0o755)
    pid = start(TRAINING)
    wait_until(lambda: node_stacks.state(pid).startswith("S (sleeping)"), 30, "it sleeps")
    node_stacks.main(["--py-spy", str(strange), "--below", str(pid), "--deadline", "2"])
    (parcel,) = node_stacks.parcels(capsys.readouterr().out)
    assert trouble in parcel.trouble
    assert parcel.state.startswith("S (sleeping)")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says) -> Path:
    monkeypatch.setenv("WATCHDOGD_HOME", str(tmp_path / "home"))
    assert main(["init"]) == 0
    (tmp_path / "home/config.toml").write_text('[runs.run-17]\npid_file = "train.pid"\n')
    capsys.readouterr()
    return tmp_path / "home"


def test_a_run_of_this_machine(home: Path, start: Start, capsys: Says) -> None:
    (home / "train.pid").write_text(str(start(TRAINING)))
    assert main(["stacks", "run-17", "--samples", "2", "--every", "1s"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "the rank stands in next_batch (train0.py:5)"
    assert any("1 rank stands, still for 1s" in line for line in rest)
    assert main(["stacks", "run-17", "--samples", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["groups"][0]["frames"][0] == "next_batch (train0.py:5)"


def test_of_a_process_that_a_signal_stopped_what_lets_it_go_on_is_said_at_once(
    home: Path, start: Start, capsys: Says
) -> None:
    pid = start(TRAINING)
    (home / "train.pid").write_text(str(pid))
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: node_stacks.state(pid).startswith("T"), 30, "it is stopped")
    begun = time.monotonic()
    assert main(["stacks", "run-17"]) == 1
    said = f"no stacks: the process is stopped (state T): kill -CONT {pid}\n"
    assert capsys.readouterr() == (said, "")
    assert time.monotonic() - begun < 14, "neither py-spy nor a Guard is waited for"


def test_without_py_spy_the_way_to_it_is_told(
    home: Path, start: Start, capsys: Says, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (home / "train.pid").write_text(str(start(TRAINING)))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["stacks", "run-17", "--samples", "1", "--deadline", "10s"]) == 1
    said = capsys.readouterr().err
    assert "py-spy is not installed here: pip install 'watchdogd[stacks]'" in said
    assert "no Guard of run-17 wrote its stacks" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", "soon"], "'soon' is no duration"),
        (["--samples", "0"], "--samples is a number from 1 to 20"),
        (["--samples", "20", "--every", "1m"], "so many looks need --deadline 1150s at least"),
    ],
)
def test_wrong_usage(home: Path, words: list[str], said: str, capsys: Says) -> None:
    assert main(["stacks", "run-17", *words]) == 64
    assert said in capsys.readouterr().err
