"""The real Slurm that other tests build on: it must be what they believe, and leave nothing behind."""

import os
import stat
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cluster import Cluster
from tests.lab import folders, processes

FOREVER = "sleep 3600"


def runs(slurm: Cluster, user: str, script: str, *options: str) -> str:
    """A job that is running."""
    job_id = slurm.sbatch(user, script, *options)
    slurm.wait_for_state(job_id, "RUNNING")
    return job_id


def test_nothing_of_the_machine_s_own_slurm_is_used(slurm: Cluster) -> None:
    for process in processes.belonging_to(slurm.folder):
        files = [Path(file.path) for file in process.open_files() if "w" in file.mode or "a" in file.mode]
        assert [file for file in files if not file.is_relative_to(slurm.folder)] == []
    munge = subprocess.run(["munge", "-n", "-S", slurm.folder / "munge/socket"], capture_output=True)
    assert munge.stdout.startswith(b"MUNGE:")


def test_their_environment_is_clean(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("WATCHDOGD_HOME", "/nowhere")
    said = slurm.run_as("alice", ["env"], env={"EXTRA": "1"}).stdout.splitlines()
    got = dict(line.split("=", 1) for line in said)
    assert set(got) == {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "SLURM_CONF", "EXTRA"}
    assert (got["USER"], got["HOME"], got["SLURM_CONF"]) == (
        "alice",
        str(slurm.home("alice")),
        str(slurm.conf),
    )


def test_everything_a_test_left_is_put_right(slurm: Cluster) -> None:
    stubborn = runs(slurm, "alice", "trap '' TERM\nsetsid sleep 3601 &\nwhile true; do sleep 1; done")
    slurm.sbatch("bob", FOREVER, "--array=1-20%1", "--partition=gpu")
    slurm.sbatch("bob", FOREVER, f"--dependency=afterok:{stubborn}")
    program = slurm.popen_as("bob", ["sleep", "3602"])
    argv = ["setsid", "--fork", "env", "-i", "sleep", "3603"]
    slurm.run_as("alice", ["sh", "-c", f"{' '.join(argv)} >/dev/null 2>&1"])
    slurm.run_as("alice", ["touch", ".watchdogd"])
    scratch = slurm.new_folder()
    slurm.drain("node2")
    slurm.kill_slurmd("node3")
    slurm.stop_dbd()
    slurm.stop_controller()

    slurm.restore()

    assert slurm.squeue() == []
    assert {slurm.node_state(node) for node in slurm.nodes} == {"idle"}
    assert program.returncode == -9
    assert list(slurm.home("alice").iterdir()) == []
    assert stat.S_IMODE(slurm.home("alice").stat().st_mode) == 0o700
    assert not scratch.exists()
    assert slurm.run_as("alice", ["sacct", "-n"]).returncode == 0
    left = [process for process in processes.belonging_to(slurm.folder) if process.uids().real]
    assert {process.name() for process in left} <= {"munged", "mariadbd"}


def test_what_killed_tests_left_is_swept(cluster: Cluster) -> None:
    with folders.one_at_a_time():
        folder, lock = folders.create()
        os.close(lock)
    env = {"SLURM_CONF": str(folder / "slurm.conf")}
    left = psutil.Popen(["setsid", "sleep", "3604"], env=env)
    with folders.one_at_a_time():
        folders.sweep()
    assert left.wait(240) == -9
    assert not folder.exists()
    assert cluster.folder.exists()


def test_a_verb_that_is_forked_is_as_one_that_comes_up(slurm: Cluster) -> None:
    for words in (["--version"], ["status"], ["init", "--home", "made"], ["no-such-verb"]):
        said = [
            slurm.run_as("bob", [program, *words], check=False) for program in (slurm.watchdogd, slurm.typed)
        ]
        real, forked = ((done.returncode, done.stdout, done.stderr) for done in said)
        assert forked == real or words[0] == "init"
    made = slurm.home("bob") / "made"
    assert (made.owner(), stat.S_IMODE(made.stat().st_mode)) == ("bob", 0o700)


def test_missing_packages_fail_in_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AssertionError, match=r"needs munged, .*: apt-get install -y .*slurmdbd") as failure:
        Cluster().__enter__()
    assert "\n" not in str(failure.value)
