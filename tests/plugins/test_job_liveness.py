"""job_liveness as its users meet it: rounds of snapshots as values, a memory that goes through JSON."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import commands_of, text_of
from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.run_models import JobDeed
from watchdogd.plugin import (
    CANCELLED,
    STOPPED,
    SWITCH_LEFT,
    Advice,
    Plugin,
    Progress,
    Recovery,
    Result,
    Run,
    Status,
)
from watchdogd.plugins.job_liveness.check import job_liveness
from watchdogd.system.account import user_name

LIVENESS: Plugin = job_liveness
ME = user_name(os.getuid())
NAME = "tr11-176B-ml"
START = 1_795_800_000.0


def job(raw_id: str = "88", **fields: Any) -> Job:
    """A running job of the run."""
    defaults: dict[str, Any] = {
        "id": raw_id,
        "raw_id": raw_id,
        "name": NAME,
        "user": "alice",
        "state": "RUNNING",
        "nodes": "node[2-3]",
        "node_count": 2,
        "submitted_at": START - 600,
        "started_at": START - 300,
        "ends_at": START + 72000,
        "time_limit": 72300.0,
    }
    return Job(**{**defaults, **fields})


def waiting(raw_id: str = "89", reason: str = "Priority", **fields: Any) -> Job:
    """A waiting job of the run."""
    defaults: dict[str, Any] = {"state": "PENDING", "nodes": "", "started_at": None, "ends_at": None}
    return job(raw_id, **{**defaults, "reason": reason, **fields})


def end(raw_id: str = "88", at: float = START + 60, **fields: Any) -> Ending:
    """The end of a job of the run."""
    defaults: dict[str, Any] = {
        "id": raw_id,
        "raw_id": raw_id,
        "name": NAME,
        "user": "alice",
        "state": "FAILED",
        "exit_code": 3,
        "signal": 0,
        "submitted_at": START - 600,
        "started_at": START - 300,
        "ended_at": at,
        "nodes": "node[2-3]",
    }
    return Ending(**{**defaults, **fields})


class Watch:
    """Rounds of the check: one memory, one switch file, a clock of its own."""

    def __init__(self, folder: Path, **parameters: Any) -> None:
        self.switch = folder / "kill-switch"
        self.run = Run("run-17", NAME, kill_switch=str(self.switch), users=frozenset({"alice", "bob"}))
        self.parameters = {
            name: parameter.default for name, parameter in LIVENESS.parameters.items()
        } | parameters
        self.memory: dict[str, Any] = {}
        self.now = START

    def look(
        self, *jobs: Job, ends: tuple[Ending, ...] | None = (), after: float = 60.0, **fields: Any
    ) -> list[Result]:
        """One round, `after` seconds after the one before."""
        self.now += after
        snapshot = Snapshot(self.now, jobs=jobs, endings=ends, users=self.run.users)
        return self.see(dataclasses.replace(snapshot, **fields))

    def see(self, snapshot: Snapshot) -> list[Result]:
        memory = json.loads(json.dumps(self.memory))
        injected = {"run": self.run, "snapshot": snapshot, "memory": memory, "now": self.now}
        results = LIVENESS.results(self.parameters, injected)
        self.memory = memory
        return results

    def press(self, *, by: str = ME, reason: str = "wrong learning rate", **more: Any) -> None:
        touch = {
            **more,
            "run": "run-17",
            "switch": "kill",
            "by": by,
            "host": "login1",
            "at": self.now,
            "reason": reason,
        }
        with self.switch.open("a") as file:
            file.write(json.dumps(touch) + "\n")


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def the(results: list[Result], subject: str = "") -> Result:
    """The one result of a subject, notices apart."""
    (found,) = [result for result in results if result.subject == subject and not result.notice]
    return found


def notices(results: list[Result]) -> list[str]:
    return [text_of(result) for result in results if result.notice]


# ------------------------------------------------------------------ alive


def test_running_says_where_since_when_and_how_long(watch: Watch) -> None:
    results = watch.look(job(), waiting("88_2", tasks=9))
    result = the(results)
    assert result.status is Status.OK
    for part in ("job 88 runs for 6m", "on node[2-3]", "19h59m left", "9 waiting"):
        assert part in text_of(result)
    assert {name: metric.value for name, metric in result.metrics.items()} == {
        "running": 1,
        "waiting": 9,
        "time_left": 71940,
    }
    assert len(results) == 1


def test_own_jobs_other_names_and_other_users_do_not_count(watch: Watch) -> None:
    others = (job("1", comment="watchdogd:ab"), job("2", name=NAME + " x"), job("3", user="carol"))
    watch.look(*others)
    assert the(watch.look(*others, after=200)).status is Status.WARNING


def test_waiting_normally_is_fine_and_tells_the_estimate(watch: Watch) -> None:
    result = the(watch.look(waiting(start_estimate=START + 7200)))
    assert result.status is Status.OK
    assert "nothing runs, job 89 waits for 11m (Priority)" in text_of(result)
    assert "starts in about 1h59m" in text_of(result)


@pytest.mark.parametrize(
    "reason",
    [
        "JobArrayTaskLimit",
        "Dependency",
        "Resources",
        "QOSMaxJobsPerUserLimit",
        "AssocGrpCpuLimit",
        "AssocGrpCPURunMinutesLimit",
        "BeginTime",
        "MaxCpuRunMinsPerUser",
        "MpiPortsBusy",
        "MaxPoweredUpNodes",
        "ReqNodeNotAvail, UnavailableNodes:node4",
    ],
)
def test_reasons_that_pass(watch: Watch, reason: str) -> None:
    assert the(watch.look(waiting(reason=reason))).status is Status.OK


@pytest.mark.parametrize(
    "reason",
    [
        "DependencyNeverSatisfied",
        "JobHeldAdmin",
        "launch failed requeued held",
        "(launch failed requeued held)",
        "launch_failed_requeued_held",
        "user env retrieval failed requeued held",
        "user_env_retrieval_failed_requeued_held",
        "MaxMemPerLimit",
        "BadConstraints",
        "PartitionTimeLimit",
        "AssocMaxWallDurationPerJobLimit",
        "QOSMaxNodePerJobLimit",
        "QOSMinGRES",
        "AssocGrpCPUMinutesLimit",
        "QOSGrpGRESMinutes",
        "InvalidQOS",
        "QOSUsageThreshold",
        "ReservationInvalid",
        "BurstBufferOperation",
    ],
)
def test_reasons_that_never_pass(watch: Watch, reason: str) -> None:
    result = the(watch.look(waiting(reason=reason)))
    assert result.status is Status.CRITICAL
    assert "job 89 waits forever" in text_of(result)
    assert reason in text_of(result)
    assert result.run_state == "waiting"


def test_held_by_its_user_is_a_warning_with_the_release_line(watch: Watch) -> None:
    result = the(watch.look(waiting(reason="JobHeldUser")))
    assert result.status is Status.WARNING
    assert "scontrol release 89" in text_of(result)
    assert result.run_state == "waiting"


def test_a_fault_is_told_before_a_hold(watch: Watch) -> None:
    result = the(watch.look(waiting("89", "JobHeldUser"), waiting("90", "BadConstraints")))
    assert result.status is Status.CRITICAL
    assert "job 90" in text_of(result)
    assert "scontrol release 89" in commands_of(result)


def test_what_asks_for_too_little_is_not_told_to_ask_for_less(watch: Watch) -> None:
    result = the(watch.look(waiting(reason="QOSMinGRES")))
    assert "asks for less than its QOS demands (QOSMinGRES" in text_of(result)
    assert result.advice == (
        Advice("Cancel it, and ask for more, or for another QOS (as alice):", "scancel 89"),
    )


def test_states_that_hold_a_job(watch: Watch) -> None:
    found = the(watch.look(waiting(state="RESV_DEL_HOLD", reason="None")))
    assert found.status is Status.CRITICAL
    assert "its reservation is gone" in text_of(found)
    found = the(watch.look(waiting(state="LAUNCH_FAILED", reason="launch failed requeued held")))
    assert found.status is Status.CRITICAL
    assert "its launch failed" in text_of(found)


def test_special_exit_and_requeue_hold(watch: Watch) -> None:
    assert the(watch.look(waiting(state="SPECIAL_EXIT", reason="None"))).status is Status.CRITICAL
    assert the(watch.look(waiting(state="REQUEUE_HOLD", reason="None"))).status is Status.WARNING


def test_estimate_long_past(watch: Watch) -> None:
    result = the(watch.look(waiting(start_estimate=START - 7200)))
    assert result.status is Status.WARNING
    assert "not started yet, 2h1m later than estimated (Priority)" in text_of(result)


def test_suspended_says_since_when_and_how_to_resume(watch: Watch) -> None:
    watch.look(job())
    watch.look(job(state="SUSPENDED"))
    result = the(watch.look(job(state="SUSPENDED")))
    assert result.status is Status.WARNING
    assert "suspended for 1m" in text_of(result)
    assert commands_of(result) == ["scontrol resume 88"]


def test_completing_for_too_long(watch: Watch) -> None:
    assert the(watch.look(job(state="COMPLETING"))).status is Status.OK
    result = the(watch.look(job(state="COMPLETING"), after=1000))
    assert result.status is Status.WARNING
    assert result.summary == "job 88 has ended, but has held its nodes for 16m40s"


def test_what_has_nodes_and_does_nothing_there_is_counted_apart(watch: Watch) -> None:
    def counts(*states: str) -> dict[str, float]:
        jobs = [job(str(90 + index), state=state) for index, state in enumerate(states)]
        metrics = the(watch.look(*jobs)).metrics
        return {
            name: metric.value for name, metric in metrics.items() if name not in ("waiting", "time_left")
        }

    assert counts("RUNNING", "SIGNALING") == {"running": 2}
    assert counts("COMPLETING") == {"running": 1, "ending": 1}
    assert counts("CONFIGURING", "POWER_UP_NODE", "STOPPED") == {"running": 3, "starting": 2, "suspended": 1}


# ------------------------------------------------------------------ states


@pytest.mark.parametrize(
    "state",
    [
        "RUNNING",
        "COMPLETING",
        "CONFIGURING",
        "POWER_UP_NODE",
        "RECONFIG_FAIL",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
        "UPDATE_DB",
    ],
)
def test_every_documented_state_of_a_job_that_has_nodes_is_no_alarm(watch: Watch, state: str) -> None:
    watch.look(job())
    (result,) = watch.look(job(state=state))
    assert (result.status, result.metrics["running"].value) == (Status.OK, 1)


@pytest.mark.parametrize("state", ["PENDING", "REQUEUED", "REQUEUE_FED", "EXPEDITING", "LAUNCH_FAILED"])
def test_every_documented_state_of_a_job_that_waits_its_turn_is_no_alarm(watch: Watch, state: str) -> None:
    (result,) = watch.look(waiting(state=state))
    assert (result.status, result.metrics["waiting"].value) == (Status.OK, 1)


def test_a_state_that_nobody_knows_is_unknown_and_not_taken_for_running(watch: Watch) -> None:
    watch.look(job())
    (result,) = watch.look(job(state="HIBERNATING", reason="Cooling"))
    assert result.status is Status.UNKNOWN
    line = "job 88 is HIBERNATING (Cooling), job state not known"
    assert result.summary.startswith(line)
    assert (result.metrics["running"].value, commands_of(result)) == (0, ["scontrol show job 88"])
    watch.press()
    assert the(watch.look(job(state="HIBERNATING"))).status is Status.UNKNOWN


def test_beside_a_job_that_runs_a_strange_one_does_no_harm(watch: Watch) -> None:
    (result,) = watch.look(job(), job("90", state="HIBERNATING"))
    assert (result.status, result.metrics["running"].value) == (Status.OK, 1)


def test_the_failed_one_before_a_strange_one_is_told_all_the_same(watch: Watch) -> None:
    watch.look(job())
    results = watch.look(job("89", state="HIBERNATING"), ends=(end(),))
    assert the(results).status is Status.UNKNOWN
    (said,) = notices(results)
    assert "FAILED (exit 3)" in said
    assert "goes on as job 89" in said


def test_an_end_in_a_word_that_nobody_knows_is_an_end(watch: Watch) -> None:
    watch.look(job())
    result = the(watch.look(ends=(end(state="MELTED", exit_code=0),)))
    assert result.status is Status.CRITICAL
    assert "job 88 MELTED after" in text_of(result)


# ------------------------------------------------------------------ renamed


def test_a_job_that_is_renamed_is_not_gone(watch: Watch) -> None:
    watch.look(job())
    for _ in range(40):
        (result,) = watch.look(renamed=(job(name="run 2"),))
    assert result.status is Status.WARNING
    assert result.summary == "renamed to 'run 2', so its log, GPUs and memory are not judged"
    assert result.advice == (
        Advice("To give it its name back (as alice):", "scontrol update JobId=88 JobName=tr11-176B-ml"),
        Advice('Or write job_name = "run 2" under [runs.run-17].'),
    )
    assert result.metrics["running"].value == 1
    assert the(watch.look()).status is Status.UNKNOWN  # a moment out of the queue
    assert "gone, last seen" in the(watch.look(after=200)).summary


def test_beside_one_of_its_name_a_renamed_job_is_the_runs_too(watch: Watch) -> None:
    watch.look(job(), job("90"))
    (result,) = watch.look(job(), renamed=(job("90", name="run 2"),))
    assert (result.status, result.metrics["running"].value) == (Status.OK, 2)


def test_another_job_under_a_reused_id_is_no_renamed_one(watch: Watch) -> None:
    watch.look(job())
    other = job(name="other", started_at=START + 5)
    watch.look(renamed=(other,), after=200)
    assert the(watch.look(renamed=(other,), after=200)).status is Status.CRITICAL


# ------------------------------------------------------------------ behind the running one


def test_fewer_than_min_queued(tmp_path: Path) -> None:
    watch = Watch(tmp_path, min_queued=2)
    result = the(watch.look(job(), waiting()), "queue")
    assert (result.status, result.summary) == (
        Status.WARNING,
        "1 job is waiting behind the running one, 2 wanted",
    )
    assert the(watch.look(job(), waiting(tasks=2)), "queue").status is Status.OK


def test_what_waits_for_ever_behind_a_running_job(watch: Watch) -> None:
    results = watch.look(job(), waiting(reason="DependencyNeverSatisfied"))
    assert the(results).status is Status.OK
    assert the(results, "queue").status is Status.WARNING
    assert "a job it depends on" in the(results, "queue").summary


def test_end_of_walltime_with_nothing_queued(watch: Watch) -> None:
    near = job(ends_at=START + 1200)
    result = the(watch.look(near), "queue")
    assert result.status is Status.WARNING
    assert result.summary == "job 88 ends in 19m, and nothing waits behind it"
    assert the(watch.look(near, waiting()), "queue").status is Status.OK


def test_a_short_job_is_near_its_end_later(watch: Watch) -> None:
    short = job(time_limit=3600.0, ends_at=START + 1200)
    assert len(watch.look(short)) == 1
    assert the(watch.look(short, after=900), "queue").status is Status.WARNING


# ------------------------------------------------------------------ gone


def test_gone_with_exit_code_once_two_sources_agree(watch: Watch) -> None:
    watch.look(job())
    result = the(watch.look(ends=(end(at=START + 90),)))
    assert result.status is Status.CRITICAL
    assert result.summary == "job 88 FAILED (exit 3) after 6m30s"
    assert " on node[2-3]" in text_of(result)
    assert result.trigger == "on_gone"


def test_what_waits_for_ever_asks_for_no_other_job(watch: Watch) -> None:
    stuck = the(watch.look(waiting(reason="DependencyNeverSatisfied")))
    assert (stuck.status, stuck.trigger) == (Status.CRITICAL, "")


@pytest.mark.parametrize(
    ("fields", "status", "trigger"),
    [
        ({"state": "CANCELLED", "exit_code": 0, "cancelled_by": "alice"}, Status.WARNING, ""),
        ({"state": "CANCELLED", "exit_code": 0, "cancelled_by": "bob"}, Status.CRITICAL, ""),
        ({"state": "CANCELLED", "exit_code": 0}, Status.CRITICAL, "on_gone"),
        ({"state": "FAILED", "step": "step 0: CANCELLED by nobody"}, Status.CRITICAL, "on_gone"),
    ],
)
def test_no_other_job_is_asked_for_where_somebody_cancelled_this_one(
    watch: Watch, fields: dict[str, Any], status: Status, trigger: str
) -> None:
    """It is a WARNING only where its owner did."""
    watch.look(job())
    result = the(watch.look(ends=(end(at=START + 90, **fields),)))
    assert (result.status, result.trigger) == (status, trigger)


def test_a_job_that_its_owner_cancelled_is_said_so_first(watch: Watch) -> None:
    watch.look(job())
    result = the(watch.look(ends=(end(at=START + 90, state="CANCELLED", exit_code=0, cancelled_by="alice"),)))
    assert result.summary == "job 88 cancelled by its owner alice after 6m30s"
    assert result.run_state == "gone"
    assert result.advice[0].sentence == "Nothing, if alice meant it."
    assert result.advice[1].command == "sacct -j 88 -nPX -o WorkDir,SubmitLine"


def test_a_job_that_its_owner_cancelled_before_it_started_is_a_warning(watch: Watch) -> None:
    watch.look(waiting(reason="JobHeldUser"))
    fields = {"state": "CANCELLED", "exit_code": 0, "started_at": None, "nodes": ""}
    result = the(watch.look(ends=(end("89", at=START + 90, cancelled_by="alice", **fields),)))
    assert (result.status, result.kind) == (Status.WARNING, "cancelled")
    assert result.summary == "job 89 cancelled by its owner alice before it started"
    assert watch.look(ends=())[0].summary == result.summary


def test_who_cancelled_it_may_be_known_later(watch: Watch) -> None:
    watch.look(waiting())
    cancelled = end("89", at=START + 90, state="CANCELLED", exit_code=None, started_at=None, nodes="")
    away = "sacct: accounting storage is away"
    first = the(watch.look(ends=(cancelled,), endings_trouble=away))
    assert (first.status, first.summary) == (Status.CRITICAL, "job 89 CANCELLED before it started")
    assert first.facts[0] == f"not known who cancelled it: {away}"
    known = dataclasses.replace(cancelled, exit_code=0, cancelled_by="alice")
    later = the(watch.look(ends=(known,)))
    assert later.status is Status.WARNING
    assert later.summary == "job 89 cancelled by its owner alice before it started"
    again = the(watch.look(ends=(cancelled,), endings_trouble=away))
    assert again.summary == later.summary


def test_a_fault_of_a_job_that_left_the_queue_ends_with_how_that_ended(watch: Watch) -> None:
    for _ in range(2):
        assert the(watch.look(waiting(reason="JobHeldUser"))).status is Status.WARNING
    for _ in range(2):
        left = the(watch.look())
        assert (left.status, left.quiet) == (Status.UNKNOWN, True), "no message before it is known to be gone"
    gone = the(watch.look())
    assert gone.status is Status.CRITICAL
    assert commands_of(gone)[0].startswith("sacct -j 89 ")
    watch.look(job("90"))
    assert the(watch.look()).status is Status.OK


def test_never_gone_on_one_source_before_absent_after(watch: Watch) -> None:
    watch.look(job())
    assert the(watch.look()).status is Status.OK
    assert "gone if it stays so for 2m" in text_of(the(watch.look()))
    result = the(watch.look())
    assert result.status is Status.CRITICAL
    assert "it was job 88 on node[2-3]" in text_of(result)
    assert "not known how it ended" in text_of(result)


def test_a_job_that_is_gone_is_not_missed_because_the_clock_is_set_back(watch: Watch) -> None:
    watch.look(job(started_at=START - 86400))
    assert the(watch.look()).status is Status.OK
    watch.now -= 5 * 3600
    assert the(watch.look()).status is Status.OK
    assert the(watch.look(after=180)).status is Status.CRITICAL
    watch.now -= 5 * 3600  # nor is it there again
    assert the(watch.look()).status is Status.CRITICAL


def test_one_look_that_serves_many_rounds_is_one_look(watch: Watch) -> None:
    watch.look(job())
    watch.look()
    for _ in range(5):
        watch.now += 100
        old = Snapshot(START + 120, jobs=(), endings=(), users=watch.run.users)
        assert the(watch.see(old)).status is Status.OK


def test_silent_accounting_is_named(watch: Watch) -> None:
    watch.look(job())
    watch.look(ends=None, endings_trouble="sacct: Slurm accounting storage is disabled")
    result = the(watch.look(ends=None, endings_trouble="sacct: accounting storage is disabled", after=180))
    assert result.status is Status.CRITICAL
    assert "sacct: accounting storage is disabled" in text_of(result)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"state": "TIMEOUT", "exit_code": 0}, "TIMEOUT (its time limit) after"),
        ({"state": "OUT_OF_MEMORY", "exit_code": 0, "signal": 125}, "OUT_OF_MEMORY after"),
        ({"state": "CANCELLED", "exit_code": 0, "cancelled_by": "bob"}, "cancelled by bob"),
        ({"state": "FAILED", "exit_code": 0, "signal": 9}, "FAILED by SIGKILL"),
        ({"state": "CANCELLED", "exit_code": None, "signal": None, "started_at": None}, "before it started"),
    ],
)
def test_how_it_ended(watch: Watch, fields: dict[str, Any], words: str) -> None:
    watch.look(job())
    result = the(watch.look(ends=(end(at=START + 90, **fields),)))
    assert result.status is Status.CRITICAL
    assert words in text_of(result)


def deeds(watch: Watch, *found: JobDeed) -> None:
    """What watchdogd did to the run's jobs lately."""
    watch.run = dataclasses.replace(watch.run, deeds=found)


def test_what_watchdogd_itself_cancelled_is_no_crash_and_nobodys_doing_else(watch: Watch) -> None:
    watch.look(job())
    deeds(watch, JobDeed("cancel", 21, watch.now + 30))
    ends = (end(at=watch.now + 32, state="CANCELLED", exit_code=0, cancelled_by="alice"),)
    gone = the(watch.look(ends=ends))
    assert (gone.status, gone.kind, gone.trigger) == (Status.WARNING, CANCELLED, "")
    assert gone.summary == "job 88 cancelled by watchdogd (incident 21) after 6m32s"
    assert "alice" not in text_of(gone), "whose command it was says nothing"
    assert gone.run_state == "gone"
    watch.look(ends=ends)
    deeds(watch)  # what was done is remembered for a day, what ended so for as long as it is gone
    assert the(watch.look(ends=ends, after=2 * 86400)).summary == gone.summary
    runs = the(watch.look(job("90", started_at=watch.now)))
    assert runs.status is Status.OK
    failed = the(watch.look(ends=(*ends, end("90", at=watch.now + 30, started_at=watch.now))))
    assert failed.status is Status.CRITICAL
    assert failed.summary.startswith("job 90 FAILED (exit 3)")


@pytest.mark.parametrize(
    "deed",
    [
        JobDeed("cancel", 21, START - 400),  # the job started after that
        JobDeed("cancel", 21, START + 200),  # it had ended before
        JobDeed("requeue", 21, START + 80),
    ],
)
def test_what_watchdogd_did_at_another_time_ended_no_other_job(watch: Watch, deed: JobDeed) -> None:
    watch.look(job())
    deeds(watch, deed)
    gone = the(watch.look(ends=(end(at=START + 90),)))
    assert (gone.status, gone.summary) == (Status.CRITICAL, "job 88 FAILED (exit 3) after 6m30s")


def test_a_job_that_went_on_for_long_ended_for_its_own_reason(watch: Watch) -> None:
    watch.look(job())
    deeds(watch, JobDeed("cancel", 21, watch.now + 30))
    watch.look(job(), after=1200)
    gone = the(watch.look(ends=(end(at=watch.now + 30),)))
    assert gone.status is Status.CRITICAL
    assert gone.summary.startswith("job 88 FAILED (exit 3)")


def test_of_a_job_that_watchdogd_cancelled_and_the_next_took_over_nobody_else_is_said_to_have_done_it(
    watch: Watch,
) -> None:
    watch.look(job(), waiting())
    deeds(watch, JobDeed("cancel", 21, watch.now + 30))
    ends = (end(at=watch.now + 32, state="CANCELLED", exit_code=0, cancelled_by="alice"),)
    (said,) = notices(watch.look(job("89", started_at=watch.now + 40), ends=ends))
    assert said.startswith("job 88 cancelled by watchdogd (incident 21) after 6m32s, went on as job 89\n")
    assert "alice" not in said


@pytest.mark.parametrize(("trigger", "why"), [("on_hang", ": it had stalled"), ("on_spike", "")])
def test_the_echo_of_watchdogds_own_cancel_is_no_cause(
    watch: Watch, left: Path, trigger: str, why: str
) -> None:
    written = left / "main_log.txt"
    written.write_text(
        "iteration 7/9000 | lm loss: 2.3\n"
        "slurmstepd: error: *** JOB 88 ON node2 CANCELLED AT 2024-05-06T07:08:09 ***\n"
    )
    os.utime(written, (START + 90, START + 90))
    watch.parameters |= {"log": str(left / "main_log*")}
    watch.look(job())
    deeds(watch, JobDeed("cancel", 21, watch.now + 30, trigger))
    gone = the(watch.look(ends=(end(at=START + 92, state="CANCELLED", exit_code=0, cancelled_by="alice"),)))
    assert gone.summary == f"job 88 cancelled by watchdogd (incident 21) after 6m32s{why}"


def test_a_requeue_by_watchdogd_is_reported_by_its_own_report_alone(watch: Watch) -> None:
    watch.look(job())
    deeds(watch, JobDeed("requeue", 21, watch.now + 30))
    assert notices(watch.look(waiting("88", "BeginTime"))) == []
    watch.look(job(started_at=watch.now + 30))
    assert len(notices(watch.look(waiting("88", "BeginTime")))) == 1, "the next one is somebody else's"


@pytest.mark.parametrize("raised", [True, False])
def test_how_a_process_ended_that_hung(watch: Watch, left: Path, raised: bool) -> None:
    """Nobody knows what ended a process; one that hung did not run into an error as it ended."""
    (left / "main_log.txt").write_text(
        "iteration 7/9000 | lm loss: 2.3\n" + "Traceback (most recent call last):\nKeyError: 'x'\n" * raised
    )
    os.utime(left / "main_log.txt", (START + 55, START + 55))
    watch.parameters |= {"log": str(left / "main_log*")}
    why = ": error in the program (KeyError: 'x')" if raised else ""
    process = job("4711", name="run-17", nodes="ws1", time_limit=None, ends_at=None)
    here: dict[str, Any] = {"backend": "process", "ends": None, "users": frozenset[str]()}

    def gone(**run: Any) -> Result:
        watch.memory = {}
        watch.run = Run("run-17", "run-17", backend="process", pid_file="/run/train.pid", **run)
        watch.look(process, **here)
        return the(watch.look(**here))

    hung = gone(progress=Progress(stalled=True, at=watch.now - 180))
    assert hung.status is Status.CRITICAL
    assert hung.summary == f"gone after a stall of 4m{why or ', last seen 1m ago'}"
    assert (hung.kind, hung.trigger) == ("gone", "on_gone")
    ours = gone(progress=Progress(stalled=True, at=watch.now), deeds=(JobDeed("cancel", 21, watch.now + 90),))
    assert (ours.status, ours.kind) == (Status.WARNING, CANCELLED)
    assert ours.summary == f"ended by watchdogd (cancel, incident 21){why}"
    fixed = "Correct the error in the program first: it would fail again."
    again = [fixed, "Then start it again."] if raised else ["Start it again."]
    assert [each.sentence for each in ours.advice][:-1] == again
    crashed = gone(progress=Progress(stalled=False, at=watch.now))
    assert crashed.summary == (f"crashed{why}" if raised else "gone, last seen 1m ago")


def test_what_may_be_requeued_is_given_time(watch: Watch) -> None:
    watch.look(job())
    ends = (end(at=START + 90, state="PREEMPTED", exit_code=0),)
    assert the(watch.look(ends=ends)).status is Status.OK
    assert the(watch.look(ends=ends, after=130)).status is Status.CRITICAL
    assert "PREEMPTED" in the(watch.look(ends=ends)).summary


@pytest.mark.parametrize("state", ["NODE_FAIL", "BOOT_FAIL"])
def test_a_failed_node_that_accounting_knows_is_told_at_once(watch: Watch, state: str) -> None:
    watch.look(job())
    gone = the(watch.look(ends=(end(at=START + 90, state=state, exit_code=0),)))
    assert gone.status is Status.CRITICAL
    assert gone.summary == f"job 88 {state} after 6m30s"


def test_the_cause_is_sought_in_the_jobs_own_output_and_told_once_in_the_first_line(
    watch: Watch, left: Path, tmp_path: Path
) -> None:
    errors, output = tmp_path / "88.err", tmp_path / "88.out"
    errors.write_text("[rank12]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    output.write_text("srun: error: n3: task 12: Exited with exit code 1\n")
    (left / "main_log.txt").write_text(" iteration     1243/  90000 | lm loss: 2.3E+00 |\n")
    for path in (errors, output, left / "main_log.txt"):
        os.utime(path, (START + 85, START + 85))
    watch.parameters |= {"log": str(left / "main_log*")}
    watch.look(job(nodes="n3"))
    theirs: dict[str, Any] = {"outputs": (str(errors), str(output)), "nodes": "n3", "exit_code": 1}
    gone = the(watch.look(ends=(end(at=START + 90, **theirs),)))
    said, why = "job 88 FAILED (exit 1) after 6m30s", "GPU out of memory on rank 12, node n3"
    assert gone.summary == f"{said}: {why}"
    assert "out of memory" not in "".join(gone.facts)
    assert "iteration 1,243 was reached" in gone.facts


def test_output_of_an_earlier_job_tells_no_cause(watch: Watch, tmp_path: Path) -> None:
    old = tmp_path / "train.out"
    old.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    os.utime(old, (START - 4000, START - 4000))
    watch.look(job())
    outputs = (str(old), str(tmp_path / "none"), "/dev/null")
    gone = the(watch.look(ends=(end(at=START + 90, outputs=outputs),)))
    assert gone.summary == "job 88 FAILED (exit 3) after 6m30s"


@pytest.mark.parametrize(
    ("pattern", "known"),
    [("e_%J.err", True), ("%8A-%N.[1].err", True), ("%N.err", False), ("e_%a-%j", False)],
)
def test_letters_that_scontrol_leaves_in_names_of_outputs_are_filled_in(
    watch: Watch, tmp_path: Path, pattern: str, known: bool
) -> None:
    for name in ("e_88.err", "e_87.err", "00000088-n3.[1].err", "n3.err", "n4.err"):
        (tmp_path / name).write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")
        os.utime(tmp_path / name, (START + 85, START + 85))
    watch.look(job())
    gone = the(watch.look(ends=(end(at=START + 90, outputs=(str(tmp_path / pattern),)),)))
    assert ("out of memory" in gone.summary) == known


@pytest.mark.parametrize(
    ("said", "node"),
    [
        ("[rank5]: RuntimeError: CUDA error: uncorrectable ECC error encountered", "n3"),
        ("NVRM: Xid (PCI:0000:5e:00): 79, pid=1, GPU has fallen off the bus.", ""),
        ("srun: error: Node failure on n3", "n3"),
        ("[rank5]: OSError: [Errno 28] No space left on device", ""),
        ("[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", ""),
        ("[rank5]: ValueError: batch size is odd", ""),
    ],
)
def test_a_node_is_accused_of_what_a_node_can_have_alone(
    watch: Watch, tmp_path: Path, said: str, node: str
) -> None:
    errors = tmp_path / "88.err"
    errors.write_text(f"{said}\nsrun: error: n3: tasks 4-7: Exited with exit code 1\n")
    os.utime(errors, (START + 85, START + 85))
    watch.look(job(nodes="n[2-3]"))
    gone = the(watch.look(ends=(end(at=START + 90, nodes="n[2-3]", outputs=(str(errors),)),)))
    assert [each.node for each in gone.suspects] == ([node] if node else [])
    assert ("--exclude=n3" in gone.summary) == bool(node)


def test_a_node_that_failed_is_named_for_the_next_job(watch: Watch) -> None:
    watch.look(job(nodes="n3"))
    gone = the(watch.look(ends=(end(at=START + 90, state="NODE_FAIL", exit_code=0, nodes="n3"),)))
    assert "NODE_FAIL after 6m30s, on n3" in gone.summary
    assert [each.node for each in gone.suspects] == ["n3"]


def test_a_refused_connection_names_the_node_behind_the_address(watch: Watch, tmp_path: Path) -> None:
    errors = tmp_path / "88.err"
    errors.write_text(
        "n2:71:71 [0] NCCL INFO NET/Socket : Using [0]hsn0:10.0.0.7<0>\n"
        "n3:72:72 [0] misc/socket.cc:477 NCCL WARN socketStartConnect: Connect to 10.0.0.7<43257> failed : "
        "Connection refused\n"
    )
    os.utime(errors, (START + 85, START + 85))
    watch.look(job(nodes="n[2-3]"))
    ended = end(at=START + 90, nodes="n[2-3]", outputs=(str(errors),))
    gone = the(watch.look(ends=(ended,)))
    assert "with peer 10.0.0.7, which is n2 (--exclude=n2)" in text_of(gone)


def test_an_end_of_an_earlier_life_of_the_id_is_not_this_one(watch: Watch) -> None:
    watch.look(job())
    assert the(watch.look(ends=(end(at=START - 86400, started_at=START - 90000),))).status is Status.OK


def test_last_job_ended_well(watch: Watch) -> None:
    watch.look(job())
    result = the(watch.look(ends=(end(at=START + 90, state="COMPLETED", exit_code=0),)))
    assert result.status is Status.WARNING
    assert result.summary == "job 88 COMPLETED after 6m30s, nothing is queued"
    assert commands_of(result)[0] == "watchdogd finish run-17"


@pytest.mark.parametrize(("done", "first"), [(40.0, "sacct -j 88"), (1000.0, "watchdogd finish")])
def test_what_ended_well_says_how_far_it_is(watch: Watch, done: float, first: str) -> None:
    watch.look(job())
    progress = Progress(done=done, total=1000.0, unit="iteration")
    watch.run = dataclasses.replace(watch.run, progress=progress)
    result = the(watch.look(ends=(end(at=START + 90, state="COMPLETED", exit_code=0),)))
    assert result.summary == f"job 88 COMPLETED after 6m30s, at iteration {done:,g}/1,000, nothing is queued"
    assert commands_of(result)[0].startswith(first)


def test_the_end_stays_known_when_accounting_forgets(watch: Watch) -> None:
    watch.look(job())
    watch.look(ends=(end(at=START + 90),))
    result = the(watch.look(ends=None, after=5 * 86400))
    assert result.status is Status.CRITICAL
    assert "(exit 3)" in text_of(result)


def test_the_one_that_ran_is_told_not_those_cancelled_with_it(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=3))
    ends = (
        end(at=START + 90),
        end("89", at=START + 91, state="CANCELLED", exit_code=0, started_at=None, cancelled_by="alice"),
    )
    assert the(watch.look(ends=ends)).summary.startswith("job 88 FAILED")


def test_of_jobs_that_end_together_the_one_that_started_last_is_told(watch: Watch) -> None:
    watch.look(job("88"), job("95", started_at=START - 100))
    fields: dict[str, Any] = {"at": START + 90, "state": "CANCELLED", "exit_code": 0, "cancelled_by": "alice"}
    result = the(watch.look(ends=(end("95", started_at=START - 100, **fields), end("88", **fields))))
    assert result.summary == "job 95 cancelled by its owner alice after 3m10s"


def test_a_job_that_squeue_never_saw(watch: Watch) -> None:
    watch.look(job())
    watch.look(ends=(end(at=START + 90, state="COMPLETED", exit_code=0),))
    result = the(watch.look(ends=(end("95", at=START + 150, started_at=START + 149),)))
    assert result.status is Status.CRITICAL
    assert "job 95 FAILED (exit 3)" in text_of(result)


def test_a_new_job_is_ok_again(watch: Watch) -> None:
    watch.look(job())
    watch.look(ends=(end(at=START + 90),))
    watch.look(ends=(end(at=START + 90),))
    results = watch.look(job("90", started_at=START + 170), ends=(end(at=START + 90),))
    assert the(results).status is Status.OK
    assert notices(results) == []


# ------------------------------------------------------------------ never seen, finished, unknown


def test_never_seen_alive(watch: Watch) -> None:
    assert the(watch.look()).status is Status.OK
    before = end("70", at=START - 9000, started_at=START - 9300, exit_code=1)
    result = the(watch.look(ends=(before,), after=121))
    assert result.status is Status.WARNING
    assert result.summary == "job 70 FAILED (exit 1) after 5m, nothing is queued"
    assert result.facts[0].startswith("job 70 FAILED (exit 1) after 5m at ")
    assert result.facts[0].endswith(" on node[2-3], before this run was watched")
    assert result.facts[1].endswith(" on, no job of it was seen alive")
    assert commands_of(result)[0].startswith("sacct -j 70 ")


def test_what_comes_after_it_was_never_seen_does_not_run_again(watch: Watch) -> None:
    watch.look()
    assert the(watch.look(after=121)).status is Status.WARNING
    for _ in range(2):
        assert the(watch.look(job())).recovery == Recovery("started", "job 88")
    watch.look(ends=(end(at=watch.now),))
    assert the(watch.look(job("90", started_at=watch.now))).recovery == Recovery("runs again", "job 90")


def test_finished_is_said_once_and_nothing_is_expected(watch: Watch) -> None:
    watch.look(job())
    watch.run = dataclasses.replace(watch.run, finished="alice: all done")
    results = watch.look(job())
    assert len(notices(results)) == 1
    assert notices(results)[0].startswith("marked finished by alice: all done")
    assert "still there: job 88 runs" in notices(results)[0]
    for _ in range(5):
        results = watch.look(ends=(end(at=START + 90),), after=100)
        assert notices(results) == []
        assert (the(results).status, the(results).quiet) == (Status.OK, True)
        assert the(results).run_state == "finished"


@pytest.mark.parametrize(
    "trouble", ["squeue did not answer within 20 s", "squeue: Unable to contact slurm controller"]
)
def test_silent_controller_is_unknown(watch: Watch, trouble: str) -> None:
    watch.look(job())
    for _ in range(3):
        (result,) = watch.look(jobs=None, trouble=trouble, after=600)
        assert result.status is Status.UNKNOWN
        assert trouble in text_of(result)
    assert the(watch.look(job())).status is Status.OK


def test_hidden_jobs_are_unknown_until_one_was_seen(watch: Watch) -> None:
    hidden = frozenset({"alice"})
    result = the(watch.look(hidden=hidden, after=600))
    assert result.status is Status.UNKNOWN
    assert "PrivateData" in text_of(result)
    watch.look(job())
    assert the(watch.look(hidden=hidden, ends=(end(at=watch.now),))).status is Status.CRITICAL


def test_what_was_seen_by_whoever_watched_before_is_not_gone_where_we_may_not_see_it(watch: Watch) -> None:
    watch.look(job())
    hidden = frozenset({"alice"})
    result = the(watch.look(hidden=hidden, after=6000))
    assert (result.status, "PrivateData" in text_of(result)) == (Status.UNKNOWN, True)
    assert the(watch.look(hidden=hidden, ends=(end(at=watch.now),))).status is Status.CRITICAL


def test_what_others_had_running_is_not_gone_where_nobody_shows_us_theirs(watch: Watch) -> None:
    """Seen by whoever watched before; the one who does now counts his own jobs, and may see no others."""
    watch.run = dataclasses.replace(watch.run, users=frozenset())
    watch.look(job("7", user="carol"), users=frozenset({"carol"}))
    mine: dict[str, Any] = {"users": frozenset({"bob"}), "veiled": True}
    for after in (60, 600, 6000):
        result = the(watch.look(after=after, **mine))
        assert (result.status, "hides the jobs of carol" in text_of(result)) == (Status.UNKNOWN, True)
    watch.look(job("8", user="bob"), **mine)
    gone = the(watch.look(after=6000, ends=(end("8", at=watch.now, user="bob"),), **mine))
    assert gone.status is Status.CRITICAL


def test_a_run_never_seen_whose_name_somebody_elses_job_bears_is_a_warning(watch: Watch) -> None:
    theirs = (job("7", user="carol"), job("8", user="dave"), job("9", user="carol", comment="watchdogd:x"))
    for after in (1, 600):
        result = the(watch.look(elsewhere=theirs, after=after))
        assert result.status is Status.WARNING
        assert "jobs 7 of carol, 8 of dave have its name" in text_of(result)
        assert 'user = "carol" under [runs.run-17]' in text_of(result)
        assert result.metrics["elsewhere"].value == 2
    watch.press()
    result = the(watch.look(elsewhere=theirs[:1]))
    assert (result.status, "but job 7 of carol has its name" in text_of(result)) == (Status.WARNING, True)
    assert 'user = "carol" under [runs.run-17]' in text_of(result)
    assert "elsewhere" not in the(watch.look(job(), elsewhere=theirs)).metrics


def test_a_job_that_was_the_runs_and_does_not_count_any_more_goes_on(watch: Watch) -> None:
    """Whoever watches now counts other users than whoever did before."""
    watch.look(job("7"))
    for after in (60, 600, 6000):
        result = the(watch.look(elsewhere=(job("7", user="carol"),), after=after))
        assert (result.status, "job 7 of carol" in text_of(result)) == (Status.WARNING, True)
    watch.look(job("8"))
    gone = the(watch.look(elsewhere=(job("9", user="carol"),), ends=(end("8", at=watch.now),), after=6000))
    assert (gone.status, "job 9 of carol" in text_of(gone)) == (Status.CRITICAL, True)
    assert 'user = "carol" under [runs.run-17]' in text_of(gone)


@pytest.mark.parametrize(
    ("backend", "word"), [("slurm", "PrivateData"), ("pbs", "query_other_jobs"), ("process", "hidepid")]
)
def test_nothing_seen_where_others_are_hidden_is_never_ok(watch: Watch, backend: str, word: str) -> None:
    watch.run = dataclasses.replace(watch.run, users=frozenset(), backend=backend, command="train")
    first = the(watch.look(backend=backend, veiled=True))
    assert (first.status, word in text_of(first)) == (Status.UNKNOWN, True)
    later = the(watch.look(backend=backend, veiled=True, after=600))
    assert (later.status, word in text_of(later)) == (Status.WARNING, True)
    watch.run = dataclasses.replace(watch.run, users=frozenset({"alice"}))
    hidden = the(watch.look(backend=backend, veiled=True, hidden=frozenset({"alice"}), after=600))
    assert (hidden.status, word in text_of(hidden)) == (Status.UNKNOWN, True)


def test_a_memory_of_another_version_starts_anew(watch: Watch) -> None:
    watch.memory = {"observed": {}, "what": 1}
    assert the(watch.look(job())).status is Status.OK


# ------------------------------------------------------------------ restarts


def test_restart_is_told_once(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=7))
    ends = (end(at=START + 90, state="NODE_FAIL", exit_code=0, reason="NodeDown"),)
    results = watch.look(job("90", started_at=START + 95), waiting(tasks=6), ends=ends)
    assert the(results).status is Status.OK
    (said,) = notices(results)
    assert said.startswith("job 88 NODE_FAIL after 6m30s, went on as job 90\n6 jobs are waiting\n")
    assert notices(watch.look(job("90", started_at=START + 95), ends=ends)) == []


def test_a_process_waits_in_no_queue(watch: Watch) -> None:
    here: dict[str, Any] = {"ends": None, "backend": "process"}
    watch.look(process(), **here)
    (said,) = notices(watch.look(process(id="4712", raw_id="4712@200", started_at=watch.now), **here))
    assert "process 4711 is gone" in said
    assert "waiting" not in said


def test_a_job_that_still_completes_took_nothing_over(watch: Watch) -> None:
    watch.look(job())
    over = (end(at=START + 90, state="CANCELLED", exit_code=0, cancelled_by="bob"),)
    assert notices(watch.look(job(state="COMPLETING"), ends=over)) == []
    gone = the(watch.look(ends=over))
    assert "job 88 cancelled by bob" in text_of(gone)
    watch.look(job("90", started_at=START + 200))
    last = end("90", at=START + 290, started_at=START + 200)
    assert notices(watch.look(job("90", state="COMPLETING"), waiting("91"), ends=(*over, last))) == []
    (said,) = notices(watch.look(waiting("91"), ends=(*over, last)))
    assert "job 90 FAILED (exit 3)" in said
    assert "goes on as job 91" in said


def test_restart_after_a_gap_is_told_too(watch: Watch) -> None:
    watch.look(job())
    watch.look(ends=(end(at=START + 90),))
    assert len(notices(watch.look(job("90", started_at=START + 130)))) == 1


def test_an_end_that_accounting_tells_late(watch: Watch) -> None:
    watch.look(job())
    assert notices(watch.look(job("90"))) == []
    assert len(notices(watch.look(job("90"), ends=(end(at=START + 90),)))) == 1
    assert notices(watch.look(job("90"), after=600)) == []


def test_an_end_that_nobody_tells(watch: Watch) -> None:
    watch.look(job())
    assert notices(watch.look(job("90"))) == []
    (said,) = notices(watch.look(job("90")))
    assert said.startswith("job 88 is gone, not known how it ended, went on as job 90\nit ran on ")
    assert notices(watch.look(job("90"))) == []


def test_a_task_that_ended_well_is_no_news(watch: Watch) -> None:
    watch.look(job(), waiting())
    ends = (end(at=START + 90, state="COMPLETED", exit_code=0),)
    assert notices(watch.look(job("89", started_at=START + 95), ends=ends)) == []


def test_requeue_under_the_same_id(watch: Watch) -> None:
    watch.look(job())
    (said,) = notices(watch.look(waiting("88", "BeginTime")))
    assert said.startswith("job 88 was requeued after about 6m, waits to start\nit ran on node[2-3]\n")
    assert notices(watch.look(waiting("88", "BeginTime"))) == []
    assert notices(watch.look(job(started_at=watch.now))) == []


def test_requeue_with_the_end_that_accounting_knows(watch: Watch) -> None:
    watch.look(job())
    attempt = end(at=START + 90, state="NODE_FAIL", exit_code=0)
    (said,) = notices(watch.look(waiting("88", "BeginTime"), attempts=(attempt,)))
    assert said.startswith("job 88 was requeued after 6m30s: NODE_FAIL, waits")
    assert notices(watch.look(job(nodes="node3", started_at=watch.now + 55))) == []
    attempt = end(at=watch.now + 30, state="NODE_FAIL", started_at=watch.now - 5, nodes="node3")
    (said,) = notices(watch.look(waiting("88", "BeginTime"), attempts=(attempt,)))
    assert ": NODE_FAIL (exit 3) of node3, waits to start\n" in said


@pytest.mark.parametrize("started", [START - 9000, None])
def test_what_accounting_says_of_another_attempt_is_not_taken_for_this_one(
    watch: Watch, started: float | None
) -> None:
    watch.look(job())
    attempt = end(at=START + 90, state="REQUEUED", started_at=started)
    (said,) = notices(watch.look(waiting("88", "BeginTime"), attempts=(attempt,)))
    assert said.startswith("job 88 was requeued after about 6m")


def test_each_fault_of_a_run_is_of_a_kind(watch: Watch) -> None:
    """So that a hold of hours is no beginning of the end that comes after it."""
    held = watch.look(waiting("88", "JobHeldUser"))[0]
    watch.look(job())
    watch.look(ends=(end(at=watch.now),))
    gone = watch.look(ends=(end(at=watch.now),))[0]
    assert (held.status, held.kind) == (Status.WARNING, "never starts")
    assert (gone.status, gone.kind) == (Status.CRITICAL, "gone")


PERIOD = 86400.0


@pytest.mark.parametrize("accounted", ["COMPLETED", "REQUEUED", ""])
def test_a_job_that_comes_again_by_plan_is_no_restart(watch: Watch, accounted: str) -> None:
    """scrontab's jobs, and those that requeue themselves for later: four periods, each ends as it should."""
    ends: tuple[Ending, ...] = ()
    for _ in range(4):
        began = watch.now + 30.0
        runs = job(submitted_at=began - 60, started_at=began, ends_at=began + 400, time_limit=3600.0)
        assert notices(watch.look(runs, attempts=ends)) == []
        near = watch.look(runs, attempts=ends, after=300.0)
        if accounted == "COMPLETED" and ends:
            assert {result.status for result in near} == {Status.OK}, "nothing need wait behind it"
        over = end(at=began + 350, submitted_at=began - 60, started_at=began, state=accounted, exit_code=0)
        ends = (*ends, over) if accounted else ()
        later = waiting("88", "BeginTime", submitted_at=over.ended_at, start_estimate=watch.now + PERIOD)
        results = watch.look(later, attempts=ends)
        assert {result.status for result in results} == {Status.OK}
        assert notices(results) == notices(watch.look(later, attempts=ends, after=PERIOD - 400)) == []


@pytest.mark.parametrize(
    ("attempt", "estimate", "said"),
    [
        ({"state": "FAILED", "exit_code": 7}, PERIOD, "FAILED (exit 7), waits to start"),
        ({"state": "COMPLETED", "exit_code": 0, "signal": 9}, PERIOD, "by SIGKILL"),
        (None, 120.0, ", waits to start"),  # Slurm's own delay after a requeue
        (None, None, ", waits to start"),
        (
            {"state": "COMPLETED", "exit_code": 0, "at": START - 400},
            120.0,
            ", waits to start",
        ),  # an older one
    ],
)
def test_what_fails_and_comes_again_is_a_restart_whenever_it_does(
    watch: Watch, attempt: dict[str, Any] | None, estimate: float | None, said: str
) -> None:
    watch.look(job())
    start = None if estimate is None else watch.now + 60 + estimate
    attempts = (end(**{"at": START + 90, **attempt}),) if attempt else ()
    (line,) = notices(watch.look(waiting("88", "BeginTime", start_estimate=start), attempts=attempts))
    assert said in line


def test_a_job_that_another_cluster_of_the_federation_took_is_no_restart(watch: Watch) -> None:
    watch.look(job(), waiting("90"))
    revoked = end(state="REVOKED", exit_code=0)
    results = watch.look(waiting("90"), ends=(revoked,))
    assert (the(results).status, notices(results)) == (Status.OK, [])
    assert the(watch.look(ends=(revoked,))).status is Status.OK, "it may be listed in a moment"
    assert "REVOKED" in the(watch.look(ends=(revoked,), after=300)).summary


@pytest.mark.parametrize("reason", ["Dependency", "Resources", "Priority", "JobArrayTaskLimit"])
def test_a_chain_by_dependency_singleton_or_array_goes_on(watch: Watch, reason: str) -> None:
    """One ends as it should, the next takes its time to start: nothing to be reported in ten of them."""
    ends: tuple[Ending, ...] = ()
    for number in range(10):
        runs = job(f"9{number}", started_at=watch.now)
        later = waiting("99", reason, tasks=9)
        results = [*watch.look(runs, later, ends=ends), *watch.look(runs, later, ends=ends, after=900)]
        ends = (
            *ends,
            end(f"9{number}", at=watch.now + 30, started_at=watch.now - 900, state="COMPLETED", exit_code=0),
        )
        results += [*watch.look(later, ends=ends), *watch.look(later, ends=ends, after=900)]
        assert {result.status for result in results} == {Status.OK}
        assert notices(results) == []


@pytest.mark.parametrize(
    "state", ["TIMEOUT", "DEADLINE", "BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"]
)
def test_an_end_with_a_successor_that_waits_is_one_notice(watch: Watch, state: str) -> None:
    watch.look(job(), waiting("90", "Dependency"))
    ended = (end(at=START + 90, state=state, exit_code=0, signal=0),)
    results = watch.look(waiting("90", "Resources"), ends=ended)
    assert the(results).status is Status.OK
    (said,) = notices(results)
    assert said.startswith(f"job 88 {state}")
    assert "after 6m30s, goes on as job 90\n" in said
    assert notices(watch.look(waiting("90", "Resources"), ends=ended, after=3600)) == []


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a job leaves that came to iteration 1243, saved at 1200, and died for want of GPU memory."""
    log = tmp_path / "main_log.txt"
    log.write_text(
        " iteration     1243/  90000 | lm loss: 2.3E+00 |\n"
        "rank7: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    saved = tmp_path / "global_step1200"
    saved.write_bytes(b"weights")
    (tmp_path / "global_step1240.tmp").write_bytes(b"half")
    for path, at in ((log, START + 85), (saved, START - 210), (tmp_path / "global_step1240.tmp", START)):
        os.utime(path, (at, at))
    return tmp_path


def test_a_restart_names_cause_and_lost_work(watch: Watch, left: Path) -> None:
    watch.parameters |= {"log": str(left / "main_log*"), "checkpoints": str(left / "global_step*")}
    watch.look(job(), waiting(tasks=7))
    results = watch.look(job("90", started_at=START + 95), waiting(tasks=6), ends=(end(at=START + 90),))
    (said,) = notices(results)
    assert "FAILED (exit 3)" in said
    lost = "work lost: 5m since global_step1200 (iteration 1,243 was reached)"
    assert "GPU out of memory on rank 7, went on as job 90\n" in said
    assert f"\n{lost}\n" in said


@pytest.mark.parametrize("name", ["main_log-88_1.txt", "main_log_88-01.txt", "main_log.91.txt"])
def test_the_log_that_bears_the_jobs_id_is_its_own(watch: Watch, left: Path, name: str) -> None:
    (left / "main_log.txt").rename(left / name)
    later = left / "main_log-88_2.txt"
    later.write_text(" iteration     1/  90000 | lm loss: 2.3E+00 |\n")
    os.utime(later, (START + 95, START + 95))
    watch.parameters |= {"log": str(left / "main_log*")}
    watch.look(job("91", id="88_1"), waiting("88", id="88_[2-9]", tasks=8))
    over = (end("91", id="88_1", at=START + 90),)
    (said,) = notices(watch.look(job("92", id="88_2", started_at=START + 91), ends=over))
    assert ": GPU out of memory on rank 7, went on as job" in said
    assert "\niteration 1,243 was reached\n" in said


def test_a_het_job_is_one_job(watch: Watch) -> None:
    parts = (job("88", id="88+0", nodes="n1", node_count=1), job("89", id="88+1", nodes="n[4-5]"))
    result = the(watch.look(*parts))
    assert result.summary.startswith("job 88 runs for")
    assert "on n1,n[4-5]" in text_of(result)
    assert result.metrics["running"].value == 1
    half = (end("88", id="88+0", state="COMPLETED", exit_code=0, nodes="n1"),)
    assert notices(watch.look(parts[1], ends=half)) == []
    ends = (*half, end("89", id="88+1", state="OUT_OF_MEMORY", exit_code=0, nodes="n[4-5]"))
    result = the(watch.look(ends=ends))
    assert result.summary.startswith("job 88 OUT_OF_MEMORY after")
    assert "on n1,n[4-5]" in text_of(result)
    assert sum("job 88 OUT_OF_MEMORY" in fact for fact in result.facts) == 1


def test_components_of_a_het_job_are_no_crash_loop(watch: Watch) -> None:
    ends: tuple[Ending, ...] = ()
    for number in (90, 92):
        at = watch.now + 30
        parts = (job(f"{number + part}", id=f"{number}+{part}", started_at=at) for part in (0, 1))
        watch.look(*parts, ends=ends)
        both = ((f"{number + part}", f"{number}+{part}") for part in (0, 1))
        ends += tuple(end(raw, id=name, at=at + 20, started_at=at) for raw, name in both)
    results = watch.look(waiting("99"), ends=ends)
    assert {result.subject for result in results} == {""}
    assert len(notices(results)) == 1


def test_a_restart_without_any_checkpoint_has_lost_all(watch: Watch, left: Path) -> None:
    watch.parameters |= {"checkpoints": str(left / "none*")}
    watch.look(job())
    (said,) = notices(watch.look(job("90", started_at=START + 95), ends=(end(at=START + 60),)))
    assert "work lost: all 6m of it, no checkpoint came\n" in said


def test_what_is_gone_has_lost_work_too(watch: Watch, left: Path) -> None:
    watch.parameters |= {"log": str(left / "main_log*"), "checkpoints": str(left / "global_step*")}
    watch.look(job())
    (left / "main_log.txt").unlink()
    facts = [the(watch.look(ends=(end(at=START + 90),))).facts for _ in range(3)]
    assert all("work lost: 5m since global_step1200" in each for each in facts)


def test_crash_loop_before_the_array_is_burnt(watch: Watch) -> None:
    ends: tuple[Ending, ...] = ()
    results = watch.look(job("90", started_at=START), waiting(tasks=8))
    for number in (90, 91, 92):
        assert the(results).status is Status.OK
        at = watch.now + 30
        ends = (*ends, end(str(number), at=at, started_at=at - 20, exit_code=1))
        results = watch.look(job(str(number + 1), started_at=at + 1), waiting(tasks=7), ends=ends)
    result = the(results, "crashes")
    assert result.status is Status.CRITICAL
    assert re.match(r"crash loop, the last 3 jobs failed in \d+[ms]\w*: FAILED \(exit 1\)", result.summary)
    assert "7 jobs are waiting" in text_of(result)
    assert notices(results) == []
    assert "scontrol hold 89" in commands_of(result)
    ends = (*ends, end("93", at=watch.now + 30, started_at=watch.now + 1, exit_code=1))
    held = watch.look(waiting(tasks=6, reason="JobHeldUser"), ends=ends)
    assert (the(held).status, the(held, "crashes").status) == (Status.OK, Status.CRITICAL), "one cause"
    recovered = watch.look(job("93", started_at=watch.now - 30), ends=ends, after=700)
    assert (the(recovered).status, the(recovered, "crashes").status) == (Status.OK, Status.OK)


def test_jobs_that_burnt_through_within_one_look_are_a_crash_loop_and_all_named(watch: Watch) -> None:
    watch.look(job("20", started_at=START))
    ends = tuple(
        end(str(20 + nth), at=watch.now + 4 * nth + 3, started_at=watch.now + 4 * nth, exit_code=1)
        for nth in range(6)
    )
    result = the(watch.look(ends=ends, after=60))
    assert re.fullmatch(
        r"crash loop, the last 6 jobs failed in 23s: FAILED \(exit 1\), job 25", result.summary
    )
    assert [f"job {20 + nth} FAILED" in text_of(result) for nth in range(6)] == [True] * 6
    assert result.trigger == "on_gone"


def starts_anew(watch: Watch, state: str, times: int) -> list[Result]:
    """The last look at a job each of whose attempts ended so within seconds."""
    watch.look(job())
    results: list[Result] = []
    for _ in range(times):
        at = watch.now + 30
        attempt = end(at=at, started_at=at - 9, state=state, exit_code=0)
        results = watch.look(waiting("88", "BeginTime", submitted_at=at), attempts=(attempt,))
    return results


def test_a_job_that_is_requeued_within_minutes_time_and_again_is_a_crash_loop(watch: Watch) -> None:
    result = the(starts_anew(watch, "REQUEUED", 3), "crashes")
    assert result.status is Status.CRITICAL
    assert re.match(
        r"crash loop, the last 3 attempts of job 88 failed in \d+[ms]\w*: REQUEUED", result.summary
    )
    assert "scontrol hold 88" in commands_of(result)
    assert the(watch.look(job(started_at=watch.now), after=700), "crashes").status is Status.OK


def test_a_job_that_is_preempted_time_and_again_is_none(watch: Watch) -> None:
    assert {result.subject for result in starts_anew(watch, "PREEMPTED", 4)} == {""}


def test_what_comes_of_a_crash_loop_is_told_anew(watch: Watch) -> None:
    ends: tuple[Ending, ...] = ()
    watch.look(job("90", started_at=START))
    for number in (90, 91, 92):
        at = watch.now + 30
        ends = (*ends, end(str(number), at=at, started_at=at - 20, exit_code=1))
        results = watch.look(job(str(number + 1), started_at=at + 1), ends=ends)
    assert (the(results).status, the(results, "crashes").status) == (Status.OK, Status.CRITICAL)
    last = end("93", at=watch.now + 30, started_at=watch.now, exit_code=1)
    results = watch.look(ends=(*ends, last))
    burnt = the(results)
    assert re.fullmatch(
        r"crash loop, the last 4 jobs failed in \w+: FAILED \(exit 1\), job 93", burnt.summary
    )
    assert (burnt.status, burnt.trigger) == (Status.CRITICAL, "on_gone")
    assert all(f"job {number} FAILED" in text_of(burnt) for number in (90, 91, 92, 93))
    assert (the(results, "crashes").status, the(results, "crashes").quiet) == (Status.OK, True)


# ------------------------------------------------------------------ the kill switch


def burnt(*raw_ids: str, at: float) -> tuple[Ending, ...]:
    return tuple(
        end(raw_id, at=at + number, started_at=at + number - 1, state="COMPLETED", exit_code=0)
        for number, raw_id in enumerate(raw_ids)
    )


def test_stopped_on_request_for_as_long_as_the_switch_is_set(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=2))
    watch.press()
    result = the(watch.look(job(), waiting(tasks=2)))
    assert result.status is Status.OK
    assert f"stop requested 1m ago by {ME}: wrong learning rate" in text_of(result)
    ends = burnt("88", "89", "90", at=watch.now + 5)
    for _ in range(3):
        results = watch.look(ends=ends, after=2000)
        assert (len(results), notices(results)) == (1, [])
        assert results[0].status is Status.WARNING
        assert results[0].summary.startswith(f"stopped on request by {ME}: wrong learning rate")


def test_a_run_that_watchdogd_stopped_says_so_and_what_to_correct_first(watch: Watch) -> None:
    watch.look(job())
    watch.press(reason="on_hang, incident 19", automatic=True)
    slow = the(watch.look(job(), after=2000))
    assert slow.summary == (
        "still runs 33m20s after its kill switch was pressed by watchdogd (on_hang, incident 19)"
    )
    result = the(watch.look(ends=burnt("88", at=watch.now + 5)))
    assert result.summary == "stopped by its kill switch, pressed by watchdogd (on_hang, incident 19)"
    assert result.kind == STOPPED
    assert [each.sentence for each in result.advice] == [
        "Correct first what watchdogd pressed it for, or that comes again.",
        "To let its next jobs run:",
    ]


def test_a_process_is_never_called_a_job(watch: Watch) -> None:
    watch.run = dataclasses.replace(
        watch.run, backend="process", pid_file="/run/train.pid", users=frozenset[str]()
    )
    here: dict[str, Any] = {"backend": "process", "ends": None, "users": frozenset[str]()}
    process = job("4711", name="run-17", nodes="ws1", time_limit=None, ends_at=None)
    runs = watch.look(process, **here)
    gone = [watch.look(**here) for _ in range(3)][-1]
    watch.press()
    stopped = watch.look(**here)
    seen = [text for told in (runs, gone, stopped) for text in map(text_of, told)]
    seen += [each.sentence for told in (runs, gone, stopped) for result in told for each in result.advice]
    assert the(gone).kind == "gone"
    assert the(stopped).kind == STOPPED
    assert not [text for text in seen if re.search(r"\bjobs?\b", text)]


def test_the_whole_story(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=2))
    watch.press()
    ends = burnt("88", "89", "90", at=watch.now + 5)
    assert the(watch.look(ends=ends)).status is Status.WARNING
    watch.switch.unlink()
    result = the(watch.look(ends=ends))
    assert (result.status, result.quiet) == (Status.OK, True)
    assert the(watch.look(ends=ends, after=900)).status is Status.OK
    late = end("95", at=watch.now + 31, submitted_at=watch.now + 29, started_at=watch.now + 30)
    results = watch.look(ends=(*ends, late))
    assert the(results).status is Status.CRITICAL
    assert "job 95 FAILED (exit 3)" in text_of(the(results))
    watch.look(ends=(*ends, late))
    results = watch.look(job("96", started_at=watch.now, submitted_at=watch.now), ends=(*ends, late))
    assert (the(results).status, the(results).quiet, notices(results)) == (Status.OK, False, [])


def test_the_job_after_the_clearing_may_fail_before_any_look(watch: Watch) -> None:
    watch.look(job())
    watch.press()
    ends = burnt("88", at=watch.now + 5)
    watch.look(ends=ends)
    watch.switch.unlink()
    late = end("95", at=watch.now + 31, submitted_at=watch.now + 29, started_at=watch.now + 30)
    assert the(watch.look(ends=(*ends, late))).status is Status.CRITICAL


def test_ends_under_the_switch_that_come_late_revive_nothing(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=2))
    watch.press()
    ends = burnt("88", "89", "90", at=watch.now + 5)
    watch.look(ends=ends[:1])
    watch.switch.unlink()
    assert the(watch.look(ends=ends)).status is Status.OK
    assert the(watch.look(ends=ends, after=900)).quiet


def test_obeyed_and_cleared_between_two_looks(watch: Watch) -> None:
    watch.look(job())
    watch.press()
    watch.look(job())
    watch.switch.unlink()
    result = the(watch.look(ends=burnt("88", at=watch.now + 5)))
    assert (result.status, result.quiet) == (Status.OK, True)


def test_cleared_before_it_was_obeyed_changes_nothing(watch: Watch) -> None:
    watch.look(job())
    watch.press()
    watch.look(job())
    watch.switch.unlink()
    watch.look(job())
    assert the(watch.look(ends=(end(at=watch.now + 5),))).status is Status.CRITICAL


def test_a_fault_before_the_switch_stays_a_fault(watch: Watch) -> None:
    watch.look(job())
    ends = (end(at=START + 90),)
    watch.look(ends=ends)
    watch.now += 300
    watch.press()
    assert "nothing else runs or waits" in text_of(the(watch.look(ends=ends)))
    watch.switch.unlink()
    assert the(watch.look(ends=ends)).status is Status.CRITICAL


def test_pressed_again_while_nothing_runs(watch: Watch) -> None:
    watch.look(job())
    watch.press()
    ends = burnt("88", at=watch.now + 5)
    watch.look(ends=ends)
    watch.switch.unlink()
    watch.look(ends=ends, after=900)
    watch.press(by="carol", reason="")
    assert the(watch.look(ends=ends)).summary == f"stopped on request by {ME} (the file says carol)"


def test_burning_through_is_no_crash_loop_and_no_news(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=9))
    watch.press()
    ends: tuple[Ending, ...] = ()
    for number in range(89, 96):
        ends = (*ends, end(str(number), at=watch.now + 9, started_at=watch.now + 5, exit_code=1))
        results = watch.look(job(str(number + 1), started_at=watch.now + 10), waiting(tasks=5), ends=ends)
        assert (the(results).status, notices(results)) == (Status.OK, [])


def test_not_obeyed_in_time_names_owner_and_scancel(watch: Watch) -> None:
    watch.look(job())
    watch.press()
    assert the(watch.look(job(), after=800)).status is Status.OK
    result = the(watch.look(job(), after=200))
    assert result.status is Status.CRITICAL
    assert f"still runs 16m40s after its kill switch was set by {ME}" in text_of(result)
    assert commands_of(result) == ["scancel 88"]


def test_of_an_array_task_the_id_that_scancel_takes(watch: Watch) -> None:
    watch.look(job("90", id="88_3"))
    watch.press()
    result = the(watch.look(job("90", id="88_3"), after=1000))
    assert commands_of(result) == ["scancel 88_3"]


def test_of_a_held_array_the_id_that_scontrol_takes(watch: Watch) -> None:
    result = the(watch.look(waiting("88", "JobHeldUser", id="88_[4-9%1]", tasks=6)))
    assert commands_of(result) == ["scontrol release '88_[4-9]'"]


def test_left_set_while_jobs_wait(watch: Watch) -> None:
    watch.press()
    assert the(watch.look(waiting(tasks=3))).status is Status.OK
    result = the(watch.look(waiting(tasks=3), after=1000))
    assert result.status is Status.WARNING
    assert "kill switch left set for 17m40s in front of 3 waiting jobs" in text_of(result)
    assert result.kind == SWITCH_LEFT


def test_stopped_with_jobs_left(watch: Watch) -> None:
    watch.look(job(), waiting(tasks=3))
    watch.press()
    result = the(watch.look(waiting(tasks=3), ends=burnt("88", at=watch.now + 5)))
    assert result.status is Status.WARNING
    assert f"stopped on request by {ME}: wrong learning rate; 3 jobs are waiting\n3 jobs are" in text_of(
        result
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ""),
        ("touched by hand\n", ": touched by hand"),
        ("please\nall is well", ": please"),
        ("a\r\x1b[31mb\x85c\u2028d", ": a [31mb c d"),
        ('{"by": 7', ': {"by": 7'),
        ("[1]\n", ": [1]"),
        ("NaN", ": NaN"),
        ("[" * 3000, ": " + "[" * 300),
        ('{"at": NaN}', ""),
        ('{"at": Infinity, "by": NaN}', ""),
        (f'{{"at": {"9" * 400}, "reason": 1e999}}', ""),
        (f'{{"at": {"9" * 4000}}}', ""),
        ('{"at": "0001-01-01"}', ""),
        ('{"at": "9999-12-31T23:59:59-23:59"}', ""),
        ('{"at": [[]], "by": {"a": 1}, "reason": ["x"], "host": false}', ""),
        ('{"at": true, "by": "alice"}', " (the file says alice)"),
        (
            '{"by": "alice\\n[OK] all is well", "reason": "x\\u0007\\u202ey"}',
            " (the file says alice [OK] all is well): x y",
        ),
    ],
)
def test_any_file_stops_and_says_who_owns_it(content: str, said: str, watch: Watch) -> None:
    watch.look(job())
    watch.switch.write_text(content, encoding="utf-8")
    result = the(watch.look(ends=burnt("88", at=watch.switch.stat().st_mtime + 5), after=60))
    assert result.status is Status.WARNING
    assert result.summary == f"stopped on request by {watch.switch.owner()}{said}"


def test_queue_incident_closes_quietly_with_the_stop(tmp_path: Path) -> None:
    watch = Watch(tmp_path, min_queued=1)
    assert the(watch.look(job()), "queue").status is Status.WARNING
    watch.press()
    closing = the(watch.look(ends=burnt("88", at=watch.now + 5)), "queue")
    assert (closing.status, closing.quiet) == (Status.OK, True)


# ------------------------------------------------------------------ plain processes


def process(**fields: Any) -> Job:
    """A process of the run: its name is the run's."""
    defaults: dict[str, Any] = {"id": "4711", "raw_id": "4711@99", "name": "run-17", "nodes": "ws1"}
    return Job(**{**defaults, "user": "alice", "state": "RUNNING", "started_at": START - 60, **fields})


def test_a_process_is_gone_at_once(watch: Watch) -> None:
    trouble = "plain processes have no accounting"
    assert "process 4711 runs" in the(watch.look(process(), ends=None, backend="process")).summary
    result = the(watch.look(ends=None, endings_trouble=trouble, backend="process"))
    assert result.status is Status.CRITICAL
    assert result.summary.startswith("gone, last seen")


@pytest.mark.parametrize("seen", [2, 1, 0], ids=["stopped", "cleared at once", "started anew at once"])
def test_of_a_process_that_obeyed_its_kill_switch_nobody_asks_how_it_ended(watch: Watch, seen: int) -> None:
    nobody: dict[str, Any] = {"ends": None, "backend": "process"}
    said = [watch.look(process(), **nobody)]
    watch.press()
    said.append(watch.look(process(), **nobody))
    if seen == 2:
        said.append(watch.look(**nobody))
        assert said[-1][0].summary.startswith("stopped on request")
    watch.switch.unlink()
    said += [watch.look(**nobody)] if seen else []
    new = process(id="4712", raw_id="4712@200", started_at=watch.now)
    said += [watch.look(new, **nobody) for _ in range(4)]
    assert [line for results in said for line in notices(results)] == []
    assert Status.CRITICAL not in {result.status for results in said for result in results}


def test_a_process_that_crashed_has_no_node_to_leave_out(watch: Watch, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 7/90\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    os.utime(log, (START + 60, START + 60))
    watch.parameters |= {"log": str(log)}
    watch.look(process(), ends=None, backend="process")
    gone = the(watch.look(ends=None, backend="process"))
    assert gone.summary == "crashed: uncorrectable ECC error"


def test_a_stopped_process_is_suspended(watch: Watch) -> None:
    stopped = process(state="SUSPENDED", reason="stopped by a signal")
    result = the(watch.look(stopped, ends=None, backend="process"))
    assert result.status is Status.WARNING
    assert "suspended for 0s (stopped by a signal)" in text_of(result)
    assert commands_of(result) == ["kill -CONT 4711"]
    watch.parameters |= {"absent_after": 300.0}
    left = the(watch.look(ends=None, backend="process"))
    assert left.summary.startswith("not seen for ")
    watch.parameters |= {"log": "train.log"}
    with_log = the(watch.look(stopped, ends=None, backend="process"))
    assert (with_log.status, with_log.advice) == (Status.OK, ())  # log_staleness tells, once its log stalls


def test_a_process_that_cannot_be_looked_for_is_unknown(watch: Watch) -> None:
    lost = process(id="", raw_id="", state="UNKNOWN", reason="/x/pid cannot be read: Permission denied")
    assert the(watch.look(lost, ends=None, backend="process")).status is Status.UNKNOWN


# ------------------------------------------------------------------ bounds


@pytest.mark.slow
def test_memory_is_bounded(watch: Watch) -> None:
    for number in range(0, 4000, 20):
        at = watch.now + 10
        ends = tuple(end(str(1000 + number + index), at=at, started_at=at - 1) for index in range(20))
        jobs = tuple(waiting(str(90000 + number + index)) for index in range(400))
        watch.look(*jobs, ends=ends)
    assert len(json.dumps(watch.memory)) < 200_000


def test_where_nobody_can_be_asked_that_is_said_with_the_mend() -> None:
    [result] = job_liveness(Run("r", "r", backend="none"), None, {}, 100.0)
    assert (result.status, "no Slurm is here" in text_of(result)) == (Status.UNKNOWN, True)
    assert "pid_file" in text_of(result)
