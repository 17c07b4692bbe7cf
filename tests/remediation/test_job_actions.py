"""What is not done to a job, and what its owner is told instead; the rest is tried on a real Slurm."""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.processes import started
from watchdogd.batch import live_job
from watchdogd.batch.live_job import LiveJob
from watchdogd.batch.models import Job
from watchdogd.config import switch_places
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.home import suspect_nodes, switches
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Incident
from watchdogd.plugin import Advice, Run, Status
from watchdogd.remediation import executor, job_actions
from watchdogd.remediation.models import (
    FAILED,
    SKIPPED,
    Action,
    ActionOutcome,
    ActionRecord,
    ActionTask,
    Exclusion,
)
from watchdogd.stacks.stack_folding import Process
from watchdogd.system import account, command
from watchdogd.units import local_time

NOW = 1_790_000_000.0
ME = pwd.getpwuid(os.geteuid()).pw_name
INCIDENT = Incident(3, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, NOW, "silent")
RUN = Run("glide", "glide-175b", users=frozenset({ME, "ann"}))
JOB = Job("501", "501", "glide-175b", ME, "RUNNING", nodes="node[5-6]", started_at=NOW - 3600)


class Desk:
    """Errands of one run, whose jobs are as the test says; commands are noted, not run."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = Home(folder / "home")
        self.home.make()
        self.home.config.write_text("[runs.glide]\n")
        self.jobs: tuple[Job, ...] = (JOB,)
        self.ran: list[tuple[str, ...]] = []
        self.run = RUN
        self.answers: dict[str, str] = {}
        self.refused = ""
        patch.setattr(job_actions, "_DEADLINE", 0.2)
        patch.setattr(live_job, "locate", lambda run, users, gpus: LiveJob(run, self.jobs))
        patch.setattr(live_job, "queued", lambda run, users: self.jobs)
        patch.setattr(command, "ask", self._ask)

    def _ask(self, argv: tuple[str, ...], **_: object) -> command.Answer:
        self.ran.append(tuple(argv))
        code = int(argv[1] == self.refused)
        return command.Answer(
            tuple(argv), code, self.answers.get(argv[1], "777\n"), "no" if code else "", 0.1
        )

    def do(
        self, kind: str, *words: str, trigger: str = "on_hang", exclusion: Exclusion | None = None
    ) -> ActionOutcome:
        record = ActionRecord(3, "glide", trigger, Action(kind, words, exclusion), NOW)
        return executor.do(ActionTask(record, INCIDENT, self.home, self.run))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def test_ones_own_job(desk: Desk) -> None:
    requeued, cancelled = desk.do("requeue"), desk.do("cancel")
    assert (requeued.text, requeued.short) == ("job 501 on node[5-6] is requeued", "job 501 requeued")
    assert (cancelled.text, cancelled.short) == ("job 501 on node[5-6] is cancelled", "job 501 cancelled")
    assert [each.command for each in requeued.then] == ["scontrol hold 501"]
    assert [each.command.partition(" -nPX")[0] for each in cancelled.then] == ["sacct -j 501"]
    assert desk.ran == [("scontrol", "requeue", "501"), ("scancel", "501")]


def test_a_task_of_an_array_is_named_so_that_the_others_go_on(desk: Desk) -> None:
    desk.jobs = (replace(JOB, id="88_3", raw_id="91"),)
    desk.do("cancel")
    assert desk.ran == [("scancel", "88_3")]


def test_under_pbs(desk: Desk) -> None:
    desk.run = replace(RUN, backend="pbs")
    desk.do("requeue")
    desk.do("cancel")
    assert desk.ran == [("qrerun", "501"), ("qdel", "501")]


def test_somebody_elses_job_is_left_to_its_owner(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    desk.jobs = (replace(JOB, user="ann"),)
    assert desk.do("cancel") == ActionOutcome(
        "job 501 is ann's, who alone may: scancel 501",
        ok=False,
        why="job 501 is ann's",
        by_hand="scancel 501",
    )
    assert desk.ran == []


def test_what_only_its_owner_may_is_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, hers = replace(JOB, user="ben"), replace(JOB, user="ann")
    waits = replace(mine, id="502", raw_id="502", state="PENDING", nodes="")
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setattr(account, "own_name", lambda: "ben")
    assert job_actions.foreign((mine,), "slurm") is None
    assert job_actions.foreign((hers, mine), "slurm") is None, "which is meant is seen when it is done"
    assert job_actions.foreign((waits,), "slurm") is None
    found = job_actions.foreign((hers, waits), "slurm")
    assert found is not None
    assert found.why == "job 501 is ann's, who alone may"
    assert found.by_hand == {
        "requeue": Advice("To restart it (as ann):", "scontrol requeue 501"),
        "cancel": Advice("To end it (as ann):", "scancel 501"),
    }
    process = job_actions.foreign((replace(hers, id="4711"),), "process")
    assert process is not None
    assert (process.why, [*process.by_hand]) == ("process 4711 is ann's, who alone may", ["cancel"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert job_actions.foreign((hers,), "slurm") is None


def test_a_process_that_is_stopped_is_woken_to_end(desk: Desk) -> None:
    with started(["sleep", "600"]) as process:
        process.send_signal(signal.SIGSTOP)
        desk.run = replace(RUN, backend="process")
        desk.jobs = (replace(JOB, id=str(process.pid)),)
        outcome = desk.do("cancel")
        assert (outcome.ok, outcome.short) == (True, "its process ended by SIGTERM")
        assert process.wait(120) == -signal.SIGTERM


def test_of_processes_that_are_stopped_it_is_said_how_they_go_on() -> None:
    stopped = [Process("n5", 88), Process("n5", 89), Process("n6", 90)]
    assert executor._woken(stopped) == (Advice("To let them go on, on n5:", "kill -CONT 88 89"),)
    assert executor._woken(stopped[2:]) == (Advice("To let it go on, on n6:", "kill -CONT 90"),)
    assert executor._woken(()) == ()


def test_a_note_that_failed_is_no_trouble_of_the_run() -> None:
    failed = ActionRecord(3, "glide", "on_hang", Action("annotate", ("python",)), NOW, FAILED, "no API key")
    (said,) = failed.advice("glide")
    assert said.sentence == "The run is not affected: correct that for the next incident."
    assert replace(failed, state=SKIPPED).advice("glide") == ()


def test_a_job_that_began_after_the_incident_is_spared(desk: Desk) -> None:
    desk.jobs = (replace(JOB, started_at=NOW + 1),)
    outcome = desk.do("requeue")
    assert not outcome.ok
    later = f"started after the incident, at {local_time(NOW + 1)}: it is spared"
    assert outcome.text == f"job 501 {later}"
    assert desk.ran == []


@pytest.mark.parametrize("kind", ["cancel", "kill-switch"])
@pytest.mark.parametrize("backend", ["slurm", "process"])
def test_the_job_that_took_over_is_spared(kind: str, backend: str, desk: Desk) -> None:
    """A kill switch would stop it, and all that wait behind it."""
    desk.run = replace(RUN, backend=backend)
    desk.jobs = (replace(JOB, id="999999999", started_at=NOW + 1),)
    outcome = desk.do(kind)
    assert not outcome.ok
    later = f"started after the incident, at {local_time(NOW + 1)}: it is spared"
    assert outcome.text == f"job 999999999 {later}"
    assert not (desk.home.switches / "glide.kill").exists()


def test_a_kill_switch_is_pressed_for_a_disk_whatever_runs(desk: Desk) -> None:
    desk.jobs = (replace(JOB, started_at=NOW + 1),)
    assert desk.do("kill-switch", trigger="on_disk").ok


def test_a_kill_switch_is_not_pressed_for_a_job_that_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> LiveJob:
        raise WatchdogError("no job of glide runs: 5 of its jobs wait in the queue")

    monkeypatch.setattr(live_job, "locate", none)
    assert desk.do("kill-switch") == ActionOutcome(
        "no job of glide runs: 5 of its jobs wait in the queue", ok=False
    )


def test_a_kill_switch_is_pressed_where_the_queue_does_not_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> LiveJob:
        raise SlurmSilentError("squeue did not answer within 20 s")

    monkeypatch.setattr(live_job, "locate", silent)
    assert desk.do("kill-switch").ok


def test_of_several_running_jobs_none_is_touched(desk: Desk) -> None:
    desk.jobs = (JOB, replace(JOB, id="502", raw_id="502"))
    outcome = desk.do("cancel")
    assert not outcome.ok
    assert outcome.text == ("2 jobs of it run, and which one is meant is not known: scancel 501, scancel 502")
    assert desk.ran == []


def test_a_script_is_submitted_as_the_runs(desk: Desk) -> None:
    desk.jobs = ()
    script = desk.home.path / "train.slurm"
    script.write_text("#!/bin/sh\nsleep 1\n")
    done = desk.do("resubmit", "train.slurm")
    assert (done.text, done.short) == (
        f"{script} is submitted as job 777",
        "train.slurm submitted as job 777",
    )
    assert [each.command for each in done.then] == ["scancel 777"]
    ((*options, last),) = desk.ran
    assert options[2:] == ["--job-name=glide-175b", f"--chdir={desk.home.path}"]
    assert last == str(script)


def test_nodes_under_suspicion_are_left_out_beside_those_of_the_script(desk: Desk) -> None:
    desk.jobs = ()
    (desk.home.path / "train.slurm").write_text("#!/bin/sh\n#SBATCH -x n1\nsleep 1\n")
    suspect_nodes.add(desk.home, "n17", "glide", "", 3600, by_hand=False)
    outcome = desk.do("resubmit", "train.slurm")
    submitted = "submitted as job 777, without n17 (under suspicion)"
    assert outcome.text == f"{desk.home.path}/train.slurm is {submitted}"
    assert outcome.short == f"train.slurm {submitted}"
    assert "--exclude=n1,n17" in desk.ran[-1]


@pytest.mark.parametrize("partition", ["#SBATCH -p gpu\n", ""])
def test_a_resubmitted_job_has_enough_nodes_to_start_on(desk: Desk, partition: str) -> None:
    """Slurm refuses a list that leaves it too few, but not where those that are left are drained."""
    desk.jobs = ()
    (desk.home.path / "train.slurm").write_text(f"#!/bin/sh\n{partition}#SBATCH -N 2,4\n#SBATCH -C h200\n")
    for node in ("n7", "n8"):
        suspect_nodes.add(desk.home, node, "glide", "", 3600, by_hand=False)
    nodes = "n5|idle|h200\nn6|drained|h200\nn7|idle|h200\nn8|idle|h200\nn9|idle|a100\n"
    desk.answers["--noheader"] = nodes if partition else f"small gpu*\n{nodes}"
    outcome = desk.do("resubmit", "train.slurm")
    left = "not without n7: the job needs 2 of the 3 nodes that work"
    assert outcome.short == f"train.slurm submitted as job 777, without n8 (under suspicion); {left}"
    assert "--exclude=n8" in desk.ran[-1]
    assert "--partition=gpu" in desk.ran[-2]


@pytest.mark.parametrize(
    ("before", "listed", "ended", "job", "change", "text"),
    [
        ("(null)", ["n7"], [], "501", "n7", "without n7"),
        ("n[1-2]", ["n7"], [], "501", "n1,n2,n7", "without n7"),
        ("n1,n7", ["n7"], [], "501", None, "without n7"),
        ("n1,n7", [], ["n7"], "501", "n1", "no node is under strong suspicion"),
        ("n1,n7", [], ["n7"], "400", None, "no node is under strong suspicion"),
        ("n1", [], [], "501", None, "no node is under strong suspicion"),
    ],
)
def test_a_requeued_job_leaves_out_what_is_under_suspicion_now(
    desk: Desk, before: str, listed: list[str], ended: list[str], job: str, change: str | None, text: str
) -> None:
    for node in [*listed, *ended]:
        suspect_nodes.add(desk.home, node, "glide", "", 3600, by_hand=False)
    for each in suspect_nodes.listed(desk.home):
        if each.node in ended:
            suspect_nodes.note_job(desk.home, each, job)
            suspect_nodes.remove(desk.home, each.node)
    desk.answers["show"] = f"JobId=501 JobName=x\n   ReqNodeList=(null) ExcNodeList={before}\n"
    outcome = desk.do("requeue", exclusion=Exclusion())
    assert outcome.text == f"job 501 on node[5-6] is requeued, {text}"
    assert outcome.short == f"job 501 requeued, {text}"
    left_out = ["watchdogd nodes --remove n7"] if text == "without n7" else []
    assert [each.command for each in outcome.then] == ["scontrol hold 501", *left_out]
    updates = [words[-1] for words in desk.ran if words[1] == "update"]
    assert updates == ([f"ExcNodeList={change}"] if change else [])


@pytest.mark.parametrize(
    "size",
    [
        "NumNodes=2 NumCPUs=2",
        "NumNodes=1 NumCPUs=2\n   ReqTRES=cpu=2,mem=4G,node=2,billing=2\n   AllocTRES=cpu=1,node=1",
        "NumNodes=1-1 NumCPUs=2\n   TRES=node=2,cpu=2",
    ],
    ids=["waits", "one node of two still ends", "an older Slurm"],
)
def test_a_requeued_job_has_enough_nodes_to_start_on(desk: Desk, size: str) -> None:
    for node in ("n7", "n8"):
        suspect_nodes.add(desk.home, node, "glide", "", 3600, by_hand=False)
    desk.answers["show"] = (
        "JobId=501 JobName=x\n   Partition=gpu AllocNode:Sid=n1:2\n   ReqNodeList=(null) ExcNodeList=(null)\n"
        f"   {size}\n   Features=h200 DelayBoot=00:00:00\n"
    )
    desk.answers["--noheader"] = (
        "n5|idle|h200\nn6|drained|h200\nn6|drained|h200\nn7|mixed|ib,h200\nn8|idle|h200\nn9|idle|a100\nn4|down*|h200\n"
    )
    outcome = desk.do("requeue", exclusion=Exclusion())
    left = "not without n7: the job needs 2 of the 3 nodes that work"
    assert outcome.text == f"job 501 on node[5-6] is requeued, without n8; {left}"
    assert [words[-1] for words in desk.ran if words[1] == "update"] == ["ExcNodeList=n8"]


def test_what_watchdogd_left_out_of_a_job_is_known(desk: Desk) -> None:
    """Not what the owner did, and still after the suspicion is renewed."""
    for node in ("n1", "n7"):
        suspect_nodes.add(desk.home, node, "glide", "", 3600, by_hand=False)
    desk.answers["show"] = "JobId=501 JobName=x\n   ReqNodeList=(null) ExcNodeList=n1\n"
    desk.do("requeue", exclusion=Exclusion())
    suspect_nodes.add(desk.home, "n7", "glide", "again", 3600, by_hand=False)
    assert {each.node: each.jobs for each in suspect_nodes.listed(desk.home)} == {"n1": (), "n7": ("501",)}


def test_where_slurm_refuses_the_list_the_script_is_submitted_without(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.jobs = ()
    (desk.home.path / "train.slurm").write_text("#!/bin/sh\nsleep 1\n")
    suspect_nodes.add(desk.home, "n17", "glide", "", 3600, by_hand=False)
    asked: list[bool] = []

    def sbatch(options: Sequence[str], _script: str) -> str:
        asked.append("--exclude=n17" in options)
        if asked[-1]:
            raise SlurmError("sbatch was refused: Invalid node name specified")
        return "777"

    monkeypatch.setattr("watchdogd.batch.slurm.sbatch", sbatch)
    outcome = desk.do("resubmit", "train.slurm")
    assert asked == [True, False]
    why = "it leaves no node out: sbatch was refused: Invalid node name specified"
    assert outcome.short == f"train.slurm submitted as job 777; {why}"
    assert suspect_nodes.listed(desk.home)[0].jobs == ()


def test_where_slurm_does_not_answer_nothing_is_submitted_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.jobs = ()
    (desk.home.path / "train.slurm").write_text("#!/bin/sh\nsleep 1\n")
    suspect_nodes.add(desk.home, "n17", "glide", "", 3600, by_hand=False)
    asked: list[int] = []

    def sbatch(*_: object) -> str:
        asked.append(1)
        raise SlurmSilentError("sbatch got no answer from Slurm")

    monkeypatch.setattr("watchdogd.batch.slurm.sbatch", sbatch)
    assert not desk.do("resubmit", "train.slurm").ok
    assert len(asked) == 1


@pytest.mark.slow
def test_a_job_that_cannot_be_kept_off_a_node_is_requeued_all_the_same(desk: Desk) -> None:
    suspect_nodes.add(desk.home, "n7", "glide", "", 3600, by_hand=False)
    desk.refused = "update"
    outcome = desk.do("requeue", exclusion=Exclusion())
    assert not outcome.ok
    assert "is requeued, but leaves no node out: scontrol update JobId=501 ExcNodeList=n7: " in outcome.text


def test_only_slurms_jobs_leave_nodes_out(desk: Desk) -> None:
    desk.run = replace(RUN, backend="pbs")
    outcome = desk.do("requeue", exclusion=Exclusion())
    assert (outcome.ok, desk.ran) == (False, [])


def test_where_a_script_says_where_it_runs_it_is_left_so(desk: Desk) -> None:
    desk.jobs = ()
    (desk.home.path / "train.slurm").write_text("#!/bin/sh\n#SBATCH -D /scratch\nsleep 1\n")
    desk.do("resubmit", "train.slurm")
    assert not any("chdir" in word for word in desk.ran[0])


def test_nothing_is_submitted_beside_a_job(desk: Desk) -> None:
    assert desk.do("resubmit", "train.slurm") == ActionOutcome(
        "not needed: job 501 is in the queue",
        short="train.slurm not submitted: in the queue already, job 501",
    )


def test_nothing_is_submitted_to_a_run_that_was_stopped_or_is_finished(desk: Desk) -> None:
    desk.jobs = ()
    (desk.home.switches / "glide.finished").write_text("done")
    done = desk.do("resubmit", "train.slurm")
    assert done.text == f"it is marked finished by {account.user_name(os.getuid())}: done"
    assert not done.ok
    switches.press(
        switch_places.find(str(desk.home.path), "glide", "kill"), switches.my_signature("diverges")
    )
    assert desk.do("resubmit", "train.slurm").text.startswith(f"its kill switch is set by {ME} on ")
    assert desk.ran == []


@pytest.mark.parametrize(
    ("mode", "text"),
    [(0o666, "can be written by everybody"), (0, "train.slurm does not exist: there is no ")],
)
def test_a_script_that_others_may_write_or_that_is_gone(desk: Desk, mode: int, text: str) -> None:
    desk.jobs = ()
    script = desk.home.path / "train.slurm"
    if mode:
        script.write_text("#!/bin/sh\n")
        script.chmod(mode)
    outcome = desk.do("resubmit", "train.slurm")
    assert not outcome.ok
    assert text in outcome.text
    assert outcome.why == f"train.slurm {'cannot be trusted' if mode else 'does not exist'}"
    assert outcome.then == (
        ()
        if mode
        else (Advice("Correct resubmit under [runs.glide] in config.toml, then submit its next job."),)
    )
    assert desk.ran == []


def test_a_job_that_would_not_count_is_not_submitted(desk: Desk) -> None:
    desk.jobs = ()
    desk.run = replace(RUN, users=frozenset({"ann"}))
    (desk.home.path / "train.slurm").write_text("#!/bin/sh\n")
    outcome = desk.do("resubmit", "train.slurm")
    assert (
        outcome.text == f"a job of {ME} would not count for glide; ann: sbatch {desk.home.path}/train.slurm"
    )


@pytest.mark.parametrize(
    ("kind", "text"), [("requeue", "no batch system is known"), ("resubmit", "Slurm alone")]
)
def test_what_a_plain_process_has_not(desk: Desk, kind: str, text: str) -> None:
    desk.run = replace(RUN, backend="process")
    outcome = desk.do(kind, "train.slurm")
    assert (outcome.ok, desk.ran) == (False, [])
    assert text in outcome.text


@pytest.mark.parametrize(
    ("backend", "kind", "woken"),
    [
        ("process", "kill", ("saves and stops only once it is woken, on ws1:", "kill -CONT 501")),
        ("process", "save", ("saves only once it is woken, on ws1:", "kill -CONT 501")),
        (
            "slurm",
            "kill",
            (
                "saves and stops only once it is woken (by the cluster's administrators):",
                "scontrol resume 501",
            ),
        ),
    ],
)
def test_a_suspended_run_cannot_obey_a_switch_before_it_is_woken(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, backend: str, kind: str, woken: tuple[str, str]
) -> None:
    monkeypatch.setattr(switches, "unpolled", lambda _switch: "")
    desk.run = replace(RUN, backend=backend)
    asleep = replace(JOB, state="SUSPENDED", nodes="ws1")
    record = ActionRecord(3, "glide", "on_hang", Action(f"{kind}-switch"), NOW)
    monkeypatch.setattr(live_job, "locate", lambda run, users, gpus: LiveJob(run, (asleep,)))
    done = executor.do(ActionTask(record, INCIDENT, desk.home, desk.run, queue=(asleep,)))
    assert done.short == f"{kind} switch pressed by watchdogd, but it is suspended"
    first, back = done.then
    assert first == Advice(f"It is suspended, and {woken[0]}", woken[1])
    assert back.command == f"watchdogd {kind}-switch glide --clear"
    if kind == "kill":
        assert back.sentence == "To let it train on, clear the switch before you wake it:"


def test_a_switch_that_is_set_already(desk: Desk) -> None:
    done = desk.do("kill-switch")
    unheard = "no Guard of glide was heard of: nothing stops for it but what runs under watchdogd guard"
    assert done.text == f"{desk.home.switches}/glide.kill is set; {unheard}"
    assert done.short == "kill switch pressed by watchdogd, but no Guard of it was heard of"
    assert [each.command for each in done.then] == ["watchdogd kill-switch glide --clear"]
    again = desk.do("kill-switch")
    assert again.text.startswith("it was set already by watchdogd on ")
    assert again.short == "kill switch was set already, but no Guard of it was heard of"
    touch = switches.read(switch_places.find(str(desk.home.path), "glide", "kill"))
    assert touch
    assert touch.reason == "on_hang, incident 3"
