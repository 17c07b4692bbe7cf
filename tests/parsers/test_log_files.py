"""The glob of a job's log, from sbatch's pattern or from what Slurm made of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdogd.batch.models import Job
from watchdogd.parsers.logs.log_files import find, glob_of, is_anybodys

ONE = Job("48213", "48213", "moe-3b", "ines", "RUNNING", work_dir="/proj/ines", nodes="n[04-05]")
TASK = Job("48300_7", "48307", "sweep", "ines", "RUNNING", array_id="48300", work_dir="/proj/ines")


@pytest.mark.parametrize(
    ("job", "pattern", "glob"),
    [
        (ONE, "/proj/ines/slurm-48213.out", "/proj/ines/slurm-*.out"),
        (ONE, "logs/%x-%j.out", "/proj/ines/logs/moe-3b-*.out"),
        (ONE, "/l/%x.%8j.%N.%u.log", "/l/moe-3b.*.*.ines.log"),
        (ONE, "/l/%J-%n-%s-%t-%b", "/l/*-*-*-*-*"),
        (ONE, "/l/100%%-%j", "/l/100%-*"),
        (ONE, "/l/\\\\%j.log", "/l/%j.log"),
        (ONE, "/l/main.log", "/l/main.log"),
        (ONE, "/l/v48213/148213-482130-0048213.log", "/l/v48213/148213-482130-*.log"),
        (ONE, "/runs/48213/48213.log", "/runs/*/*.log"),
        (ONE, "/runs/48213/%j.log", "/runs/48213/*.log"),
        (TASK, "/l/%A_%4a.out", "/l/*_*.out"),
        (TASK, "/l/48300_7.out", "/l/*.out"),
        (TASK, "/l/48300_0007_7.out", "/l/*_7.out"),
        (TASK, "/l/48307.out", "/l/*.out"),
        (ONE, "/l/[a] $HOME?/%j*", "/l/[[]a] [$]HOME[?]/*[*]"),
        (ONE, "/dev/null", ""),
        (ONE, "", ""),
    ],
)
def test_patterns(job: Job, pattern: str, glob: str) -> None:
    assert glob_of(pattern, job) == glob


def test_a_name_full_of_signs_is_found_again(tmp_path: Path) -> None:
    job = Job("9", "9", "a*[b]?$HOME 'q' \"ü\"", "ines", "RUNNING")
    (tmp_path / f"{job.name}-11.out").write_text("iteration 1\n")
    (tmp_path / "other-11.out").write_text("iteration 1\n")
    pattern = os.path.expandvars(glob_of(f"{tmp_path}/%x-%j.out", job))
    assert [found.path for found in find(pattern)] == [f"{tmp_path}/{job.name}-11.out"]


@pytest.mark.parametrize(
    ("glob", "anybodys"),
    [
        ("/h/slurm-*.out", True),
        ("/h/log-*.txt", True),
        ("/h/train_out.*.ines.log", True),
        ("/h/Job*_stdout", True),
        ("/runs/*/*.log", True),
        ("/h/moe-3b-*.out", False),
        ("/h/ablation-*.out", False),
        ("/h/logistics-*.out", False),
        ("/h/log.txt", False),
    ],
)
def test_a_name_of_common_words_tells_no_run_from_another(glob: str, anybodys: bool) -> None:
    assert is_anybodys(glob, ONE) is anybodys


def test_a_job_that_bears_a_common_word_is_told_by_it() -> None:
    assert not is_anybodys("/h/train-*.out", Job("4", "4", "train", "ines", "RUNNING"))
