"""faulthandler's stacks, written by a real Guard, and found in a log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.processes import started
from tests.waiting import wait_until
from watchdogd.parsers import faulthandler
from watchdogd.parsers.stack_models import Frame

LOG = """step 41
Fatal Python error: none_dealloc: deallocating None      \x20
Python runtime state: initialized

Thread 0x00007fca50000640 (most recent call first):      \x20
<no Python frame>

Current thread 0x00007fca60000640 [worker] (most recent call first):
  File "/opt/env/lib/python3.11/site-packages/torch/cuda/__init__.py", line 77 in synchronize
  File "/home/alice/train.py", line ??? in train
  ...

Extension modules: numpy.core (total: 1)
  File "/not/of/this", line 1 in trace
"""
TRAINING = """
import sys, time
from watchdogd.training import Guard
guard = Guard("run-17", home=sys.argv[1])
def next_batch():
    print("ready", flush=True), time.sleep(60)
next_batch()
"""


def test_what_python_writes() -> None:
    other, main = faulthandler.read(LOG)
    assert (other.name, other.frames) == ("", ())
    assert main.name == "MainThread"
    path = "/opt/env/lib/python3.11/site-packages/torch/cuda/__init__.py"
    assert main.frames == (
        Frame("synchronize", "torch/cuda/__init__.py", 77, path),
        Frame("train", "train.py", None, "/home/alice/train.py"),
    )


@pytest.mark.parametrize(
    "text",
    ["", "{}\n", "[]\n", "x\n", '{"run": "run-17", "pid": "?"}\n', 'Thread 0x  File 0012"/a/b", line  ('],
)
def test_what_is_none(text: str) -> None:
    assert faulthandler.handed(text) is None
    assert faulthandler.read(text) == ()


@pytest.mark.slow
def test_what_a_guard_writes(tmp_path: Path) -> None:
    for name in ("switches", "inbox"):
        (tmp_path / name).mkdir()
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    words, env = [sys.executable, str(script), str(tmp_path)], {**os.environ, "RANK": "40"}
    with started(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            (tmp_path / "inbox/run-17.stacks-request").touch()
            written = tmp_path / "inbox"
            path = wait_until(
                lambda: list(written.glob("run-17.stacks.*.txt")), 60, "stacks are there"
            ).value[0]
            handed = faulthandler.handed(path.read_text())
        finally:
            process.kill()
    assert handed is not None
    assert (handed.run, handed.rank, handed.dump.pid) == ("run-17", 40, process.pid)
    assert handed.dump.main is not None
    assert str(handed.dump.main.frames[0]) == "next_batch (train.py:6)"
