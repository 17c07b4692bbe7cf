"""The first message of a stall names who holds the run up: real rounds over real processes.

NCCL's RAS is a fake one on a real port, since it exists on GPUs alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.lab.processes import started
from tests.servers.ras import gpu, mismatch, serving, text
from tests.waiting import AT_ONCE, wait_until
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Message
from watchdogd.remediation import stall_inquiry

LAUNCHER = """
import os, subprocess, sys, time
world = int(sys.argv[2])
env = {**os.environ, "WORLD_SIZE": str(world)}
for rank in range(world):
    subprocess.Popen([sys.executable, sys.argv[1]], env={**env, "RANK": str(rank)})
time.sleep(600)
"""
PLAIN = """
import os, time
os.write(1, b"ready\\n")
time.sleep(600)
"""
GUARDED = """
import os, time, fake
from watchdogd.training import Guard
def next_batch():
    time.sleep(600)
guard = Guard("glide", every=0.1)
guard.poll(step=7 if os.environ["RANK"] == "1" else 8)
os.write(1, b"ready\\n")
next_batch() if os.environ["RANK"] == "1" else fake.all_reduce()
"""
CONFIG = """
[daemon]
interval = "1s"
confirm = 1
[channels.out]
type = "console"
[runs.glide]
pid_file = "{folder}/train.pid"
log = "{folder}/train.log"
stale_after = "1s"
{more}
[runs.other]
pid_file = "{folder}/none.pid"
"""


@pytest.fixture(autouse=True)
def _busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the machine is busy, to start on the node takes long; to ask there has its own seconds."""
    asking = stall_inquiry._NODES - stall_inquiry._STARTING
    monkeypatch.setattr(stall_inquiry, "PATIENCE", AT_ONCE)
    monkeypatch.setattr(stall_inquiry, "_NODES", AT_ONCE - 5)
    monkeypatch.setattr(stall_inquiry, "_STARTING", AT_ONCE - 5 - asking)


@contextmanager
def training(folder: Path, script: str = PLAIN, ranks: int = 3, **env: str) -> Iterator[psutil.Process]:
    """Ranks below a launcher, which is given; all are ready."""
    (folder / "train.py").write_text(script)
    words = [sys.executable, "-c", LAUNCHER, str(folder / "train.py"), str(ranks)]
    with started(words, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout
        assert [launcher.stdout.readline() for _ in range(ranks)] == ["ready\n"] * ranks
        process = psutil.Process(launcher.pid)
        (folder / "train.pid").write_text(f"{launcher.pid}\n")
        try:
            yield process
        finally:
            for each in [*process.children(), process]:
                each.kill()


def home_of(folder: Path, more: str = "") -> Home:
    """A home that watches that training."""
    home = Home(folder / "home")
    home.make()
    home.config.write_text(CONFIG.format(folder=folder, more=more))
    return home


def first_message(folder: Path, more: str = "") -> Message:
    """Of the run, whose log told progress and then no more."""
    home = home_of(folder, more)
    (folder / "train.log").write_text(
        "iteration    81239/  105000 | lm loss: 2.5E+00 |\niteration    81240/  105000 | lm loss: 2.5E+00 |\n"
    )
    with assembled(home, Setup.load(home)) as parts:

        def with_evidence() -> list[Message]:
            found = parts.engine.round(patience=60.0)
            assert found
            messages = [each.message for each in found.notifications]
            return [each for each in messages if each.target == "glide" and each.status == "CRITICAL"]

        return wait_until(with_evidence, 30, "the stall is told", every=0.3).value[0]


def pids(launcher: psutil.Process) -> list[int]:
    """Of the ranks, in order."""
    ranks = [(int(each.environ()["RANK"]), each.pid) for each in launcher.children()]
    return [pid for _, pid in sorted(ranks)]


def pair(found: Mapping[str, list[int]]) -> str:
    first, second, third = found["pids"]
    lines = ["2 ranks have launched up to operation 1139"]
    lines += [f"Rank 1 has launched up to operation 1138 -- {gpu(1, second, '127.0.0.1')}"]
    assert first != third
    return text(mismatch(lines), 3)


def test_the_first_line_names_the_rank_that_nccl_says_is_behind(tmp_path: Path) -> None:
    found: dict[str, list[int]] = {}
    with (
        serving(lambda: pair(found)) as fake,
        training(tmp_path, NCCL_RAS_ADDR=fake.address) as launcher,
    ):
        found["pids"] = pids(launcher)
        message = first_message(tmp_path)
    node = os.uname().nodename
    assert re.sub(r"for \d+s", "for 22m", _fact(message)) == (
        f"stalled for 22m; rank 1 (node {node}, GPU 1) is behind: it has not entered AllReduce 1139"
    )
    assert f"NCCL: rank 1 (node {node}, GPU 1) is behind" in message.body
    assert re.search(rf"last output[^\n]*: {tmp_path}/train.log\n", message.body)
    assert 'to have them taken at once next time: on_hang = ["stacks"] under [runs.glide]' in message.body
    assert fake.heard.count("verbose status") == 2  # what moves meanwhile accuses nobody
    assert set(fake.heard) == {"timeout 2", "verbose status"}


def _fact(message: Message) -> str:
    """The fact, whole; the first line names whom it accuses before a phone cuts it."""
    assert len(message.headline) <= 100
    assert 0 < message.headline.find("; rank ") < 60
    return (message.line or message.headline).partition(": ")[2]


def test_counts_that_grow_accuse_nobody(tmp_path: Path) -> None:
    found: dict[str, list[int]] = {}
    asked: list[str] = []

    def says() -> str:
        asked.append("")
        return pair(found).replace("1139", str(1139 + len(asked)))

    with serving(says) as fake, training(tmp_path, NCCL_RAS_ADDR=fake.address) as launcher:
        found["pids"] = pids(launcher)
        message = first_message(tmp_path, 'on_hang = ["stacks"]')
    assert message.headline.startswith("[CRITICAL] glide: stalled, no output for ")
    assert "NCCL: its operation counts still grow" in message.body
    assert "to have them taken" not in message.body


def test_another_jobs_ras_is_not_believed(tmp_path: Path) -> None:
    """It listens on the port of ours, and speaks of processes that are none of this run's."""
    lines = [f"Rank {at} has launched up to operation {at} -- {gpu(0, at, '127.0.0.1')}" for at in (1, 2)]
    theirs = text(mismatch(lines), 2)
    with serving(lambda: theirs) as fake, training(tmp_path, NCCL_RAS_ADDR=fake.address):
        message = first_message(tmp_path)
    assert fake.heard
    assert "NCCL" not in message.headline + message.body


def test_a_rank_that_is_stopped_is_named(tmp_path: Path) -> None:
    """Its RAS takes calls, and answers none."""
    with serving(lambda: None) as fake, training(tmp_path, NCCL_RAS_ADDR=fake.address) as launcher:
        stopped = psutil.Process(pids(launcher)[2])
        stopped.suspend()
        began = time.monotonic()
        message = first_message(tmp_path)
        assert time.monotonic() - began < 2 * AT_ONCE
        advice = message.body.partition("What you can do:\n")[2].splitlines()
        assert advice[0].startswith("To let it go on, on ")
        assert stopped.status() == psutil.STATUS_STOPPED
        subprocess.run(advice[1].split(), check=True)
        wait_until(lambda: stopped.status() != psutil.STATUS_STOPPED, 10, "it goes on")
    assert "watchdogd stacks" not in message.body, "a stopped process shows no stack"
    assert f"; rank 2 (node {os.uname().nodename}, pid " in _fact(message)
    assert _fact(message).endswith(") is stopped by a signal")


def test_a_rank_that_is_gone_is_named(tmp_path: Path) -> None:
    with training(tmp_path) as launcher:
        psutil.Process(pids(launcher)[1]).kill()
        message = first_message(tmp_path)
    assert _fact(message).endswith(f"; rank 1 (node {os.uname().nodename}) has no process any more")


def test_what_the_guards_of_all_ranks_write(tmp_path: Path) -> None:
    """Only rank 0 beats; the others write when they are asked."""
    library = tmp_path / "site-packages" / "torch" / "distributed"
    library.mkdir(parents=True)
    (library / "fake.py").write_text("import time\ndef all_reduce():\n    time.sleep(600)\n")
    home = home_of(tmp_path)
    with training(tmp_path, GUARDED, WATCHDOGD_HOME=str(home.path), PYTHONPATH=str(library)):
        wait_until(lambda: list(home.inbox.glob("glide.beat.*")), 30, "the Guard of rank 0 beats")
        message = first_message(tmp_path)
    assert f"; rank 1 (node {os.uname().nodename}, pid " in _fact(message)
    assert _fact(message).endswith(") is at step 7, the others at 8")
    assert ") stands in next_batch (train.py:5), the others in all_reduce" in message.body


def test_an_inquiry_that_hangs_delays_nothing_beyond_its_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall_inquiry, "_ask_nodes", lambda task, seen: time.sleep(60))
    monkeypatch.setattr(stall_inquiry, "PATIENCE", 0.5)
    with training(tmp_path):
        began = time.monotonic()
        message = first_message(tmp_path)
        assert time.monotonic() - began < 50
    assert message.headline.startswith("[CRITICAL] glide: stalled, no output for ")


def test_an_inquiry_that_fails_takes_nothing_from_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("none of it works")

    for name in ("_ask_nodes", "_ask_guards"):
        monkeypatch.setattr(stall_inquiry, name, fails)
    monkeypatch.setattr("watchdogd.remediation.suspects.merge", fails)
    with training(tmp_path):
        message = first_message(tmp_path)
    assert message.headline.startswith("[CRITICAL] glide: stalled, no output for ")


def test_where_nobody_answers_the_message_is_as_before(tmp_path: Path) -> None:
    with training(tmp_path):
        message = first_message(tmp_path)
    assert message.headline.startswith("[CRITICAL] glide: stalled, no output for ")
    assert "NCCL" not in message.body


def test_of_a_thousand_that_stall_at_once_few_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(stall_inquiry, "_ask_nodes", lambda task, _seen: asked.append(task.record.run))
    monkeypatch.setattr(stall_inquiry, "_has_guards", lambda _task: False)
    monkeypatch.setattr(stall_inquiry, "_named", lambda stall, *_: stall.event)
    stalls: list[Any] = [
        SimpleNamespace(
            event=object(),
            task=SimpleNamespace(
                record=SimpleNamespace(run=f"run-{number}"), queue=(SimpleNamespace(working=True),)
            ),
        )
        for number in range(1000)
    ]
    assert stall_inquiry.with_evidence(stalls, [each.event for each in stalls]) == tuple(
        each.event for each in stalls
    )
    assert sorted(asked) == [f"run-{number}" for number in range(stall_inquiry.MOST)]
