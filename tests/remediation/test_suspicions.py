"""From what nodes and Guards say to suspects: cases of each source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdogd.batch.run_models import ASIDE, FAIR, SURE, WEAK, Suspect
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.parsers.nccl_ras import ABSENT, AHEAD, BEHIND, INSTEAD, Accused
from watchdogd.parsers.nccl_ras_reports import RasMember
from watchdogd.parsers.stack_models import Frame, StackDump, Thread
from watchdogd.probe.node_ranks import NodeRanks, RankProcess
from watchdogd.remediation import accusations, nccl_suspects, suspects
from watchdogd.remediation.stall_inquiry import RunEvidence
from watchdogd.stacks.stack_folding import COLLECTIVE, Process

SIZE = 8


def process(rank: int, state: str = "S (sleeping)") -> RankProcess:
    env = {"WORLD_SIZE": str(SIZE)}
    return RankProcess(100 + rank, rank, state, (100 + rank, 10 + rank), "", env)


def node(number: int, *states: str, accused: tuple[Accused, ...] = (), **more: object) -> NodeRanks:
    ranks = range(4 * (number - 1), 4 * number)
    processes = [process(rank, *states[place : place + 1]) for place, rank in enumerate(ranks)]
    found = NodeRanks(f"n{number}", (f"192.0.2.{number}", "127.0.0.1"), tuple(processes), "2.28.9", accused)
    return NodeRanks(**{name: getattr(found, name) for name in NodeRanks.__slots__} | more)


def behind(
    how: str = BEHIND, rank: int = 5, size: int | None = SIZE, pid: int | None = 105, **more: object
) -> Accused:
    given = {"kind": "AllReduce", "number": 12, "by": 1} | more
    return Accused(how, RasMember(rank, "192.0.2.2", pid, 1), "c0ffee", size, **given)  # type: ignore[arg-type]


def absent(*ranks: int) -> tuple[Accused, ...]:
    """Ranks that RAS does not hear; four a node."""
    members = [RasMember(each, f"192.0.2.{1 + each // 4}", 100 + each, each % 4) for each in ranks]
    return tuple(Accused(ABSENT, each, "c0ffee", SIZE) for each in members)


BUSY, IDLE = Gpu(1, utilisation=100.0), Gpu(1, utilisation=0.0)
WAITING = replace(BUSY, power_w=120.0, power_cap_w=700.0, pids=(105,))
STRANGER = Accused(ABSENT, RasMember(3, "198.51.100.7", 4711, 3), "d0d0", SIZE)


@pytest.mark.parametrize(
    ("nodes", "silent", "strengths", "apart"),
    [
        ([node(1, accused=(behind(),)), node(2, accused=(behind(),))], [], {5: SURE}, False),
        ([node(1, accused=(behind(),)), node(2)], [], {5: FAIR}, False),
        ([node(1, accused=(behind(),)), node(2, ras="")], [], {5: SURE}, False),
        ([node(1, accused=(behind(),)), node(2, ras="", moving=True, accused=())], [], {5: SURE}, False),
        ([node(1, accused=(behind(),)), node(2, accused=(behind(),), moving=True)], [], {5: FAIR}, False),
        (
            [node(1, accused=(behind(unsure=True),)), node(2, accused=(behind(unsure=True),))],
            [],
            {5: FAIR},
            False,
        ),
        ([node(1, accused=(behind(AHEAD),)), node(2, accused=(behind(AHEAD),))], [], {5: WEAK}, False),
        ([node(1, ras=""), node(2, accused=(behind(held=True),))], [], {5: WEAK}, False),
        ([node(1, accused=absent(4, 5, 6, 7)), node(2, accused=absent(0, 1, 2, 3))], [], {}, True),
        ([node(1, accused=absent(1, 5)), node(2, accused=absent(1, 5))], [], {1: SURE, 5: SURE}, False),
        ([node(1, accused=absent(5)), node(2)], [], {5: FAIR}, False),
        ([node(1, accused=absent(5))], ["n2"], {5: SURE}, False),
        # a part of the run, which may wait for another part
        ([node(1, ras=""), node(2, accused=(behind(rank=1, size=4),))], [], {5: FAIR}, False),
        ([node(1, ras=""), node(2, accused=(behind(ABSENT, rank=1, size=4),))], [], {5: SURE}, False),
        # a rank of the whole run that is another process: it numbers its ranks in another order
        ([node(1, accused=(behind(rank=2),)), node(2, accused=(behind(rank=2),))], [], {5: FAIR}, False),
        ([node(1, ras=""), node(2, accused=(behind(rank=6),))], [], {5: FAIR}, False),
        # its own GPU is busy: it may wait for that, while others run ahead
        ([node(1, ras=""), node(2, accused=(behind(),), gpus=(BUSY,))], [], {5: FAIR}, False),
        ([node(1, ras=""), node(2, accused=(behind(),), gpus=(IDLE,))], [], {5: SURE}, False),
        # it waits, as the others do: they run ahead, or one of them left an operation out
        ([node(1, ras=""), node(2, accused=(behind(),), gpus=(WAITING,))], [], {5: WEAK}, False),
        (
            [node(1, ras=""), node(2, accused=(behind(),), gpus=(replace(WAITING, pids=()),) * 4)],
            [],
            {5: WEAK},
            False,
        ),
        (
            [node(1, ras=""), node(2, accused=(behind(),), gpus=(replace(WAITING, pids=(104, 105)),))],
            [],
            {5: FAIR},
            False,
        ),
        # another job's RAS answers: it speaks of a node that is none of the job's
        ([node(1, ras=""), node(2, accused=(behind(), STRANGER))], [], {}, False),
        ([node(1, accused=(STRANGER,))], ["n2"], {3: SURE}, False),
    ],
)
def test_how_sure_nccl_is(
    nodes: list[NodeRanks], silent: list[str], strengths: dict[int, int], apart: bool
) -> None:
    found = list(nccl_suspects.of_stalled(nodes, silent))
    assert {each.rank: each.strength for each in found} == strengths
    assert all(each.node == "n2" for each in found if each.rank == 5)
    said = "NCCL: the nodes do not reach one another: n[1,2]"
    assert (said in accusations.notes(nodes, silent)) == apart


@pytest.mark.parametrize(
    ("accused", "rank"),
    [
        (behind(rank=5, pid=7), 5),
        (behind(rank=1, size=4, pid=7), None),
        (behind(rank=1, size=4, pid=105), 5),
    ],
)
def test_containers_whose_processes_have_the_same_number(accused: Accused, rank: int | None) -> None:
    processes = tuple(replace(each, pids=(each.pid, 7)) for each in node(2).processes)
    (found,) = nccl_suspects.of_stalled([node(1, ras=""), node(2, processes=processes, accused=(accused,))])
    assert (found.rank, found.pid) == (rank, 105 if rank else None)


@pytest.mark.parametrize(
    ("totals", "silent", "strength"),
    [((SIZE, SIZE), [], SURE), ((0, 0), [], SURE), ((16, 0), [], FAIR), ((SIZE, SIZE), ["n3"], FAIR)],
)
def test_a_run_whose_size_no_variable_tells(
    totals: tuple[int, int], silent: list[str], strength: int
) -> None:
    nodes = [
        node(
            at,
            accused=(behind(),),
            total=total,
            processes=tuple(replace(each, env={}) for each in node(at).processes),
        )
        for at, total in enumerate(totals, 1)
    ]
    assert [each.strength for each in nccl_suspects.of_stalled(nodes, silent)] == [strength]


def words(nodes: list[NodeRanks], silent: list[str]) -> list[str]:
    found = accusations.of_nodes(nodes, silent)
    return [f"{each.source} {each.rank} {each.node} {each.gpu} {each.pid} {each.what}" for each in found]


@pytest.mark.parametrize(
    ("accused", "said"),
    [
        (behind(), "NCCL 5 n2 1 105 is behind: it has not entered AllReduce 12"),
        (behind(by=3), "NCCL 5 n2 1 105 is behind: it has not entered AllReduce 12, and is 3 behind"),
        (behind(kind="collective"), "NCCL 5 n2 1 105 is behind: it has not entered collective operation 12"),
        (
            behind(rank=1, size=4),
            "NCCL 5 n2 1 105 is behind in a group of 4: it has not entered AllReduce 12",
        ),
        (
            behind(rank=1, size=4, pid=15),
            "NCCL 5 n2 1 105 is behind in a group of 4: it has not entered AllReduce 12",
        ),
        (
            behind(rank=1, size=4, pid=9999),
            "NCCL None n2 1 9999 is behind in a group of 4: it has not entered AllReduce 12 "
            "(rank 1 of 4 of communicator c0ffee)",
        ),
        (behind(pid=None), "NCCL 5 n2 1 105 is behind: it has not entered AllReduce 12"),
        (behind(AHEAD), "NCCL 5 n2 1 105 alone has entered AllReduce 12"),
        (
            behind(INSTEAD, other="AllGather 4"),
            "NCCL 5 n2 1 105 has entered AllGather 4 in place of AllReduce 12",
        ),
        (behind(ABSENT), "NCCL 5 n2 1 105 does not answer NCCL"),
    ],
)
def test_what_nccl_says_of_a_rank(accused: Accused, said: str) -> None:
    assert words([node(1, accused=(accused,)), node(2, accused=(accused,))], []) == [said]


def test_an_address_that_every_node_has_is_nobodys() -> None:
    loop = Accused(BEHIND, RasMember(1, "127.0.0.1", 105, 1), "c0ffee", 4, "AllReduce", 12, 1)
    assert words([node(1, accused=(loop,)), node(2)], [])[0].startswith("NCCL None 127.0.0.1 1 105")


@pytest.mark.parametrize(
    ("nodes", "silent", "said"),
    [
        ([node(1), node(2)], [], []),
        ([node(1), node(2, "S", "T (stopped)")], [], ["process 5 n2 None 105 is stopped by a signal"]),
        ([node(1), node(2, "t (tracing stop)")], [], ["process 4 n2 None 104 is held by a debugger"]),
        ([node(1), node(2, "Z (zombie)")], [], ["process 4 n2 None 104 has ended"]),
        (
            [node(1, "D (disk sleep), waits in folio_wait"), node(2)],
            [],
            ["process 0 n1 None 100 waits in the kernel: D (disk sleep), waits in folio_wait"],
        ),
        ([node(1, *["D"] * 4), node(2, "D", "D")], [], []),
        (
            [node(1), NodeRanks("n2", (), node(2).processes[1:])],
            [],
            ["process 4 n2 None None has no process any more"],
        ),
        ([node(1, "T"), node(2)], [], ["process 0 n1 None 100 is stopped by a signal"]),
        ([node(1, *["T"] * 4), node(2, *["T"] * 4)], [], []),
        ([node(1, *["T"] * 4), node(2)], [], []),
        ([node(1), node(2, processes=())], [], []),
        ([node(1), node(2, processes=node(2).processes[:3])], [],
         ["process 7 n2 None None has no process any more"]),
        ([node(1), node(2, processes=(*node(2).processes[:3], replace(process(7), rank=None)))], [], []),
        ([NodeRanks("n1", (), tuple(process(rank) for rank in (0, 2, 6))),
          NodeRanks("n2", (), tuple(process(rank) for rank in (1, 3, 5, 7)))], [],
         ["process 4 n1 None None has no process any more"]),
        ([NodeRanks("n1", (), tuple(process(rank) for rank in range(3)))], [], []),
        ([NodeRanks("n1", (), tuple(process(rank) for rank in range(6))),
          NodeRanks("n2", (), (process(7),))], [], []),
        ([NodeRanks("n1", (), tuple(process(rank) for rank in (0, 1, 3, 4, 5))),
          NodeRanks("n2", (), (process(6), process(7)))], [],
         ["process 2 n1 None None has no process any more"]),
        ([node(1), node(2)], ["n3"], ["node None n3 None None does not answer, while others do"]),
        ([node(1)], ["n2"], []),
        ([node(1)], ["n2", "n3", "n4"], []),
        ([NodeRanks(f"n{each}", (), ()) for each in range(61)], ["n61", "n62", "n63"], []),  # slow to start
        ([], ["n1", "n2"], []),
    ],
)  # fmt: skip
def test_what_the_processes_say(nodes: list[NodeRanks], silent: list[str], said: list[str]) -> None:
    assert words(nodes, silent) == said


def test_what_the_gpus_say() -> None:
    def gpus(*loads: float) -> tuple[Gpu, ...]:
        drawn = [Gpu(index=place, utilisation=load, power_w=125.0, power_cap_w=700.0, vram_percent=60.0)
                 for place, load in enumerate(loads)]  # fmt: skip
        return tuple(drawn)

    hung = [node(1, gpus=gpus(100, 100)), node(2, gpus=gpus(100, 0))]
    assert words(hung, []) == ["GPU None n2 1 None does nothing, while 3 wait at 100 % and 125 W"]
    assert words([node(1, gpus=gpus(0, 0)), node(2, gpus=gpus(0, 0))], []) == []


def guard(rank: int, step: int | None = 41, function: str = "all_reduce", line: int = 7) -> Process:
    waits = COLLECTIVE.fullmatch(function)
    file = "torch/distributed/distributed_c10d.py" if waits else "train.py"
    frames = (Frame(function, file, line, f"/x/site-packages/{file}" if "/" in file else f"/home/{file}"),)
    dump = StackDump(100 + rank, threads=(Thread(id="1", name="MainThread", frames=frames),))
    return Process(f"n{rank // 4 + 1}", 100 + rank, rank, samples=(dump,), step=step)


EXPECTED = {rank: f"n{rank // 4 + 1}" for rank in range(SIZE)}


@pytest.mark.parametrize(
    ("guards", "said"),
    [
        ([guard(rank) for rank in range(SIZE)], []),
        ([], []),
        (
            [guard(rank, 40 if rank == 6 else 41) for rank in range(SIZE)],
            [Suspect("Guard", "is at step 40, the others at 41", SURE, 6, "n2", pid=106)],
        ),
        (
            [guard(rank) for rank in range(SIZE) if rank != 3],
            [Suspect("Guard", "does not answer its Guard's call", FAIR, 3, "n1")],
        ),
        (
            [guard(rank, function="next_batch" if rank == 2 else "all_reduce") for rank in range(SIZE)],
            [Suspect("Guard", "stands in next_batch (train.py:7), the others in all_reduce", FAIR, 2, "n1",
                     pid=102)],
        ),
        (
            [guard(rank, function="save" if rank == 2 else "backward") for rank in range(SIZE)],
            [Suspect("Guard", "stands in save (train.py:7), the others in backward (train.py:7)", FAIR, 2,
                     "n1", pid=102)],
        ),
        (
            [guard(rank, function="main", line=9 if rank == 0 else 5) for rank in range(SIZE)],
            [Suspect("Guard", "stands in main (train.py:9), the others in main (train.py:5)", WEAK, 0,
                     "n1", pid=100)],
        ),
        ([guard(rank, {6: 40, 2: 39}.get(rank, 41)) for rank in range(SIZE)],
         [Suspect("Guard", "is at step 39, the others at 41", FAIR, 2, "n1", pid=102)]),
        ([guard(rank, 40 if rank > 3 else 41) for rank in range(SIZE)], []),
        ([guard(rank, 40 if rank else 41) for rank in range(2)],
         [Suspect("Guard", "is at step 40, the others at 41", FAIR, 1, "n1", pid=101)]),
        # each has steps of its own
        ([guard(rank, 41 + rank) for rank in range(SIZE)],
         [Suspect("Guard", "is at step 41, the others at 45", ASIDE, 0, "n1", pid=100)]),
        ([guard(rank) for rank in range(4)], []),
        ([guard(rank, function="save" if rank > 3 else "backward") for rank in range(SIZE)], []),
        ([guard(rank, function=f"f{rank % 2}") for rank in range(SIZE)], []),
        ([guard(rank, 40 if rank > 2 else 41) for rank in range(SIZE)], []),
        ([guard(rank, function="next_batch") for rank in range(SIZE)], []),
    ],
)  # fmt: skip
def test_what_the_guards_say(guards: list[Process], said: list[Suspect]) -> None:
    expected = {} if len(guards) == 2 else EXPECTED
    assert list(accusations.of_guards(guards, expected)) == said


def test_a_node_whose_guards_are_all_silent_may_not_see_the_call_yet() -> None:
    """NFS keeps for a minute that a file is not there."""
    expected = {rank: f"n{rank // 4 + 1}" for rank in range(12)}
    found = list(accusations.of_guards([guard(rank) for rank in range(8)], expected))
    assert {each.rank: each.strength for each in found} == dict.fromkeys(range(8, 12), ASIDE)


@pytest.mark.parametrize(
    ("places", "strengths"),
    [
        ({2: "all_gather"}, {2: FAIR}),
        ({2: "barrier"}, {2: FAIR}),
        ({2: "recv"}, {2: WEAK}),  # from another stage of the pipeline
        ({2: "synchronize"}, {2: WEAK}),
        ({2: "all_gather", 3: "all_gather"}, {2: WEAK, 3: WEAK}),  # tensor parallel, beside data parallel
        ({2: "all_gather", 3: "save"}, {3: FAIR}),  # the one waits for the other
        ({2: "all_gather", 3: ""}, {2: WEAK}),  # it may wait for who wrote nothing
    ],
)
def test_ranks_in_another_collective(places: dict[int, str], strengths: dict[int, int]) -> None:
    stacks = [
        guard(rank, function=places.get(rank, "all_reduce")) for rank in range(SIZE) if places.get(rank) != ""
    ]
    assert {each.rank: each.strength for each in accusations.of_guards(stacks, {}, SIZE)} == strengths


def pair(
    *loads: float, watts: float = 121.0, pids: tuple[tuple[int, ...], ...] = ((100,), (101,))
) -> NodeRanks:
    """A run of two ranks on one node: rank 0 has launched up to AllReduce 502, rank 1 up to 506."""
    counts = (
        Accused(BEHIND, RasMember(0, "192.0.2.1", 100, 0), "c0ffee", 2, "AllReduce", 503, 4),
        Accused(AHEAD, RasMember(1, "192.0.2.1", 101, 1), "c0ffee", 2, "AllReduce", 506),
    )
    ranks = tuple(replace(process(rank), env={"WORLD_SIZE": "2"}) for rank in range(2))
    gpus = tuple(
        Gpu(rank, utilisation=load, power_w=watts, power_cap_w=700.0, vram_percent=60.0, pids=pids[rank])
        for rank, load in enumerate(loads)
    )
    return node(1, accused=counts, processes=ranks, gpus=gpus)


LATE = [guard(0, 60), guard(1, 61)]


@pytest.mark.parametrize(
    ("found", "named", "strength"),
    [
        (pair(100, 100), 1, FAIR),  # both wait, rank 0 in what rank 1 has launched, too: that left one out
        (pair(0, 100), 0, SURE),
        (pair(), 0, SURE),
        (pair(100, 100, watts=690.0), 0, FAIR),  # rank 0 computes
        (pair(100, 100, pids=((100, 7), (101, 7))), 0, FAIR),  # another program may keep its GPU busy
    ],
)
def test_who_waits_in_what_the_other_one_has_passed_holds_nobody_up(
    found: NodeRanks, named: int, strength: int
) -> None:
    judged = suspects.merge(RunEvidence(nodes=(found,), guards=tuple(LATE)).suspects())
    assert [each.rank for each in judged.culprits] == [named]
    assert judged.culprits[0].weight[0] == strength
    assert f"rank {1 - named}" not in judged.words()


def test_one_of_two_ranks_that_is_gone_is_named() -> None:
    two = [replace(process(rank), env={"WORLD_SIZE": "2"}) for rank in range(2)]
    gone = {
        rank: words([node(1, processes=tuple(each for each in two if each.rank != rank))], [])
        for rank in range(2)
    }
    assert gone == {rank: [f"process {rank} n1 None None has no process any more"] for rank in range(2)}


def test_a_node_whose_guards_answer_is_not_silent() -> None:
    nodes, silent = (node(1), node(2)), {"n3": "no answer"}
    guards = tuple(guard(rank) for rank in range(12))
    assert len(RunEvidence(nodes, silent, guards[:8]).suspects()) == 1
    assert RunEvidence(nodes, silent, guards).suspects() == []


def test_notes_where_nobody_is_accused() -> None:
    assert list(accusations.notes([node(1), node(2)])) == [
        "NCCL: all ranks have launched the same operations: is it the network, or a GPU?"
    ]
    others = replace(process(0), env={"WORLD_SIZE": "2"})
    assert list(accusations.notes([node(1, processes=(others,), total=4)])) == []  # of another run
    assert list(accusations.notes([node(1), node(2, even=False)])) == [
        "NCCL: its communicators differ, and nobody stands out"
    ]
    assert list(accusations.notes([node(1, accused=(behind(),))])) == []
    assert list(accusations.notes([node(1, "T", "T", "T", "T", ras="")], ["n2"])) == [
        "node: 1 of 2 nodes do not answer: n2",
        "process: of 4 ranks 4 are T",
    ]
    many = [NodeRanks(f"n{each}", (), ()) for each in range(61)]
    assert list(accusations.notes(many, ["n61", "n62", "n63"])) == [
        "node: 3 of 64 nodes do not answer: n[61-63]"
    ]
    assert list(accusations.notes([node(1, moving=True)])) == ["NCCL: its operation counts still grow"]
    assert list(accusations.notes([node(1, ras="")])) == []
