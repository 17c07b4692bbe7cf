"""What hangs in the kernel is told once: by the check that asked for it, else by the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from watchdogd.batch.models import Snapshot
from watchdogd.config.models import Config
from watchdogd.daemon.dependency_probes import DependencyWatch
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import Snapshots
from watchdogd.daemon.workers.worker_pool import UnkillableProcesses, WorkerPool
from watchdogd.daemon.workers.worker_protocol import Reply
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState, Observation
from watchdogd.plugin import Result, Status, critical, ok, unknown

NOW = 1_790_000_000.0
GPUS = "run-17/gpu_health"
HANGS = unknown("the check did not answer within 30 s, and cannot be killed: it hangs in the kernel")


class Pool:
    """Workers of which some hang; what they are asked is kept."""

    def __init__(self, *keys: str, place: str = "") -> None:
        self.stuck = [UnkillableProcesses(key, 7, NOW, 1.0, place) for key in keys]
        self.outstanding = frozenset(keys)

    def submit(self, calls: Any) -> None:
        """Nobody answers."""


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    run = {"backend": "slurm", "gpus_per_node": 8, "log": str(tmp_path / "train.log")}
    return Setup.of(Config.model_validate({"runs": {"run-17": run}}), Home(tmp_path))


def told_by_the_daemon(setup: Setup, key: str, latest: dict[str, tuple[Observation, ...]]) -> bool:
    footing = DependencyWatch(cast("WorkerPool", Pool(key)), latest, lambda: NOW)
    footing.begin(setup, AlertState(), NOW)
    return bool(footing.stuck()[1])


@pytest.mark.parametrize(
    ("key", "said", "by_the_daemon"),
    [
        (GPUS, HANGS, False),
        (GPUS, critical("node5: 1 GPU missing"), False),
        (GPUS, ok("8 GPUs"), True),
        ("run-17/no-more", HANGS, True),
        ("evidence", None, True),
    ],
)
def test_its_own_check_tells_it_where_it_says_something_bad(
    setup: Setup, key: str, said: Result | None, by_the_daemon: bool
) -> None:
    seen = (Observation(key, "run-17", "run-17", said, NOW),) if said else ()
    assert told_by_the_daemon(setup, key, {key: seen}) is by_the_daemon


@pytest.mark.parametrize("trouble", ["", "squeue did not answer within 30 s"])
def test_a_look_at_the_queue_that_hangs_is_told_as_a_silent_batch_system(setup: Setup, trouble: str) -> None:
    footing = DependencyWatch(cast("WorkerPool", Pool("look at slurm")), {}, lambda: NOW)
    footing.begin(setup, AlertState(), NOW)
    footing.queue(Snapshot(NOW, jobs=None if trouble else (), trouble=trouble))
    assert bool(footing.stuck()[1]) is not bool(trouble)


def test_while_its_file_system_is_asked_nobody_tells_it(setup: Setup) -> None:
    log: Check = next(check for check in setup.checks if check.name == "run-17/log_staleness")
    footing = DependencyWatch(cast("WorkerPool", Pool(log.name)), {}, lambda: NOW)
    footing.begin(setup, AlertState(), NOW)
    seen = Observation(
        log.name, "run-17", "run-17", Result(HANGS.status, HANGS.summary, unanswered=True), NOW
    )
    assert footing.confirmed(log, (seen,)) == ()
    assert footing.stuck()[1] == []


def test_a_look_that_hangs_in_the_kernel_is_not_begun_again_on_top(setup: Setup) -> None:
    checks, snapshots = setup.checks, Snapshots()
    [call] = snapshots.calls(checks, checks, setup.config, NOW)
    late = Reply(call.key, trouble="did not answer within 60 s, and cannot be killed", late=True)
    assert snapshots.take(late, NOW)
    assert snapshots.calls(checks, checks, setup.config, NOW + 600, outstanding={call.key}) == []
    assert not any(snapshots.waits(check) for check in checks)
    assert [each.key for each in snapshots.calls(checks, checks, setup.config, NOW + 601)] == [call.key]


def test_what_it_came_to_holds_on_meanwhile(setup: Setup) -> None:
    later = [NOW]
    footing = DependencyWatch(cast("WorkerPool", Pool("look at slurm")), {}, lambda: later[-1])
    footing.begin(setup, AlertState(), NOW)
    footing.queue(Snapshot(NOW, trouble="squeue did not answer within 30 s"))
    assert footing.stuck()[0] == []
    later.append(NOW + 2 * setup.config.daemon.interval)
    assert [(seen.check, seen.at) for seen in footing.stuck()[0]] == [("watchdogd/slurm", later[-1])]


def test_a_look_of_which_a_command_hangs_is_no_look_that_could_be_believed_for_long(setup: Setup) -> None:
    snapshots = Snapshots()
    [call] = snapshots.calls(setup.checks, setup.checks, setup.config, NOW)
    seen = snapshots.take(Reply(call.key, Snapshot(NOW, jobs=()), hang="cannot be killed"), NOW)
    assert seen
    assert (seen.jobs, seen.trouble) == (None, "one of its commands cannot be killed")


def test_a_drop_in_that_hangs_on_a_file_system_of_ours_waits_for_it_and_then_follows_it(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.make()
    script = tmp_path / "cron.hourly" / "list"
    script.parent.mkdir(mode=0o700, exist_ok=True)
    script.write_text("#!/bin/sh\nls /proc/self\n")
    script.chmod(0o700)
    disk = {"path": "/proc/self", "quota": "statvfs"}
    setup = Setup.of(Config.model_validate({"disks": {"d": disk}}), home)
    dropin: Check = next(check for check in setup.checks if check.name == "cron.hourly/list")
    (dependency,) = (each for each in setup.files.values() if each.point == "/proc")
    seen = Observation(dropin.name, "", dropin.name, unknown("did not end within 30s, and was stopped"), NOW)

    pool = Pool(dropin.name, place="/proc/self/stat")
    footing = DependencyWatch(cast("WorkerPool", pool), {}, lambda: NOW)
    footing.begin(setup, AlertState(), NOW)
    assert footing.confirmed(dropin, (seen,)) == (), "the file system is asked first"
    assert footing.settled() == {}
    footing.take(Reply(dependency.name, late=True))
    assert footing.settled() == {dropin.name: (seen,)}
    assert footing.policies()[dropin.name].follows == (dependency.name,)
    pool.stuck = []
    assert footing.policies() == setup.policies
    assert footing.confirmed(dropin, (seen,)) == (seen,)

    elsewhere = DependencyWatch(cast("WorkerPool", Pool(dropin.name, place="/sys/kernel")), {}, lambda: NOW)
    elsewhere.begin(setup, AlertState(), NOW)
    assert elsewhere.confirmed(dropin, (seen,)) == (seen,), "of which nobody else would tell"


def test_a_doubt_that_is_refuted_in_the_same_round_is_none(setup: Setup) -> None:
    footing = DependencyWatch(cast("WorkerPool", Pool()), {}, lambda: NOW)
    footing.begin(setup, AlertState(), NOW)
    check = next(each for each in setup.checks if set(each.follows) & set(setup.files))
    dependency = next(name for name in check.follows if name in setup.files)
    nothing = Result(Status.CRITICAL, "it is missing", unanswered=True)
    assert footing.confirmed(check, (Observation(check.name, "", "", nothing, NOW),)) == ()
    answer = footing.take(Reply(dependency, ""))
    assert answer is not None
    assert answer.result.status is Status.OK
    assert footing.doubts() == []
    assert list(footing.settled()) == [check.name]
