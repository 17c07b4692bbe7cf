"""squeue's text: every form of id, state and placeholder, and names that are made to confuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchdogd.batch import slurmtext, squeue
from watchdogd.batch.slurmtext import FIELD, RECORD
from watchdogd.errors import UnreadableError
from watchdogd.system.times import slurm_duration

DEFAULTS = {
    "i": "512",
    "A": "512",
    "F": "512",
    "T": "RUNNING",
    "r": "None",
    "u": "alice",
    "P": "gpu",
    "a": "lab",
    "E": "(null)",
    "N": "node[2-3]",
    "Y": "(null)",
    "D": "2",
    "V": "1795825000",
    "S": "1795825721",
    "e": "1795912121",
    "l": "1-00:00:00",
    "Z": "/home/alice/tr11",
    "k": "(null)",
    "j": "tr11-176B-ml",
}


def line(**fields: str) -> str:
    """One record as `squeue --format=FORMAT` prints it."""
    return RECORD + FIELD.join({**DEFAULTS, **fields}.values()) + "\n"


def test_format_is_the_order_of_these_lines() -> None:
    assert RECORD + FIELD.join(f"%{letter}" for letter in DEFAULTS) == squeue.FORMAT


def test_running_job() -> None:
    (job,) = squeue.read(line())
    assert (job.id, job.raw_id, job.name, job.user) == ("512", "512", "tr11-176B-ml", "alice")
    assert (job.state, job.reason, job.array_id, job.tasks) == ("RUNNING", "", "", 1)
    assert (job.nodes, job.node_count, job.partition, job.account) == ("node[2-3]", 2, "gpu", "lab")
    assert (job.submitted_at, job.started_at, job.ends_at) == (1795825000, 1795825721, 1795912121)
    assert (job.start_estimate, job.time_limit, job.work_dir) == (None, 86400, "/home/alice/tr11")
    assert (job.comment, job.dependency) == ("", "")


def test_start_of_a_waiting_job_is_an_estimate() -> None:
    (job,) = squeue.read(line(T="PENDING", r="Priority", N="", D="1-4"))
    assert (job.start_estimate, job.started_at, job.ends_at, job.nodes) == (1795825721, None, None, "")
    assert (job.reason, job.node_count, job.expected_nodes) == ("Priority", 1, "")
    (job,) = squeue.read(line(T="PENDING", r="Priority", N="", Y="node4"))
    assert (job.nodes, job.expected_nodes) == ("", "node4")
    (job,) = squeue.read(line(T="PENDING", S="N/A", e="N/A", l="UNLIMITED"))
    assert (job.start_estimate, job.time_limit) == (None, None)


@pytest.mark.parametrize(
    ("field", "count"),
    [
        ("88", 1),
        ("88_3", 1),
        ("123+0", 1),
        ("88_[10%1]", 1),
        ("88_[2-10%1]", 9),
        ("88_[5-1024]", 1020),
        ("88_[1,3,7-9]", 5),
        ("88_[0-8:2%4]", 5),
        ("88_[1,3,...]", 3),
    ],
)
def test_array_tasks_are_counted(field: str, count: int) -> None:
    (job,) = squeue.read(line(i=field, A="88", F="88"))
    assert (job.id, job.tasks) == (field, count)
    assert job.array_id == ("88" if "_" in field else "")


def test_het_component() -> None:
    (job,) = squeue.read(line(i="123+1", A="124", F="124"))
    assert (job.id, job.raw_id) == ("123+1", "124")


@pytest.mark.parametrize(
    ("field", "state"),
    [
        ("PENDING", "PENDING"),
        ("COMPLETING", "COMPLETING"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("REQUEUE_HOLD", "REQUEUE_HOLD"),
        ("SPECIAL_EXIT", "SPECIAL_EXIT"),
        ("RUNNING,COMPLETING", "RUNNING"),
        ("PENDING|REQUEUED", "PENDING"),
    ],
)
def test_states_lose_their_flags(field: str, state: str) -> None:
    (job,) = squeue.read(line(T=field))
    assert job.state == state


@pytest.mark.parametrize(
    "reason", ["(launch failed requeued held)", "Nodes required for job are DOWN, DRAINED"]
)
def test_reasons_keep_their_words(reason: str) -> None:
    (job,) = squeue.read(line(T="PENDING", r=reason))
    assert job.reason == reason


NAMES = [
    "a name with | and, commas µ£ that is far longer than the forty characters of old — 100%",
    "two\nlines",
    "  lead and trail ",
    f"sep{FIELD}inside",
    f"rec{RECORD}7inside",
    "(null)",
    "not utf-8 \\xff",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_stay_whole(name: str) -> None:
    first, second = squeue.read(line(j=name) + line(i="513", A="513"))
    assert (first.name, second.id) == (name, "513")


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters=RECORD)).map(lambda name: name + "x")),
)
def test_any_names_stay_whole(names: list[str]) -> None:
    text = "".join(line(i=str(number + 1), A=str(number + 1), j=name) for number, name in enumerate(names))
    assert [job.name for job in squeue.read(text)] == names


def test_cancelled_while_waiting_never_started() -> None:
    (job,) = squeue.read(line(T="CANCELLED", S="1795826078", e="1795826078", N=""))
    assert (job.started_at, job.ends_at, job.ended, job.waiting) == (None, 1795826078, True, False)


def test_comment_over_lines_and_own_mark() -> None:
    (job,) = squeue.read(line(k="watchdogd:ab12\nand more"))
    assert job.own
    (job,) = squeue.read(line(k="not watchdogd:ab12"))
    assert not job.own


def test_nothing_and_cluster_line() -> None:
    assert squeue.read("") == ()
    assert squeue.read("\n") == ()
    assert len(squeue.read("CLUSTER: dawn\n" + line())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
        RECORD + FIELD.join(["512", "512", "512", "RUNNING", "None"]) + "\n",
        line(D="N/A"),
        line()[:30],
    ],
)
def test_what_makes_no_sense_is_said(text: str) -> None:
    with pytest.raises(UnreadableError, match="squeue printed a") as raised:
        squeue.read(text)
    assert "\\x1" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_argv() -> None:
    assert squeue.argv(["bob", "alice"])[:5] == (
        "squeue",
        "--noheader",
        "--all",
        "--noconvert",
        "--user=alice,bob",
    )
    assert squeue.argv() == ("squeue", "--noheader", "--all", "--noconvert", f"--format={squeue.FORMAT}")
    assert "--states=all" in squeue.argv(ended=True)


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("0", 0),
        ("45", 45),
        ("10:00", 600),
        ("1:02:03", 3723),
        ("2-00:00:01", 172801),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("Partition_Limit", None),
        ("INVALID", None),
    ],
)
def test_durations(field: str, seconds: float | None) -> None:
    assert slurm_duration(field) == seconds


def test_times() -> None:
    assert slurmtext.time("1795825721") == 1795825721
    assert slurmtext.time("2026-11-28T00:28:41+00:00") == 1795825721
    for nothing in ("N/A", "Unknown", "NONE", "0", ""):
        assert slurmtext.time(nothing) is None
