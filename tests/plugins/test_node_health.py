"""node_health: spare nodes, nodes of jobs that leave service, and what an administrator can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.words import commands_of, text_of
from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.batch.sinfo import SlurmNode
from watchdogd.plugin import Plugin, Result, Run, Status
from watchdogd.plugins.node_health import check
from watchdogd.plugins.node_health.check import NodeHealthState, node_health, of_jobs, spares, to_exclude
from watchdogd.units import Amount, parse_amount

HEALTH: Plugin = node_health
GPUS = (
    SlurmNode("cn01", "gpu", "allocated"),
    SlurmNode("cn02", "gpu", "draining", "", 1795825721.0, "slurm", "Kill task failed"),
    SlurmNode("cn03", "gpu", "idle"),
    SlurmNode("cn04", "gpu", "drained", "", None, "root", "bad DIMM"),
    SlurmNode("cn05", "small", "idle"),
)
JOB = Job("88_1", "89", "tr11", "bob", "RUNNING", nodes="cn[01-02]")
SEEN = Snapshot(0.0, (JOB,), users=frozenset({"bob"}))
RUN = Run("run-17", "tr11")


@pytest.mark.parametrize(
    ("wanted", "status"),
    [
        (None, Status.OK),
        (Amount(absolute=1), Status.OK),
        (parse_amount(2), Status.WARNING),
        (parse_amount("25%"), Status.OK),
        (parse_amount("50%"), Status.WARNING),
    ],
)
def test_spare_nodes_by_number_and_by_share_of_the_partition(wanted: Amount | None, status: Status) -> None:
    result = spares(GPUS, "gpu", wanted)
    assert result.status is status
    line = "1 of 4 nodes in gpu is idle, 2 out of service"
    if status is Status.WARNING:
        line = (
            f"only 1 spare node in partition gpu, {wanted.of(4):g} wanted, 2 out of service" if wanted else ""
        )
    assert result.summary == line
    assert result.metrics["idle"].value == 1


def test_drained_nodes_are_named_and_the_healthy_among_them_can_be_had_back() -> None:
    details = spares(GPUS, "gpu", None).details.splitlines()
    assert details[1] == "cn04: drained by root: bad DIMM"
    assert details[-1] == "scontrol update NodeName=cn02 State=RESUME"


def test_a_node_in_two_partitions_counts_once() -> None:
    twice = (*GPUS, SlurmNode("cn03", "all", "idle"))
    assert spares(twice, "", None).summary.startswith("2 of 5 nodes are idle")


def test_a_partition_that_is_not_there_is_unknown_with_the_nearest() -> None:
    result = spares(GPUS, "gpus", Amount(absolute=1))
    assert result.status is Status.UNKNOWN
    assert "did you mean 'gpu'" in text_of(result)


@pytest.mark.parametrize("run", [RUN, None])
def test_a_node_of_the_run_that_drains(run: Run | None) -> None:
    [result] = of_jobs(GPUS, run, SEEN)
    assert (result.status, result.subject) == (Status.WARNING, "cn02")
    assert "by slurm: Kill task failed (mostly a healthy node" in text_of(result)
    assert "job 88_1 (tr11)" in text_of(result)
    assert "State=RESUME" in result.details


@pytest.mark.parametrize(
    ("state", "flags", "status"),
    [
        ("down", "*", Status.CRITICAL),
        ("fail", "", Status.CRITICAL),
        ("allocated", "*", Status.WARNING),
        ("drained", "", Status.WARNING),
    ],
)
def test_how_bad_a_state_of_the_runs_node_is(state: str, flags: str, status: Status) -> None:
    assert [each.status for each in of_jobs([SlurmNode("cn01", "gpu", state, flags)], RUN, SEEN)] == [status]


@pytest.mark.parametrize(
    "job",
    [
        Job("7", "7", "tr11", "carol", "RUNNING", nodes="cn02"),
        Job("7", "7", "tr11", "bob", "PENDING", nodes="cn02"),
        Job("7", "7", "tr11", "bob", "RUNNING", nodes="cn03"),
        Job("7", "7", "tr11", "bob", "RUNNING", nodes="cn02", comment="watchdogd:4f"),
    ],
)
def test_nodes_of_others_and_jobs_that_do_not_run_are_no_matter(job: Job) -> None:
    seen = Snapshot(0.0, (job,), users=frozenset({"bob"}))
    assert [*of_jobs(GPUS, RUN, seen), *of_jobs(GPUS, None, seen)] == []


def rounds(folder: Path, memory: dict[str, Any], script: str, seen: Snapshot = SEEN) -> dict[str, Result]:
    """One round with a sinfo that does what `script` says."""
    tool = folder / "sinfo"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    results = HEALTH.results({"deadline": 10.0}, {"run": RUN, "snapshot": seen, "memory": memory})
    return {result.subject: result for result in results}


def said(state: str) -> str:
    return rf"printf 'cn02\037gpu\037{state}\037Unknown\037Unknown\037none\n'"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_a_node_that_is_back_is_told_and_not_while_the_queue_is_unseen(path: Path) -> None:
    memory: dict[str, Any] = {}
    assert rounds(path, memory, said("draining"))["cn02"].status is Status.WARNING
    assert "cn02" not in rounds(path, memory, said("allocated"), Snapshot(0.0, None, "no answer"))
    assert rounds(path, memory, said("allocated"))["cn02"].status is Status.OK


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'sinfo: error: no controller' >&2; exit 1", "no controller"),
        ("echo what is this", "what is this"),
        ("true", "printed none"),
    ],
)
def test_what_cannot_be_found_out_is_unknown(path: Path, script: str, why: str) -> None:
    found = rounds(path, {"said": ["cn02"]}, script)
    assert list(found) == [""]
    assert found[""].status is Status.UNKNOWN
    assert why in text_of(found[""])


def ended(number: int, state: str, nodes: str, at: float | None = None) -> Ending:
    """A job of the run that ended at minute `number`."""
    when = 60.0 * number if at is None else at
    return Ending(str(number), str(number), "tr11", "bob", state, 1, ended_at=when, nodes=nodes)


@pytest.mark.parametrize(
    ("endings", "named"),
    [
        ([(1, "NODE_FAIL", "cn[03-04]"), (2, "BOOT_FAIL", "cn[04-07]")], ["cn04"]),
        ([(1, "NODE_FAIL", "cn[03-04]"), (2, "NODE_FAIL", "cn[03-04]")], []),  # all of them: it is the job
        ([(1, "BOOT_FAIL", "cn05"), (2, "NODE_FAIL", "cn05")], ["cn05"]),
        (
            [(1, "FAILED", "cn05"), (2, "FAILED", "cn05"), (3, "FAILED", "cn05")],
            [],
        ),  # by its code
        ([(1, "NODE_FAIL", "cn[01-04]"), (2, "NODE_FAIL", "cn[01-04]")], ["cn02"]),  # which is broken
        ([(1, "NODE_FAIL", "cn[01-02]"), (2, "NODE_FAIL", "cn[02-05]"), (3, "COMPLETED", "cn02")], []),
        ([(1, "NODE_FAIL", "cn[03-04]"), (2, "CANCELLED", "cn[04-07]")], []),
        ([(1, "NODE_FAIL", "cn[03-04]")], []),
        ([(1, "NODE_FAIL", "cn[03-04]"), (1, "NODE_FAIL", "cn[03-04]")], []),  # seen twice
    ],
)
def test_nodes_that_failed_more_than_one_job(endings: list[tuple[int, str, str]], named: list[str]) -> None:
    ends: check.Attempts = {}
    for each in endings:
        ends = check.add_endings(ends, [ended(*each)], {"cn02"}, 600.0)
    assert [suspect.node for suspect in check.suspect_nodes(ends)] == named


def test_candidates_are_ready_to_paste_and_forgotten_in_time() -> None:
    known = NodeHealthState()
    ends = (ended(1, "NODE_FAIL", "cn[03-04]"), ended(2, "BOOT_FAIL", "cn[03-08]"))
    seen = Snapshot(600.0, (), endings=ends, users=frozenset({"bob"}))
    [result] = to_exclude(GPUS, RUN, seen, known)
    assert (result.status, result.subject) == (Status.WARNING, "exclude")
    assert result.summary == "2 jobs failed on cn04: 1 NODE_FAIL (exit 1), 2 BOOT_FAIL (exit 1)"
    assert (result.facts, commands_of(result)) == (("jobs of run-17",), ["sbatch --exclude=cn04 ..."])
    assert [each.node for each in result.suspects] == ["cn04"]
    assert [each.subject for each in to_exclude(GPUS, None, seen, NodeHealthState())] == ["exclude tr11"]
    later = Snapshot(600.0 + 8 * 86400, (), users=frozenset({"bob"}))
    assert list(to_exclude(GPUS, RUN, later, known)) == []
    assert known.endings == {}
