"""One process on every node, with an srun that prints what the real one does, refuses, and hangs.

The messages are those of Slurm 22.05; tests/slurm/test_gpu_health.py asks the real one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import AT_ONCE
from watchdogd.batch import node_steps

# ruff: noqa: E501 - srun's lines stand as they are printed

NODES = ("node5", "node6", "node7")
Srun = Callable[[str], Path]


@pytest.fixture
def srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Srun:
    """Makes an srun of a shell script; returns the file that holds the words of each call."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    calls = tmp_path / "calls"

    def make(script: str) -> Path:
        program = tmp_path / "srun"
        program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n')
        program.chmod(0o755)
        return calls

    return make


def ask(deadline: float = 20.0) -> node_steps.NodeOutputs:
    return node_steps.run_on_nodes("4711", NODES, ["probe", "it"], deadline=deadline)


def test_lines_of_all_nodes_come_mixed_and_are_sorted_out(srun: Srun) -> None:
    calls = srun(
        'test -z "$SLURM_JOB_ID" || exit 9\n'
        "echo '0: @@ node node6'; echo '2: @@ node node5'; echo '0: 1: one'; echo '2: ';"
        "echo ' 1: @@ node node7'; echo '0: two'"
    )
    heard = ask()
    assert heard.texts == {
        "node6": "@@ node node6\n1: one\ntwo",
        "node5": "@@ node node5\n",
        "node7": "@@ node node7",
    }
    assert (heard.silent, heard.denied, heard.trouble) == ({}, False, "")
    words = calls.read_text()
    assert "--jobid=4711 --overlap --nodelist=node5,node6,node7 --nodes=3 --ntasks=3" in words
    assert words.endswith("-- probe it\n")


def test_a_slurm_without_overlap_shares_by_leaving_generic_resources_alone(srun: Srun) -> None:
    calls = srun(
        "case $* in *--overlap*) echo \"srun: unrecognized option '--overlap'\" >&2\n"
        "echo 'Try \"srun --help\" for more information' >&2; exit 1;; esac\n"
        "echo '0: @@ node node5'; echo '1: @@ node node6'; echo '2: @@ node node7'"
    )
    heard = ask()
    assert set(heard.texts) == set(NODES)
    assert [line.split()[1] for line in calls.read_text().splitlines()] == ["--overlap", "--gres=none"]


def test_a_node_on_which_nothing_starts_does_not_take_the_others_with_it(srun: Srun) -> None:
    srun(
        "case $* in *node6*)\n"
        "echo 'srun: error: Task launch for StepId=4711.0 failed on node node6: Communication connection failure' >&2\n"
        "echo 'srun: error: Application launch failed: Communication connection failure' >&2\n"
        "echo 'srun: Job step aborted' >&2; exit 1;; esac\n"
        "echo '0: @@ node node5'; echo '1: @@ node node7'"
    )
    heard = ask()
    assert set(heard.texts) == {"node5", "node7"}
    assert heard.silent == {"node6": "Communication connection failure"}


@pytest.mark.slow
def test_a_node_that_hangs_is_named_after_the_deadline_of_all(srun: Srun) -> None:
    srun("echo '0: @@ node node5'; echo '0: fine'; echo '1: @@ node node6'; sleep 600")
    began = time.monotonic()
    heard = ask(deadline=4.0)
    assert time.monotonic() - began < AT_ONCE
    assert heard.texts == {"node5": "@@ node node5\nfine", "node6": "@@ node node6"}
    assert list(heard.silent) == ["node7"]
    assert "not answer within 4 s" in heard.silent["node7"]


@pytest.mark.slow
def test_nobody_answers(srun: Srun) -> None:
    srun("sleep 600")
    heard = ask(deadline=1.0)
    assert set(heard.silent) == set(NODES)
    assert not heard.trouble


def test_a_node_that_says_nothing(srun: Srun) -> None:
    srun("echo '0: @@ node node5'; echo '2: @@ node node7'")
    assert ask().silent == {"node6": "it said nothing"}


def test_somebody_elses_job(srun: Srun) -> None:
    srun("echo 'srun: error: Unable to create step for job 4711: Access/permission denied' >&2; exit 1")
    heard = ask()
    assert heard.denied
    assert "Access/permission denied" in heard.trouble


def test_slurm_says_no(srun: Srun) -> None:
    srun(
        "echo 'srun: error: Unable to create step for job 4711: Job/step already completing or completed' >&2\n"
        "exit 1"
    )
    heard = ask()
    assert (heard.denied, heard.texts) == (False, {})
    assert "already completing" in heard.trouble


def test_there_is_no_srun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "srun cannot be run" in ask().trouble


@pytest.mark.parametrize("mark", ["\\r", "\\013", "\\034", "\\302\\205", "\\342\\200\\250"])
def test_garbage_of_a_node_hides_no_other_node(srun: Srun, mark: str) -> None:
    """A line ends where srun ended it: what else looks like a line's end may stand before another's label."""
    srun(
        rf"printf '0: @@ node node5\n0: junk{mark}1: and more{mark}2: @@ node node6\n';"
        "echo '1: @@ node node6'; echo '2: Welcome to node7'; echo '2: @@ node node7'; echo '2: 12'"
    )
    heard = ask()
    assert set(heard.texts) == set(NODES)
    assert heard.texts["node6"] == "@@ node node6"
    assert heard.texts["node7"].endswith("12")
    assert not heard.silent
