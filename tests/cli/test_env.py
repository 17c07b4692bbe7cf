"""env without Slurm: a run of PBS, whose qstat is played here, and a plain process."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.batch.test_qstat import PBS
from tests.lab.processes import started
from watchdogd.cli import main
from watchdogd.doctor import cluster

Says = pytest.CaptureFixture[str]
CONFIG = """
[slurm]
users = ["alice"]
[runs.run-17]
backend = "pbs"
job_name = "tr11-176B-ml"
[runs.here]
pid_file = "train.pid"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("WATCHDOGD_HOME", str(home))
    assert main(["init"]) == 0
    (home / "config.toml").write_text(CONFIG)
    capsys.readouterr()
    return home


def play_qstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    (tmp_path / "qstat").write_text(f"#!/bin/sh\n{does}\n")
    (tmp_path / "qstat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_a_job_of_pbs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says) -> None:
    (tmp_path / "queue").write_text(PBS)
    play_qstat(tmp_path, monkeypatch, f"cat {shlex.quote(str(tmp_path / 'queue'))}")
    assert main(["env", "run-17"]) == 0
    exports = capsys.readouterr().out
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = "$PBS_JOBID $HOSTS $GPUS_PER_HOST $NUM_GPUS $MASTER_ADDR"
    counted = "sort $PBS_NODEFILE | uniq -c | tr -s ' \\n' ' '; echo"
    script = f"{exports}\n{counted}; echo $LAUNCH; echo {words}"
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    files, launch, words = told.splitlines()
    assert files.split() == ["4", "node1", "4", "node2"]
    assert launch == 'mpiexec -n 8 --hostfile "$PBS_NODEFILE"'
    assert words == "4711.batch node1 node2 4 8 node1"
    assert "SLURM" not in exports
    assert main(["env", "run-17", "--hostfile"]) == 0
    assert capsys.readouterr().out == "node1 slots=4\nnode2 slots=4\n"


@pytest.mark.parametrize(
    ("output", "log"),
    [
        ("/home4711/alice/tr11.o4711\n    Keep_Files = doe", "/home4711/alice/tr11.o*"),
        ("/home/alice/tr11.o4711.4711", "/home/alice/tr11.o*"),
        ("/home/alice/tr11.o4711.^array_index^", "/home/alice/tr11.o*"),
        ("/home/alice/tr11.o4711\n    Keep_Files = n", ""),
    ],
)
def test_a_job_of_pbs_is_adopted_where_no_slurm_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says, output: str, log: str
) -> None:
    (home / "config.toml").write_text('[channels.c]\ntype = "console"\n')
    text = PBS.replace("    queue = ", f"    Output_Path = login1:{output}\n    queue = ")
    (tmp_path / "queue").write_text(text)
    play_qstat(tmp_path, monkeypatch, f"cat {shlex.quote(str(tmp_path / 'queue'))}")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "squeue" else which(name))
    assert main(["watch", "4711.batch", "--json"]) == 0
    table = (home / "config.toml").read_text()
    assert 'backend = "pbs"' in table
    assert (f'log = "{log}"' in table) == bool(log)
    assert ("qsub -k doe" in capsys.readouterr().err) == (not log)
    [said] = cluster.look(SimpleNamespace(slurm=False))  # type: ignore[arg-type]
    assert (said.topic, said.text) == ("PBS", "qstat answers")


def test_pbs_that_does_not_answer(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Says
) -> None:
    play_qstat(tmp_path, monkeypatch, "echo 'qstat: cannot connect to server batch' >&2; exit 1")
    assert main(["env", "run-17"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "watchdogd: the queue does not tell where run-17 runs: qstat: cannot connect to server batch\n"
    )


def test_a_process_of_this_machine(home: Path, capsys: Says) -> None:
    assert main(["env", "here"]) == 1
    assert capsys.readouterr().err == (
        "watchdogd: no job of here runs: no process matches its pid_file or command\n"
    )
    with started([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        (home / "train.pid").write_text(str(process.pid))
        code = main(["env", "here", "--json"])
        process.kill()
    told = json.loads(capsys.readouterr().out)
    assert (code, told["JOB_ID"], told["NUM_HOSTS"], told["JOB_END"]) == (0, str(process.pid), "1", "")
