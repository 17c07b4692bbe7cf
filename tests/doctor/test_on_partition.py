"""What a node that does not see home says by an exit code, without a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from watchdogd.doctor.diagnosis import BROKEN
from watchdogd.doctor.on_partition import job_script, judge_exit

HOME, PYTHON = Path("/lab/home"), "/lab/venv/bin/python"


@pytest.mark.parametrize("code", [0, 1, 2, 32, 64, 78, 127])
def test_what_the_doctor_itself_exits_with_tells_of_no_blindness(code: int) -> None:
    assert not list(judge_exit(code, "node1", HOME, PYTHON))


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        (33, ["home"]),
        (34, ["home"]),
        (36, ["Python"]),
        (37, ["home", "Python"]),
        (41, ["home", "Slurm"]),
        (61, ["home", "Python", "Slurm", "sbatch"]),
    ],
)
def test_each_thing_that_is_missing_is_named_with_its_fix(code: int, broken: list[str]) -> None:
    found = list(judge_exit(code, "node1", HOME, PYTHON))
    assert [each.topic for each in found if each.state == BROKEN] == broken
    assert all(each.fix for each in found if each.state == BROKEN)
    assert all("node1" in each.text for each in found)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder of commands: all that a node has."""
    for name in ("squeue", "sbatch", "python"):
        tool(tmp_path, name, "exit 0")
    return tmp_path


def tool(folder: Path, name: str, does: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{does}\n")
    (folder / name).chmod(0o755)


def ran(node: Path, home: Path) -> int:
    said, wrong = node / "logs of it" / "said", node / "wrong"
    text = job_script(home, str(node / "python"), said, wrong, ["--comment=it's mine", "--partition=small"])
    env = {"PATH": f"{node}:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
    return subprocess.run(["bash", "-c", text], env=env, capture_output=True, timeout=60).returncode


def test_the_job_says_what_its_node_lacks(node: Path) -> None:
    (node / "logs of it").mkdir()
    assert ran(node, node) == 0
    tool(node, "python", 'case "$*" in *doctor*) exit 2;; esac')
    assert ran(node, node) == 2, "the doctor's own exit code"
    assert ran(node, node / "nowhere") == 33
    tool(node, "python", "exit 1")
    assert ran(node, node) == 36
    tool(node, "squeue", "exit 1")
    tool(node, "sbatch", f'printf "%s\\n" "$@" > {node}/asked; exit 1')
    assert ran(node, node / "nowhere") == 61
    assert (node / "asked").read_text().splitlines() == [
        "--test-only",
        "--comment=it's mine",
        "--partition=small",
    ]


def test_a_home_that_cannot_be_written(node: Path) -> None:
    assert ran(node, node) == 34, "its folder of logs is not there"
