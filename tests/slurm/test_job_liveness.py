"""job_liveness on a real Slurm: a run that is stopped by its switch, fails, and comes back."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.plugins.words import commands_of, text_of
from tests.waiting import wait_until
from watchdogd.batch import slurm_snapshot
from watchdogd.plugin import Plugin, Result, Run, Status
from watchdogd.plugins.job_liveness.check import job_liveness

LIVENESS: Plugin = job_liveness
NAME = "tr11-176B-ml"
QUIET = "--output=/dev/null"
RUNS_OUT = "echo '[rank12]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB' >&2; exit 3"
OBEDIENT = "while [ ! -e {switch} ]; do sleep 0.1; done"


class Watch:
    """Rounds of the check, each with a look of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.switch = cluster.new_folder() / "kill-switch"
        self.run = Run("run-17", NAME, kill_switch=str(self.switch), users=frozenset({"alice", "bob"}))
        self.memory: dict[str, Any] = {}
        self.wanted: dict[str, Any] = {}
        self.known: Mapping[str, float] = {}
        self.notices: list[str] = []
        self.statuses: list[Status] = []

    def look(self) -> Result:
        """The result about the run itself."""
        now = time.time()
        seen = slurm_snapshot.look([NAME], self.run.users, self.known, 20.0, now)
        self.known = seen.known
        memory = json.loads(json.dumps(self.memory))
        parameters = {name: each.default for name, each in LIVENESS.parameters.items()} | self.wanted
        injected = {"run": self.run, "snapshot": seen, "memory": memory, "now": now}
        first, *others = LIVENESS.results(parameters, injected)
        self.memory = memory
        self.notices += [text_of(result) for result in others if result.notice]
        self.statuses.append(first.status)
        return first

    def until(self, *words: str, seconds: float = 60.0) -> Result:
        """Round after round until the summary holds all `words`."""

        def said() -> Result | None:
            result = self.look()
            return result if all(word in text_of(result) for word in words) else None

        return wait_until(said, seconds, f"job_liveness says {words}", every=0.5).value


@pytest.fixture
def watch(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Watch:
    for key, value in slurm.env.items():
        monkeypatch.setenv(key, value)
    return Watch(slurm)


def submit(slurm: Cluster, script: str, *options: str) -> str:
    return slurm.sbatch("alice", script, QUIET, f"--job-name={NAME}", *options)


def test_stopped_by_the_switch_then_failed_then_back(slurm: Cluster, watch: Watch) -> None:
    array = submit(slurm, OBEDIENT.format(switch=watch.switch), "--array=1-3%1")
    running = watch.until(f"job {array}_1 runs for", "2 waiting")
    assert running.status is Status.OK
    touch = {
        "run": "run-17",
        "switch": "kill",
        "by": "bob",
        "at": time.time(),
        "reason": "wrong learning rate",
    }
    watch.switch.write_text(json.dumps(touch) + "\n")
    stopped = watch.until(
        "stopped on request by root (the file says bob): wrong learning rate", "kill switch set at "
    )
    assert stopped.status is Status.WARNING
    watch.switch.unlink()
    cleared = watch.until("the kill switch is cleared")
    assert (cleared.status, cleared.quiet) == (Status.OK, True)
    assert Status.CRITICAL not in watch.statuses

    failed = submit(slurm, RUNS_OUT, f"--error={slurm.home('alice')}/%j.err")
    cause = ": GPU out of memory on rank 12, node "
    gone = watch.until(f"job {failed} FAILED (exit 3) after ", cause)
    assert gone.status is Status.CRITICAL
    watch.look()

    back = submit(slurm, "exec sleep 3600")
    assert watch.until(f"job {back} runs for").status is Status.OK
    assert watch.notices == []


def test_a_task_that_fails_and_the_next_that_takes_over(slurm: Cluster, watch: Watch) -> None:
    script = "[ $SLURM_ARRAY_TASK_ID = 2 ] && exec sleep 3600; sleep 3; exit 5"
    array = submit(slurm, script, "--array=1-3%1")
    watch.until(f"job {array}_1 runs for")
    watch.until(f"job {array}_2 runs for")
    wait_until(lambda: watch.look() and watch.notices, 30, "the restart is told")
    assert len(watch.notices) == 1
    assert watch.notices[0].startswith(f"job {array}_1 FAILED (exit 5) after")
    over, between = f"went on as job {array}_2\n1 job is", f"goes on as job {array}_[2-3%1]\n2 jobs are"
    assert over in watch.notices[0] or between in watch.notices[0]


def test_held_by_its_user_and_released_as_told(slurm: Cluster, watch: Watch) -> None:
    submit(slurm, "exec sleep 3600", "--hold", "--array=1-4%1")
    held = watch.until("held by its user, waits until it is released", "(JobHeldUser, alice)")
    assert held.status is Status.WARNING
    (mend,) = commands_of(held)
    assert mend.startswith("scontrol release ")
    slurm.run_as("alice", ["bash", "-c", mend])
    watch.until("runs for", "3 waiting")


def test_a_requeue_after_a_node_failure_is_told_with_it(slurm: Cluster, watch: Watch) -> None:
    job_id = submit(slurm, "exec sleep 3600", "--requeue", "--partition=gpu")
    running = watch.until(f"job {job_id} runs for", " on node")
    node = running.summary.partition(" on ")[2].partition(",")[0]
    slurm.down(node)
    wait_until(lambda: watch.look() and watch.notices, 60, "the requeue is told")
    assert watch.notices[0].startswith(f"job {job_id} was requeued after ")
    assert f": NODE_FAIL of {node}, waits" in watch.notices[0]
    assert f"it ran on {node}" in watch.notices[0]
    watch.until("waits for", "(BeginTime)")
    assert len(watch.notices) == 1
    assert Status.CRITICAL not in watch.statuses


def test_a_killed_controller_is_no_gone_run_and_a_dead_node_is_its_end(slurm: Cluster, watch: Watch) -> None:
    job_id = submit(slurm, "exec sleep 3600", "--no-requeue", "--partition=gpu")
    running = watch.until(f"job {job_id} runs for", " on node")
    node = running.summary.partition(" on ")[2].partition(",")[0]
    slurm.run_as("root", ["scontrol", "update", f"JobId={job_id}", "Comment=has-been-saved"])
    spool = (
        slurm.folder / "state" / "job_state"
    )  # written behind: what came since is lost with the controller
    wait_until(lambda: b"has-been-saved" in spool.read_bytes(), 60, "slurmctld saved its jobs")
    slurm.kill_controller()
    assert watch.look().status is Status.UNKNOWN
    slurm.start_controller()
    watch.until(f"job {job_id} runs for")
    assert Status.CRITICAL not in watch.statuses
    watch.wanted["absent_after"] = 3600.0  # not waited for: accounting knows at once
    slurm.down(node)
    gone = watch.until(f"job {job_id} NODE_FAIL after ")
    assert gone.status is Status.CRITICAL
    assert f" on {node}" in text_of(gone)
    assert watch.notices == []
