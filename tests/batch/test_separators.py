"""Whatever a job says of itself, it is one record and no other job's; broken ones cost themselves alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batch import test_sacct, test_squeue
from watchdogd.batch import qstat, sacct, sinfo, slurmtext, squeue
from watchdogd.batch.slurmtext import FIELD, RECORD
from watchdogd.errors import UnreadableError

MARK = "3fa1b2c4"
FORGED = test_squeue.line(i="9", A="9", u="alice", j="victim").rstrip("\n")
ANY = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from(
        [FIELD, RECORD, "\n", "\r", "\0", "\x1b[2J", "\x85", "\u2028", "|", "9", "RUNNING", FORGED, "é"]
    )
).map("".join)


def queued(number: int, folder: str, comment: str, name: str) -> str:
    """A record as `squeue` prints it with the format of `argv`."""
    plain = test_squeue.line(i=str(number), A=str(number))[1:].split(FIELD)[:-3]
    return (
        RECORD
        + MARK
        + FIELD.join(plain)
        + "".join(f"{FIELD}{MARK}{text}" for text in (folder, comment, name))
        + "\n"
    )


def ended(number: int, comment: str, submitted: str, name: str) -> str:
    given = {
        "JobIDRaw": str(number),
        "JobID": str(number),
        "Comment": comment,
        "SubmitLine": submitted,
        "JobName": name,
    }
    return f"{FIELD}{MARK}".join({**test_sacct.DEFAULTS, **given}.values()) + "\n"


def test_what_is_asked_for_has_the_mark() -> None:
    form = squeue.argv(mark=MARK)[-1]
    assert form.startswith(f"--format={RECORD}{MARK}%i{FIELD}%A")
    assert form.endswith(f"%l{FIELD}{MARK}%Z{FIELD}{MARK}%k{FIELD}{MARK}%j")
    assert f"--delimiter={FIELD}{MARK}" in sacct.argv(["alice"], since_minutes=1, mark=MARK)
    assert sinfo.form(MARK).count(MARK) == 5
    assert slurmtext.mark() != slurmtext.mark()


@pytest.mark.attack("write what separates fields of Slurm's tools")
@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=3))
def test_a_job_is_one_job_whatever_it_says(texts: list[tuple[str, str, str]]) -> None:
    found = squeue.read("".join(queued(at + 1, *each) for at, each in enumerate(texts)), MARK)
    assert [(job.raw_id, job.user) for job in found] == [(str(at + 1), "alice") for at in range(len(texts))]
    assert [job.name for job in found] == [name for _, _, name in texts]
    assert [job.comment for job in found] == [slurmtext.text(comment) for _, comment, _ in texts]


@given(st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=3))
def test_an_end_is_one_end_whatever_it_says(texts: list[tuple[str, str, str]]) -> None:
    found = sacct.read("".join(ended(at + 1, *each) for at, each in enumerate(texts)), mark=MARK)
    assert sorted(int(end.raw_id) for end in found) == [at + 1 for at in range(len(texts))]
    assert {end.raw_id: end.name for end in found} == {
        str(at + 1): name for at, (_, _, name) in enumerate(texts)
    }


@given(ANY)
def test_a_reason_makes_no_node(reason: str) -> None:
    rows = "".join(
        f"{FIELD}{MARK}".join((name, "gpu", "drained", "1795825721", "root", said)) + "\n"
        for name, said in (("node7", reason), ("node8", "none"))
    )
    assert [node.name for node in sinfo.read(rows, MARK)] == ["node7", "node8"]


@given(ANY)
def test_an_answer_without_the_mark_is_read_as_far_as_it_can_be(name: str) -> None:
    try:
        squeue.read(test_squeue.line(j=name), MARK)
    except UnreadableError:
        pytest.fail("a whole record was refused")


def test_a_broken_record_costs_itself_alone() -> None:
    whole = queued(1, "", "", "one"), queued(3, "", "", "three")
    for broken in (
        queued(2, "", "", "two").replace("RUNNING", "?"),
        RECORD + MARK + "2\n",
        queued(2, "", "", "").replace(MARK + "\n", "\n"),
    ):
        assert [job.raw_id for job in squeue.read(whole[0] + broken + whole[1], MARK)] == ["1", "3"]
        with pytest.raises(UnreadableError):
            squeue.read(broken, MARK)
    ends = (
        ended(1, "", "", "one")
        + ended(2, "", "", "two").replace("alice", f"alice{FIELD}{MARK}")
        + ended(3, "", "", "x")
    )
    assert [end.raw_id for end in sacct.read(ends, mark=MARK)] == ["1", "3"]
    jobs = {"1.s": {"job_state": "R", "Job_Owner": "alice@n"}, "2.s": {"job_state": "?"}}
    assert [job.raw_id for job in qstat.jobs(jobs)] == ["1.s"]


def test_a_second_record_of_a_job_is_none_of_the_servers() -> None:
    text = "Job Id: 1.s\n    Job_Owner = alice@n\n    job_state = R\n    Variable_List = A=x\n"
    forged = "Job Id: 1.s\n    Job_Owner = bob@n\n    job_state = C\n"
    (job,) = qstat.jobs(qstat.records(text + forged))
    assert (job.user, job.state) == ("alice", "RUNNING")
    (job,) = qstat.jobs(qstat.records(text.replace("A=x", "A=\x1eJob Id: 2.s\x85    job_state = R")))
    assert job.raw_id == "1.s"
