"""What each check is given of one look at a batch system."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.history.values import new_home
from tests.memory import memory_of
from watchdogd.batch.models import Job, Snapshot
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import Snapshots
from watchdogd.daemon.workers.worker_protocol import Reply
from watchdogd.plugins.job_liveness.job_history import JobHistory, ObservedJob
from watchdogd.system.account import user_name


def test_the_checks_of_a_run_share_what_a_look_says_of_it(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    home.write(
        home.config,
        "".join(
            f'[runs.{name}]\nbackend = "process"\npid_file = "/p"\nlog = "/l"\n' for name in ("ada", "bea")
        ),
    )
    asking = [check for check in Setup.load(home).checks if "snapshot" in check.entry.wants]
    ada = [check for check in asking if check.run_name == "ada"]
    bea = next(check for check in asking if check.run_name == "bea")
    assert len(ada) > 1
    jobs = tuple(Job(name, name, name, "cy", "RUNNING") for name in ("ada", "bea"))
    snapshots = Snapshots()
    for at, present in ((1.0, jobs), (2.0, jobs[1:])):
        snapshots.take(Reply("look at process", Snapshot(at, present, backend="process")), at)
        given = [snapshots.snapshot(check) for check in ada]
        assert all(each is given[0] for each in given)
        assert given[0] is not None
        assert given[0].taken_at == at
        assert given[0].jobs == present[:-1]
        theirs = snapshots.snapshot(bea)
        assert theirs is not None
        assert theirs.jobs == jobs[1:]
        assert given[0].running == theirs.running == {(job.id, job.raw_id) for job in present}  # whosever


def test_the_first_look_knows_what_lived_at_the_last_one_of_the_daemon_before(tmp_path: Path) -> None:
    """And a job that was renamed is given to all checks, each of which knows whether it was its run's."""
    home = new_home(tmp_path)
    home.write(
        home.config, '[runs.ada]\nbackend = "slurm"\n[runs.pid]\nbackend = "process"\npid_file = "/p"\n'
    )
    setup = Setup.load(home)
    liveness = {check.run_name: check for check in setup.checks if check.name.endswith("/job_liveness")}
    lives = {
        "ada/job_liveness": {"71": ObservedJob("71", "RUNNING", 5.0, 9.0)},
        "pid/job_liveness": {"4711": ObservedJob("4711", "RUNNING", 5.0, 9.0)},
    }
    memories = {
        name: json.dumps(memory_of(JobHistory(0.0, 0.0, observed=each))) for name, each in lives.items()
    }
    snapshots = Snapshots(memories.__getitem__)
    (call,) = snapshots.calls([liveness["ada"]], setup.checks, setup.config, 10.0)
    assert call.parameters["known"] == {"71": 9.0}
    (call,) = Snapshots().calls([liveness["pid"]], setup.checks, setup.config, 10.0, {"pid"})
    assert [run.name for run in call.parameters["runs"]] == ["pid"], "it may live though it is finished"
    snapshots.take(Reply("look at slurm", trouble="did not answer"), 10.0)
    (call,) = snapshots.calls([liveness["ada"]], setup.checks, setup.config, 1000.0)
    assert call.parameters["known"] == {"71": 9.0}
    stray = Job("71", "71", "eva", user_name(os.geteuid()), "RUNNING")
    snapshots.take(Reply("look at slurm", Snapshot(1000.0, (stray,), renamed=(stray,))), 1000.0)
    given = snapshots.snapshot(liveness["ada"])
    assert given is not None
    assert (given.jobs, given.renamed) == ((), (stray,))


def test_others_with_a_runs_name_are_looked_for_seldom_and_remembered(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    home.write(home.config, '[runs.ada]\nbackend = "slurm"\n[runs.bea]\nbackend = "slurm"\nuser = "cy"\n')
    setup = Setup.load(home)
    liveness = {check.run_name: check for check in setup.checks if check.name.endswith("/job_liveness")}
    snapshots = Snapshots(uid=4711)
    theirs = Job("7", "7", "ada", "dan", "RUNNING")
    uncounted = Job("8", "8", "bea", "4711", "RUNNING")

    def sought(now: float) -> frozenset[str]:
        (call,) = snapshots.calls(list(liveness.values()), setup.checks, setup.config, now)
        snapshots.take(Reply("look at slurm", trouble="did not answer"), now)
        return frozenset(call.parameters["sought"])

    assert sought(1000.0) == frozenset()
    names = frozenset({"ada", "bea"})
    seen = Snapshot(1060.0, (uncounted,), elsewhere=(theirs,), sought=names, veiled=True)
    snapshots.take(Reply("look at slurm", seen), 1060.0)
    for later in (1120.0, 1180.0):
        given = {name: snapshots.snapshot(check) for name, check in liveness.items()}
        assert {name: each.elsewhere for name, each in given.items() if each} == {
            "ada": (theirs,),
            "bea": (uncounted,),
        }
        snapshots.take(Reply("look at slurm", Snapshot(later, (uncounted,))), later)
    assert sought(1300.0) == names
    assert sought(1400.0) == frozenset()


def test_a_look_for_somebody_else_is_at_his_jobs_and_processes(tmp_path: Path) -> None:
    home = new_home(tmp_path)
    home.write(home.config, '[runs.ada]\nbackend = "slurm"\n[runs.bea]\ncommand = "b"\n')
    setup = Setup.load(home)
    calls = Snapshots(uid=4711).calls(setup.checks, setup.checks, setup.config, 1.0)
    given = {call.key: call.parameters for call in calls}
    assert given["look at slurm"]["users"] == frozenset({"4711"})
    assert given["look at process"]["uid"] == 4711
