"""Nodes that the evidence of a stall puts under suspicion."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.waiting import AT_ONCE
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.incidents.message_wording import first_line
from watchdogd.incidents.models import EventKind, Incident, IncidentEvent
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.stack_models import Frame, LoopLooks, StackDump, Thread
from watchdogd.plugin import SLOW, Job, Result, Run, Status
from watchdogd.probe.node_ranks import NodeRanks, RankProcess
from watchdogd.remediation import stall_inquiry, suspects
from watchdogd.remediation.models import EVIDENCE, ActionRecord, ActionTask
from watchdogd.remediation.stall_inquiry import RunEvidence, StallInquiry
from watchdogd.stacks import node_stacks
from watchdogd.stacks.stack_folding import Process
from watchdogd.system import command
from watchdogd.system.codec import codec_of


def stopped(home: Home, monkeypatch: pytest.MonkeyPatch, state: str, backend: str, at: str) -> None:
    """Ask about a run of eight ranks, of which the one on node n17 is in that state."""
    others = [RankProcess(100 + rank, rank, "S (sleeping)", (), "", {}) for rank in range(7)]
    nodes = (
        NodeRanks("n16", (), tuple(others)),
        NodeRanks("n17", (), (RankProcess(200, 7, state, (), "", {}),)),
    )
    monkeypatch.setattr(stall_inquiry, "look_at", lambda run, queue: RunEvidence(nodes))
    incident = Incident(3, "glide/log_staleness", "glide", "glide", "", Status.CRITICAL, 0.0, "stalled")
    event = IncidentEvent(
        EventKind.OPENED, 0.0, "glide/log_staleness", "glide", "glide", "stalled", incident=incident
    )
    record, run = ActionRecord(3, "glide", "on_hang", EVIDENCE, 0.0), Run("glide", "glide", backend)
    job = Job("501", "501", "glide", "ann", "RUNNING", nodes=at)
    task = ActionTask(record, incident, home, run, queue=(job,))
    (told,) = stall_inquiry.with_evidence(
        [StallInquiry(event, Result(Status.CRITICAL, "stalled"), task, stacks=True)], [event]
    )
    assert ("rank 7" in told.suspect) == (not state.startswith("S"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


@pytest.mark.parametrize(
    ("state", "backend", "at", "listed"),
    [
        ("T (stopped)", "slurm", "n[16-17]", ["n17"]),
        ("T (stopped)", "slurm", "n16.example.org,n17.example.org", ["n17.example.org"]),
        ("T (stopped)", "slurm", "n[1-3]", []),
        ("T (stopped)", "process", "n[16-17]", []),
        ("D (disk sleep)", "slurm", "n[16-17]", []),
        ("S (sleeping)", "slurm", "n[16-17]", []),
    ],
)
def test_a_node_is_put_under_suspicion_by_strong_evidence_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, state: str, backend: str, at: str, listed: list[str]
) -> None:
    stopped(home, monkeypatch, state, backend, at)
    found = suspect_nodes.listed(home)
    assert [each.node for each in found] == listed
    assert {each.reason for each in found} <= {"incident 3: rank 7 (pid 200) is stopped by a signal"}


def test_a_slow_run_says_who_slows_it_down_in_its_first_line(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_task: ActionTask, seen: RunEvidence) -> None:
        seen.nodes = (
            NodeRanks("n1", (), (), gpus=(Gpu(0), Gpu(1))),
            NodeRanks("n2", (), (), gpus=(Gpu(3, throttled=("HW",)),)),
        )
        waits = Frame("backward", "torch/_tensor.py", 7, "/x/site-packages/torch/_tensor.py")
        work = Frame("main", "train.py", 4, "/home/train.py")
        seen.guards = tuple(
            Process(f"n{rank // 4 + 1}", rank + 7, rank, looks=LoopLooks(9, 1.9, ((20, (where,)),), True))
            for rank, where in enumerate([*[waits] * 4, *[work] * 2])
        )

    monkeypatch.setattr(stall_inquiry, "_ask_nodes", ask)
    incident = Incident(3, "glide/log_staleness", "glide", "glide", "", Status.WARNING, 0.0, "slow")
    long = "slow: 1.93 s an iteration, 1.12 s at best"
    event = IncidentEvent(
        EventKind.OPENED, 0.0, "glide/log_staleness", "glide", "glide", long, incident=incident
    )
    jobs = (Job("501", "501", "glide", "ann", "RUNNING", nodes="n[1-2]"),)
    task = ActionTask(ActionRecord(3, "glide", "on_hang", EVIDENCE, 0.0), incident, home, queue=jobs)
    result = Result(Status.WARNING, long, kind=SLOW, short="slow")
    (told,) = stall_inquiry.with_evidence([StallInquiry(event, result, task, stacks=True)], [event])
    why = "node n2 takes 1.9 s a step of its own, the others 0 s: its GPU 3 is throttled (HW)"
    assert told.told == f"slow: {why}"
    first = first_line("WARNING", "glide", told.summary, "", told.suspect)
    assert first == f"[WARNING] glide: slow: {why.removesuffix(' (HW)')}"
    assert long in told.details


def test_a_home_that_hangs_does_not_delay_the_message(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, begun = threading.Event(), threading.Event()

    def hangs(*_: object, **__: object) -> None:
        begun.set()
        ended.wait(240)

    monkeypatch.setattr(stall_inquiry, "PATIENCE", 0.2)
    monkeypatch.setattr(suspect_nodes, "add", hangs)
    began = time.monotonic()
    stopped(home, monkeypatch, "T (stopped)", "slurm", "n[16-17]")
    assert time.monotonic() - began < AT_ONCE
    assert begun.is_set()
    ended.set()


def answer_of(task: int, ranks: NodeRanks) -> str:
    """What srun prints of a node."""
    lines = [f"@@ node {ranks.node}", *node_stacks.parts(0, codec_of(NodeRanks).dump(ranks))]
    return "".join(f"{task}: {line}\n" for line in lines)


def test_a_node_whose_answer_breaks_off_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of its ranks is said to have no process any more."""
    env = {"WORLD_SIZE": "24"}
    nodes = [
        NodeRanks(f"n{at}", (), tuple(RankProcess(100 + rank, rank, "S", (), "", env) for rank in ranks))
        for at, ranks in ((1, range(8)), (3, range(16, 24)))
    ]
    said = answer_of(0, nodes[0]) + "1: @@ node n2\n" + answer_of(2, nodes[1])
    late = command.Answer(("srun",), 1, said, "srun: error: timed out", 8.5)
    monkeypatch.setattr(command, "ask", lambda *_, **__: late)
    seen = stall_inquiry.look_at(
        Run("glide", "glide", "slurm"), [Job("5", "5", "glide", "ann", "RUNNING", nodes="n[1-3]")]
    )
    assert sorted(each.node for each in seen.nodes) == ["n1", "n3"]
    assert [(each.node, each.rank, each.what) for each in seen.suspects()] == [
        ("n2", None, "does not answer, while others do")
    ]


def test_only_a_guard_that_beats_is_expected_to_answer() -> None:
    ranks = tuple(RankProcess(100 + rank, rank, "S", (100 + rank, 7), "", {}) for rank in range(4))
    nodes, guards = (NodeRanks("n1.example.org", (), ranks),), (Process("n1", 101, 1),)
    assert RunEvidence(nodes, guards=guards).suspects() == []
    (found,) = RunEvidence(nodes, guards=guards, beats=frozenset({("n1", 100)})).suspects()
    assert (found.rank, found.what) == (0, "does not answer its Guard's call")


def test_two_ranks_of_one_number_are_two() -> None:
    """A trainer and a generator in one job: what one source says of either makes neither sure."""
    own = Frame("save", "train.py", 3, "/home/train.py")
    waits = Frame("recv", "torch/distributed/c10d.py", 9, "/x/site-packages/torch/distributed/c10d.py")
    guards = [
        Process("n1", 100 + rank, rank, samples=(StackDump(threads=(Thread(frames=(frame,)),)),))
        for rank, frame in enumerate([waits, waits, own, waits])
    ]
    states = ["D (disk sleep)" if rank == 2 else "S" for rank in range(4)]
    nodes = [
        NodeRanks(name, (), tuple(RankProcess(pid + rank, rank, state) for rank, state in enumerate(told)))
        for name, pid, told in (("n1", 100, "SSSS"), ("n2", 200, states))
    ]
    found = suspects.merge(RunEvidence(tuple(nodes), guards=tuple(guards)).suspects())
    assert {(each.node, each.pid) for each in (*found.culprits, *found.others)} == {("n1", 102), ("n2", 202)}
    assert not found.sure
