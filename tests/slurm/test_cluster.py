"""The real Slurm that other tests build on: it must be what they believe, and leave nothing behind."""

import grp
import os
import pwd
import stat
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cluster import Cluster
from tests.lab import folders, processes
from tests.waiting import PATIENCE, wait_until

FOREVER = "sleep 3600"


def runs(slurm: Cluster, user: str, script: str, *options: str) -> str:
    """A job that is running."""
    job_id = slurm.sbatch(user, script, *options)
    slurm.wait_for_state(job_id, "RUNNING")
    return job_id


class TestStart:
    def test_it_is_up_soon(self, cluster: Cluster) -> None:
        # 5 on an idle machine; seven processes share two cores here
        assert 0 < cluster.seconds_to_start < 60 * PATIENCE

    def test_nodes_and_partitions(self, slurm: Cluster) -> None:
        lines = slurm.run_as("alice", ["sinfo", "-h", "-o", "%R|%D|%N|%l|%a"]).stdout.splitlines()
        assert sorted(lines) == [
            "gpu|3|node[2-4]|2-00:00:00|up",
            "small|2|node[1,5]|1-00:00:00|up",
        ]
        assert {slurm.node_state(node) for node in slurm.nodes} == {"idle"}
        job_id = runs(slurm, "alice", FOREVER)
        default = slurm.run_as("alice", ["squeue", "-h", "-j", job_id, "-o", "%P"]).stdout
        assert default.strip() == "small"

    def test_accounting_knows_users_and_jobs(self, slurm: Cluster) -> None:
        users = slurm.run_as("root", ["sacctmgr", "-nP", "show", "assoc", "format=user,account"]).stdout
        assert {"alice|lab", "bob|lab"} <= set(users.split())
        job_id = slurm.sbatch("bob", "exit 7", "--output=/dev/null")
        slurm.wait_for_state(job_id, "FAILED")

        def accounted() -> bool:
            argv = ["sacct", "-nXP", "-j", job_id, "-o", "user,state,exitcode"]
            return slurm.run_as("bob", argv).stdout.split() == ["bob|FAILED|7:0"]

        wait_until(accounted, 30.0, "sacct knows how the job ended")

    def test_nothing_of_the_machine_s_own_slurm_is_used(self, slurm: Cluster) -> None:
        for process in processes.belonging_to(slurm.folder):
            files = [Path(file.path) for file in process.open_files() if "w" in file.mode or "a" in file.mode]
            assert [file for file in files if not file.is_relative_to(slurm.folder)] == []
        munge = subprocess.run(["munge", "-n", "-S", slurm.folder / "munge/socket"], capture_output=True)
        assert munge.stdout.startswith(b"MUNGE:")


class TestUsers:
    def test_they_are_real_and_share_a_group(self, slurm: Cluster) -> None:
        for user in ("alice", "bob"):
            assert Path(pwd.getpwnam(user).pw_dir).is_dir()
            assert slurm.run_as(user, ["id", "-un"]).stdout.strip() == user
            assert "six" in slurm.run_as(user, ["id", "-Gn"]).stdout.split()
        assert set(grp.getgrnam("six").gr_mem) >= {"alice", "bob"}

    def test_their_environment_is_clean(self, slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_a_home_is_private_and_scratch_is_not(self, slurm: Cluster) -> None:
        secret = slurm.home("alice") / "secret"
        slurm.run_as("alice", ["touch", secret])
        assert slurm.run_as("bob", ["cat", secret], check=False).returncode == 1
        shared = slurm.new_folder()
        slurm.run_as("alice", ["touch", shared / "a"])
        slurm.run_as("bob", ["touch", shared / "b"])
        assert (shared / "a").owner() == "alice"

    def test_a_user_cannot_cancel_another_s_job(self, slurm: Cluster) -> None:
        job_id = runs(slurm, "alice", FOREVER)
        denied = slurm.run_as("bob", ["scancel", job_id], check=False)
        assert "Access/permission denied" in denied.stderr
        assert slurm.state(job_id) == "RUNNING"

    def test_a_failing_program_is_told_with_all_it_said(self, slurm: Cluster) -> None:
        with pytest.raises(AssertionError, match=r"(?s)alice: sh -c .* ended with 3.*so sorry"):
            slurm.run_as("alice", ["sh", "-c", "echo so sorry >&2; exit 3"])
        with pytest.raises(AssertionError, match=r"bob: sleep 60 did not end"):
            slurm.run_as("bob", ["sleep", "60"], timeout=0.3)

    def test_watchdogd_runs_for_them_from_anywhere(self, slurm: Cluster) -> None:
        ask = "import importlib.metadata as m, watchdogd, sqlalchemy, pydantic; print(m.version('watchdogd'))"
        for user in ("alice", "bob"):
            said = slurm.run_as(user, [slurm.python, "-W", "error", "-c", ask], cwd=Path("/")).stdout
            assert said.strip()
        assert "usage: watchdogd" in slurm.run_as("bob", [slurm.watchdogd, "--help"]).stdout
        job = slurm.sbatch("alice", f"{slurm.python} -c 'import watchdogd.plugins'", "--output=out")
        state = slurm.wait_for_state(job, "COMPLETED", "FAILED")
        assert (state, (slurm.home("alice") / "out").read_text()) == ("COMPLETED", "")
        writable = slurm.run_as(
            "bob", ["find", slurm.python.parents[1], "-writable", "!", "-type", "l"]
        ).stdout
        assert writable == ""


class TestAsking:
    def test_squeue_lists_jobs_of_all_or_one(self, slurm: Cluster) -> None:
        alices = runs(slurm, "alice", FOREVER, "--job-name=tr | ä")
        bobs = slurm.sbatch("bob", FOREVER, "--hold", "--job-name=held")
        assert slurm.squeue("alice") == [f"{alices}|alice|RUNNING|tr | ä"]
        assert sorted(slurm.squeue()) == sorted(
            [f"{alices}|alice|RUNNING|tr | ä", f"{bobs}|bob|PENDING|held"]
        )

    def test_the_state_of_a_job_that_nobody_knows_is_empty(self, slurm: Cluster) -> None:
        assert slurm.state("999999") == ""

    def test_waiting_for_a_state_in_vain_names_the_job(self, slurm: Cluster) -> None:
        job_id = slurm.sbatch("alice", FOREVER, "--hold")
        with pytest.raises(AssertionError, match=f"job {job_id} is RUNNING"):
            slurm.wait_for_state(job_id, "RUNNING", timeout=0.2)

    def test_accounting_answers_when_the_controller_is_away(self, slurm: Cluster) -> None:
        job_id = slurm.sbatch("alice", "true", "--output=/dev/null")
        slurm.wait_for_state(job_id, "COMPLETED")
        argv = ["sacct", "-nXP", "-j", job_id, "-o", "state"]
        wait_until(lambda: "COMPLETED" in slurm.run_as("root", argv).stdout, 30.0, "sacct knows it")
        slurm.stop_controller()
        assert slurm.state(job_id) == "COMPLETED"


class TestBreaking:
    def test_a_job_survives_its_slurmd(self, slurm: Cluster) -> None:
        runs(slurm, "alice", "echo $$ > new; mv new pid\nexec sleep 3600", "--nodelist=node5")
        file = slurm.home("alice") / "pid"
        wait_until(file.exists, 30.0, "the job wrote its id")
        pid = int(file.read_text())
        slurm.kill_slurmd("node5")
        assert psutil.pid_exists(pid)
        slurm.start_slurmd("node5")
        assert slurm.node_state("node5") in {"mixed", "allocated"}
        assert [line.split("|")[2] for line in slurm.squeue()] == ["RUNNING"]

    def test_a_stopped_controller_refuses_and_comes_back_with_its_jobs(self, slurm: Cluster) -> None:
        job_id = runs(slurm, "alice", FOREVER)
        slurm.stop_controller()
        assert slurm.run_as("alice", ["squeue"], check=False).returncode == 1
        slurm.start_controller()
        assert slurm.state(job_id) == "RUNNING"

    def test_a_frozen_controller_lets_squeue_wait(self, slurm: Cluster) -> None:
        slurm.freeze_controller()
        with pytest.raises(AssertionError, match="did not end"):
            slurm.run_as("alice", ["squeue"], timeout=1.0)
        slurm.thaw_controller()
        assert slurm.squeue() == []

    def test_accounting_stops_and_catches_up(self, slurm: Cluster) -> None:
        slurm.stop_dbd()
        assert slurm.run_as("alice", ["sacct"], check=False).returncode == 1
        job_id = slurm.sbatch("alice", "true", "--output=/dev/null")
        slurm.wait_for_state(job_id, "COMPLETED")
        slurm.start_dbd()
        argv = ["sacct", "-nXP", "-j", job_id, "-o", "state"]
        wait_until(lambda: "COMPLETED" in slurm.run_as("root", argv).stdout, 60.0, "sacct caught up")

    def test_a_drained_node_takes_no_job_until_it_is_resumed(self, slurm: Cluster) -> None:
        slurm.drain("node1", "bad fan")
        job_id = slurm.sbatch("alice", FOREVER, "--nodelist=node1")
        assert slurm.node_state("node1") == "idle+drain"
        assert slurm.state(job_id) == "PENDING"
        slurm.resume("node1")
        slurm.wait_for_state(job_id, "RUNNING")


class TestRestore:
    def test_everything_a_test_left_is_put_right(self, slurm: Cluster) -> None:
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

    def test_a_job_that_submits_itself_anew_is_caught(self, slurm: Cluster) -> None:
        runs(slurm, "alice", "trap 'sbatch ~/again' TERM EXIT\ncp $0 ~/again\nsleep 3600 & wait")
        slurm.cancel_all()
        assert slurm.squeue() == []


class TestSecondCluster:
    def test_beside_the_first_with_other_settings_and_nothing_stays(self, slurm: Cluster) -> None:
        with Cluster(
            nodes=2, settings={"MinJobAge": "5"}, lines=["PartitionName=extra Nodes=node2"]
        ) as second:
            shown = second.run_as("alice", ["scontrol", "show", "config"]).stdout
            assert "MinJobAge               = 5 sec" in shown
            partitions = second.run_as("alice", ["sinfo", "-h", "-o", "%R"]).stdout.split()
            assert sorted(partitions) == ["extra", "gpu", "small"]
            runs(second, "alice", f"setsid {FOREVER} &\ntouch started; {FOREVER}")
            wait_until((second.home("alice") / "started").exists, 30.0, "the job runs")
            assert slurm.squeue() == []
            folder, alive = second.folder, processes.belonging_to(second.folder)
            assert {"slurmctld", "slurmd", "slurmstepd", "sleep"} <= {process.name() for process in alive}
        assert not folder.exists()
        assert processes.belonging_to(folder) == []
        assert [process for process in alive if processes.lives(process)] == []
        assert pwd.getpwnam("alice")

    def test_what_killed_tests_left_is_swept(self, cluster: Cluster) -> None:
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


def test_missing_packages_fail_in_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AssertionError, match=r"needs munged, .*: apt-get install -y .*slurmdbd") as failure:
        Cluster().__enter__()
    assert "\n" not in str(failure.value)
