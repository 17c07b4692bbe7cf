"""`watchdogd gpus` of a run that is a plain process: once, as JSON, in a pipe, and live in a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.processes import started
from tests.parsers.gpu_samples import sample
from tests.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with a run that lives, beside a fake nvidia-smi."""
    home = tmp_path / "home"
    tool = tmp_path / "nvidia-smi"
    (tmp_path / "answer").write_text(sample("nvidia-table.txt"))
    tool.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    tool.chmod(0o755)
    subprocess.run([*WATCHDOGD, "--home", home, "init"], check=True, capture_output=True)
    training = subprocess.Popen(["sleep", "600"])
    (home / "train.pid").write_text(str(training.pid))
    (home / "config.toml").write_text('[runs.run-17]\npid_file = "train.pid"\n')
    yield home
    training.kill()
    training.wait(240)


WATCHDOGD = (sys.executable, "-m", "watchdogd")


def argv(home: Path, *words: str) -> list[str]:
    return [*WATCHDOGD, "--home", str(home), "gpus", *words]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{home.parent}:/usr/bin:/bin", "TERM": "xterm"}


def gpus(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv(home, *words), env=environment(home), capture_output=True, text=True, timeout=300
    )


def test_a_table_of_all_gpus(home: Path) -> None:
    done = gpus(home, "run-17")
    assert done.returncode == 0
    title, header, *rows = done.stdout.splitlines()
    assert title.startswith("run-17: job ")
    assert header.split() == ["node", "GPU", "use", "power", "temp", "memory", "ECC", "name"]
    assert len(rows) == 4
    assert "122 W / 700 W" in rows[0]
    assert rows[2].rstrip().endswith("ERR!")
    assert "fan: ERR!" in rows[3]


def test_json_has_all_that_is_known(home: Path) -> None:
    first, *_, last = json.loads(gpus(home, "run-17", "--json").stdout)
    assert (first["gpu"], first["utilisation"], first["power_w"]) == ("gpu0", 100.0, 122.0)
    assert last["doubts"] == ["fan: ERR!"]


def test_nothing_to_show_is_one_line(home: Path) -> None:
    (home.parent / "answer").write_text("Failed to initialize NVML: Unknown Error\n")
    done = gpus(home, "run-17")
    assert (done.returncode, done.stderr) == (1, "")
    assert "Failed to initialize NVML" in done.stdout
    (home / "train.pid").unlink()
    done = gpus(home, "run-17")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "there is no run 'run-71'" in gpus(home, "run-71").stderr


def test_watch_in_a_pipe_prints_one_table_after_the_other(home: Path) -> None:
    with started(
        argv(home, "run-17", "--watch", "--every", "1s"),
        env={**environment(home), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        assert watching.stdout is not None
        titles = 0
        while titles < 2:
            line = watching.stdout.readline()
            assert line, "it goes on until it is stopped"
            titles += line.startswith("run-17: job ")
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
        assert watching.wait(240) == 130


def test_watch_in_a_terminal_follows_what_changes(home: Path) -> None:
    leader, follower = pty.openpty()
    watching = subprocess.Popen(
        argv(home, "run-17", "--watch", "--every", "1s"),
        env={**environment(home), "COLUMNS": "200", "LINES": "40"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    os.set_blocking(leader, False)
    seen = bytearray()

    def shows(words: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            seen.extend(os.read(leader, 65536))
        return words in seen

    try:
        wait_until(lambda: shows(b"122 W / 700 W"), 30, "the table is shown")
        (home.parent / "answer").write_text(sample("nvidia-table.txt").replace(" 122W", " 699W"))
        wait_until(lambda: shows(b"699 W / 700 W"), 30, "the new figures are shown")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(240) == 130
    finally:
        watching.kill()
        watching.wait(240)
        os.close(leader)
