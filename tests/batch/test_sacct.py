"""sacct's text: ends of every kind, records over lines, steps, requeues, and what breaks off."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from watchdogd.batch import sacct, scontrol, slurm_snapshot
from watchdogd.batch.slurmtext import FIELD
from watchdogd.errors import UnreadableError
from watchdogd.system.account import user_name

DEFAULTS = {
    "JobIDRaw": "615",
    "JobID": "615",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "1795825000",
    "Start": "1795825100",
    "End": "1795828700",
    "User": "alice",
    "UID": "1001",
    "NodeList": "node[2-3]",
    "Reason": "None",
    "Comment": "",
    "SubmitLine": "sbatch --array=1-3%1 train.slurm",
    "JobName": "tr11-176B-ml",
}


def line(**fields: str) -> str:
    """One record as `sacct --parsable2 --delimiter=FIELD` prints it."""
    return FIELD.join({**DEFAULTS, **fields}.values()) + "\n"


def test_asked_for_in_the_order_of_these_lines() -> None:
    assert f"--format={','.join(DEFAULTS)}" in sacct.argv(["alice"], since_minutes=5)


def test_argv_names_users_names_and_start() -> None:
    asked = sacct.argv(["bob", "alice"], ["tr11", "a b"], since_minutes=90)
    for word in ("--user=alice,bob", "--name=a b,tr11", "--starttime=now-90minutes", "--allocations"):
        assert word in asked
    old = sacct.argv(["alice"], since_minutes=5, without=["SubmitLine"])
    assert "SubmitLine" not in old[-1]
    assert old[-1].count(",") == len(DEFAULTS) - 2
    for name in ("a,b", 'the "best"', "bob's", "a\\b", "a[1-2]", " a"):
        asked = sacct.argv(["alice"], ["tr11", name], since_minutes=90)
        assert not [word for word in asked if word.startswith("--name")]


def test_a_field_that_this_sacct_does_not_know() -> None:
    assert sacct.refused_field('sacct: error: Invalid field requested: "SubmitLine"') == "SubmitLine"
    assert sacct.refused_field('sacct: error: Invalid field requested: "State"') == ""
    assert sacct.refused_field("sacct: error: Slurm accounting storage is disabled") == ""
    fields = {name: value for name, value in DEFAULTS.items() if name != "Reason"}
    (end,) = sacct.read(FIELD.join(fields.values()) + "\n", without=["Reason"])
    assert (end.name, end.reason) == ("tr11-176B-ml", "")


def test_earlier_attempts_are_kept_apart() -> None:
    first = line(State="NODE_FAIL", Submit="1795825000", End="1795825500")
    second = line(State="RUNNING", Submit="1795825600", End="Unknown")
    (present,), (attempt,) = sacct.read_all(first + second)
    assert (present.state, present.ended_at) == ("RUNNING", None)
    assert (attempt.state, attempt.ended_at) == ("NODE_FAIL", 1795825500)


def test_completed() -> None:
    (end,) = sacct.read(line())
    assert (end.id, end.raw_id, end.name, end.user) == ("615", "615", "tr11-176B-ml", "alice")
    assert (end.submitted_at, end.started_at, end.ended_at) == (1795825000, 1795825100, 1795828700)
    assert (end.exit_code, end.signal, end.nodes, end.reason) == (0, 0, "node[2-3]", "")
    assert (end.over, end.well, end.lasted, end.how) == (True, True, 3600, "COMPLETED")


@pytest.mark.parametrize(
    ("state", "code", "how"),
    [
        ("FAILED", "3:0", "FAILED (exit 3)"),
        ("FAILED", "0:9", "FAILED by SIGKILL"),
        ("FAILED", "0:53", "FAILED, since its output file (--output, --error) could not be opened"),
        ("TIMEOUT", "0:0", "TIMEOUT"),
        ("OUT_OF_MEMORY", "0:125", "OUT_OF_MEMORY"),
        (" OUT_OF_MEMORY ", "0:125", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "1:0", "NODE_FAIL (exit 1)"),
        ("PREEMPTED", "0:0", "PREEMPTED"),
        ("CANCELLED by 1002", "0:0", "CANCELLED by 1002"),
        ("CANCELLED by 0", "0:15", "CANCELLED by 0"),
        ("CANCELLED+", "0:15", "CANCELLED by SIGTERM"),
    ],
)
def test_how_it_ended(state: str, code: str, how: str) -> None:
    (end,) = sacct.read(line(State=state, ExitCode=code))
    assert (end.how, end.over, end.well) == (how, True, False)


def test_cancelled_while_waiting() -> None:
    (end,) = sacct.read(line(State="CANCELLED by 1002", Start="None", NodeList="None assigned"))
    assert (end.started_at, end.lasted, end.nodes, end.cancelled_by) == (None, None, "", "1002")


@pytest.mark.parametrize("state", ["RUNNING", "PENDING"])
def test_living(state: str) -> None:
    (end,) = sacct.read(line(State=state, End="Unknown"))
    assert (end.state, end.ended_at, end.over) == (state, None, False)


def test_requeued_is_no_end() -> None:
    (end,) = sacct.read(line(State="REQUEUED"))
    assert not end.over


def test_steps_are_dropped() -> None:
    text = line() + line(JobIDRaw="615.batch", JobID="615.batch") + line(JobIDRaw="615.0", JobID="615.0")
    assert [end.raw_id for end in sacct.read(text)] == ["615"]


STEPS = [
    ("FAILED", "77:0", [("batch", "FAILED", "77:0"), ("0", "OUT_OF_MEMORY", "0:125")],
     "FAILED (exit 77; step 0: OUT_OF_MEMORY)"),
    ("FAILED", "1:0", [("batch", "OUT_OF_MEMORY", "0:125"), ("0", "COMPLETED", "0:0")],
     "FAILED (exit 1; batch: OUT_OF_MEMORY)"),
    ("FAILED", "134:0", [("0", "FAILED", "0:6"), ("1", "OUT_OF_MEMORY", "0:125")],
     "FAILED (exit 134; step 1: OUT_OF_MEMORY)"),
    ("FAILED", "134:0", [("0", "FAILED", "0:6"), ("1", "CANCELLED", "0:15")],
     "FAILED (exit 134; step 0: FAILED by SIGABRT)"),
    ("FAILED", "77:0", [("batch", "FAILED", "77:0"), ("0", "CANCELLED", "0:6")],
     "FAILED (exit 77; step 0: CANCELLED by SIGABRT)"),
    ("FAILED", "77:0", [("0", "CANCELLED", "0:15")], "FAILED (exit 77)"),
    ("TIMEOUT", "0:0", [("batch", "CANCELLED", "0:15"), ("0", "OUT_OF_MEMORY", "0:125")],
     "TIMEOUT (step 0: OUT_OF_MEMORY)"),
    ("TIMEOUT", "0:0", [("batch", "CANCELLED", "0:15"), ("0", "FAILED", "0:6")], "TIMEOUT"),
    ("FAILED", "3:0", [("batch", "FAILED", "3:0"), ("0", "FAILED", "3:0")], "FAILED (exit 3)"),
    ("FAILED", "137:0", [("0", "FAILED", "0:9")], "FAILED (exit 137)"),
    ("CANCELLED by 1002", "0:0", [("batch", "CANCELLED", "0:15")], "CANCELLED by 1002"),
    ("OUT_OF_MEMORY", "0:125", [("batch", "OUT_OF_MEMORY", "0:125")], "OUT_OF_MEMORY"),
    ("FAILED", "1:0", [], "FAILED (exit 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("state", "code", "steps", "how"), STEPS)
def test_of_job_batch_and_steps_the_most_telling_end_is_named(
    state: str, code: str, steps: list[tuple[str, str, str]], how: str
) -> None:
    (end,) = sacct.read(line(State=state, ExitCode=code))
    text = line(State=state, ExitCode=code) + "".join(
        line(JobIDRaw=f"615.{name}", JobID=f"615.{name}", State=said, ExitCode=its, User="", UID="")
        for name, said, its in steps
    )
    assert sacct.with_step(end, sacct.read_steps(text)).how == how


def test_steps_of_other_jobs_and_attempts_say_nothing_of_this_one() -> None:
    (end,) = sacct.read(line(State="FAILED", ExitCode="1:0"))
    oom = {"State": "OUT_OF_MEMORY", "ExitCode": "0:125"}
    other = line(JobIDRaw="616.0", JobID="616.0", **oom)
    earlier = line(JobIDRaw="615.0", JobID="615.0", End="1795824000", **oom)
    later = line(JobIDRaw="615.0", JobID="615.0", End="1795829000", **oom)
    assert sacct.with_step(end, sacct.read_steps(other + earlier + later)).step == ""


def test_steps_are_asked_for_by_their_jobs() -> None:
    asked = sacct.steps_argv(["616", "615"], since_minutes=90, without=["SubmitLine"])
    for word in ("--jobs=615,616", "--starttime=now-90minutes", "--duplicates"):
        assert word in asked
    assert "--allocations" not in asked
    assert "SubmitLine" not in asked[-1]


def test_array_tasks_and_het_components() -> None:
    text = line(JobID="610_4", JobIDRaw="610") + line(JobID="700+1", JobIDRaw="701")
    assert [(end.id, end.raw_id) for end in sacct.read(text)] == [("610_4", "610"), ("700+1", "701")]


def test_of_a_requeued_job_the_latest_record_wins() -> None:
    first = line(State="PREEMPTED", Submit="1795825000", End="1795826000")
    second = line(State="PENDING", Submit="1795826001", Start="Unknown", End="Unknown")
    for text in (first + second, second + first):
        (end,) = sacct.read(text)
        assert (end.state, end.ended_at) == ("PENDING", None)


def test_oldest_end_first_and_the_living_last() -> None:
    text = (
        line(JobIDRaw="3", State="RUNNING", End="Unknown")
        + line(JobIDRaw="2", End="1795829999")
        + line(JobIDRaw="1", End="1795825200")
    )
    assert [end.raw_id for end in sacct.read(text)] == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["two\nlines", "a | b", "5\n6 7", "naïve, 100 %", "", f"a{FIELD}b"])
def test_names_stay_whole(name: str) -> None:
    first, second = sacct.read(line(JobName=name) + line(JobIDRaw="616", End="1795829000"))
    assert (first.name, second.raw_id) == (name, "616")


def test_comments_and_submit_lines_may_span_lines() -> None:
    text = line(Comment="a\nb", SubmitLine="sbatch --comment a\nb\n--wrap x") + line(JobIDRaw="616")
    assert [end.raw_id for end in sacct.read(text)] == ["615", "616"]


def test_own_jobs_are_known_by_comment_or_submit_line() -> None:
    assert sacct.read(line(Comment="watchdogd:ab12"))[0].own
    assert sacct.read(line(SubmitLine="sbatch --comment=watchdogd:ab12 link.sh"))[0].own
    assert not sacct.read(line())[0].own


def test_a_user_without_a_name_is_a_number() -> None:
    assert sacct.read(line(User=""))[0].user == "1001"


def test_nothing() -> None:
    assert sacct.read("") == ()
    assert sacct.read("\n") == ()


@pytest.mark.parametrize(
    "text",
    [
        'sacct: error: Invalid field requested: "SubmitLine"\n',
        FIELD.join(list(DEFAULTS.values())[:8]) + "\n",
        line()[:12],
    ],
)
def test_what_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(UnreadableError, match="sacct printed a"):
        sacct.read(text)


SHOW = """\
JobId=24 JobName=x ExitCode=9:9
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=3:0
   Comment=a
   Requeue=1 ExitCode=7:7
   WorkDir=/home/alice

JobId=27 ArrayJobId=25 ArrayTaskId=2 JobName=tr11
   JobState=COMPLETED Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:9
"""


def test_the_node_of_a_jobs_script() -> None:
    shown = "JobId=31 JobName=try\n   ReqNodeList=(null)\n   NodeList=cpu[3-4]\n   BatchHost=cpu3\n"
    assert scontrol.host(shown) == "cpu3"
    assert scontrol.host("JobId=31 JobName=try\n   NodeList=(null)\n   NumNodes=1\n") == ""


def test_exit_codes_of_scontrol() -> None:
    assert scontrol.exit_codes(SHOW) == {"24": (3, 0), "27": (0, 9)}
    assert scontrol.states(SHOW) == {"24": "FAILED", "27": "COMPLETED"}
    assert scontrol.exit_codes("slurm_load_jobs error: Invalid job id specified\n") == {}


def test_the_controllers_no() -> None:
    assert scontrol.unknown_job("slurm_load_jobs error: Invalid job id specified")
    assert not scontrol.unknown_job("slurm_load_jobs error: Socket timed out on send/recv operation")


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        ("PrivateData             = none", False),
        ("PrivateData             = accounts,jobs,usage", True),
        ("PrivateData             = jobsx", False),
        ("", False),
    ],
)
def test_private_data(line: str, *, hidden: bool) -> None:
    assert scontrol.hides_jobs(f"PluginDir = /usr/lib\n{line}\nX = y\n") is hidden


def test_a_look_asks_for_the_steps_of_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Once it is over, and of nothing else: accounting is first asked for allocations, which have none."""
    now = time.time()
    times = {
        "Submit": f"{now - 90:.0f}",
        "Start": f"{now - 80:.0f}",
        "End": f"{now - 20:.0f}",
        "User": user_name(os.geteuid()),
    }
    failed = line(State="FAILED", ExitCode="77:0", **times)
    well = line(JobIDRaw="616", JobID="616", **times)
    killed = line(
        JobIDRaw="615.0", JobID="615.0", State="OUT_OF_MEMORY", ExitCode="0:125", **{**times, "User": ""}
    )
    for name, text in (("jobs", failed + well), ("steps", failed + killed)):
        (tmp_path / name).write_text(text)
    (tmp_path / "sacct").write_text(
        f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
case "$*" in
*--allocations*) cat {tmp_path}/jobs ;;
*--jobs=615\\ *) cat {tmp_path}/steps ;;
*) exit 1 ;;
esac
"""
    )
    (tmp_path / "squeue").write_text("#!/bin/sh\n")
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    for tool in ("sacct", "squeue", "scontrol"):
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen = slurm_snapshot.look([DEFAULTS["JobName"]], [], {}, 30.0, now)
    assert [end.how for end in seen.ended(DEFAULTS["JobName"])] == [
        "FAILED (exit 77; step 0: OUT_OF_MEMORY)",
        "COMPLETED",
    ]
    assert len((tmp_path / "asked").read_text().splitlines()) == 2
    later = slurm_snapshot.look([DEFAULTS["JobName"]], [], {}, 30.0, now + 3600.0)
    assert [end.step for end in later.ended(DEFAULTS["JobName"])] == ["", ""]
    assert len((tmp_path / "asked").read_text().splitlines()) == 3
    missed = slurm_snapshot.look([DEFAULTS["JobName"]], [], {"615": now - 100.0}, 30.0, now + 1500.0)
    assert [bool(end.step) for end in missed.ended(DEFAULTS["JobName"])] == [True, False]
