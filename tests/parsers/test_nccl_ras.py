"""What NCCL's RAS says, in the forms of its releases, and whom that accuses."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.ras import gpu, mismatch, text
from watchdogd.errors import UnreadableError
from watchdogd.parsers import nccl_ras, nccl_ras_reports
from watchdogd.parsers.nccl_ras import (
    ABSENT,
    AHEAD,
    BEHIND,
    INSTEAD,
    Accused,
)
from watchdogd.parsers.nccl_ras_reports import Communicator, RasMember, RasReport

PAIR = mismatch(
    [
        f"Rank 0 has launched up to operation 1139 -- {gpu(0, 987)}",
        f"Rank 1 has launched up to operation 1138 -- {gpu(1, 988)}",
    ]
)
SHARED = mismatch(
    [
        "2 ranks have launched up to operation 14",
        f"Rank 1 has launched up to operation 12 -- {gpu(0, 2455)}",
    ]
)
FEW = mismatch(
    [
        "29 ranks have launched up to operation 6650",
        "3 ranks have launched up to operation 6647",
        f"Rank 4 -- {gpu(4, 44)}",
        f"Rank 5 -- {gpu(5, 45)}",
        "Rank 21 -- [process information not found]",
    ]
)
NEVER = mismatch(
    [
        "3 ranks have launched up to operation 1",
        f"Rank 2 has not launched any operations -- {gpu(0, 72, '2001:db8::7')}",
    ]
)
OLD = mismatch(
    [
        "7 ranks have launched up to operation 310",
        f"Rank 3 has launched up to operation 309 -- {gpu(3, 63)}",
    ],
    "collective",
)
RENUMBERED = mismatch(
    [
        "7 ranks have launched up to operation 310",
        "Rank 3 has launched up to operation 309 -- GPU 0 (NVML 6) managed by process 63 on node 192.0.2.17",
    ]
)
OTHER_KIND = mismatch(
    [
        "3 ranks have launched up to operation 50",
        f"Rank 1 has launched up to operation 49 -- {gpu(1, 61)}",
        "",
        "Communicator ranks have different AllGather operation counts",
        "3 ranks have launched up to operation 7",
        f"Rank 1 has launched up to operation 8 -- {gpu(1, 61)}",
    ]
)
FIRST_ALONE = mismatch(
    [
        "31 ranks have launched up to operation 90",
        f"Rank 0 has launched up to operation 91 -- {gpu(0, 60)}",
    ]
)
STOPPED = """Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487 on node 192.0.2.13 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  {rank}

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

"""
DEAD = """Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487 on node 192.0.2.13 managing GPUs 4,5 (NVML 0,1)

Warnings
========

"""
STATUS = """Warnings
========

#0-0 (9e17999afaa87dbb) MISMATCH
  Communicator ranks have different status
  2 ranks have status RUNNING
  Rank 1 has status FINALIZE -- GPU 1 managed by process 61 on node 192.0.2.17

"""


def said(found: tuple[Accused, ...]) -> list[str]:
    """One line each: how, rank, process, GPU, node, and the operation."""
    return [
        f"{each.how} {each.member.rank} {each.member.pid} {each.member.gpu} {each.member.host} "
        f"{each.kind} {each.number} {each.by} {each.other}".strip()
        for each in found
    ]


@pytest.mark.parametrize(
    ("answer", "accused"),
    [
        (text(size=8, errors="OK"), []),
        (text(SHARED, 3), ["behind 1 2455 0 192.0.2.17 AllReduce 13 2"]),
        (
            text(PAIR, 2),
            ["behind 1 988 1 192.0.2.17 AllReduce 1139 1", "ahead 0 987 0 192.0.2.17 AllReduce 1139 0"],
        ),
        (
            text(FEW, 32),
            [
                "behind 4 44 4 192.0.2.17 AllReduce 6648 3",
                "behind 5 45 5 192.0.2.17 AllReduce 6648 3",
                "behind 21 None None  AllReduce 6648 3",
            ],
        ),
        (text(NEVER, 4), ["behind 2 72 0 2001:db8::7 AllReduce 1 1"]),
        (text(OLD, 8, version="2.24.3"), ["behind 3 63 3 192.0.2.17 collective 310 1"]),
        (text(RENUMBERED, 8), ["behind 3 63 6 192.0.2.17 AllReduce 310 1"]),
        (text(OTHER_KIND, 4), ["instead 1 61 1 192.0.2.17 AllReduce 50 1 AllGather 8"]),
        (text(FIRST_ALONE, 32), ["ahead 0 60 0 192.0.2.17 AllReduce 91 0"]),
        (
            text(STOPPED.format(rank="The missing rank: 21"), 32, "INCOMPLETE", "2.25.1"),
            ["absent 21 3487 5 192.0.2.13  0 0"],
        ),
        (
            text(STOPPED.format(rank=f"Rank 21 -- {gpu(5, 3487, '192.0.2.13')}"), 32, "INCOMPLETE"),
            ["absent 21 3487 5 192.0.2.13  0 0"],
        ),
        (text(DEAD, 32, "INCOMPLETE"), []),
        (text(STATUS, 3), []),
    ],
)
def test_the_text_of_each_release(answer: str, accused: list[str]) -> None:
    assert (
        said(nccl_ras.accused(nccl_ras_reports.read(f"OK\nERROR: Unknown command set format json\n{answer}")))
        == accused
    )
    assert said(nccl_ras.accused(nccl_ras_reports.read(answer.replace("\n", "\r\n")))) == accused


def member(rank: int, counts: Mapping[str, int] | None, pid: int, gpu: int = 0) -> RasMember:
    """A rank; `counts` None: it does not answer."""
    return RasMember(rank, "192.0.2.17", pid, gpu, counts or {})


def report(*comms: Sequence[RasMember]) -> RasReport:
    """One list of ranks a communicator."""
    return RasReport("2.29.1", tuple(communicator(name, ranks) for name, ranks in enumerate(comms)))


def communicator(name: int, ranks: Sequence[RasMember]) -> Communicator:
    launched: dict[str, Counter[int]] = defaultdict(Counter)
    for each in ranks:
        for kind, count in each.counts.items():
            launched[kind][count] += 1
    there, absent = [each for each in ranks if each.counts], [each for each in ranks if not each.counts]
    return Communicator(str(name), len(ranks), tuple(there), tuple(absent), launched)


def reduced(*counts: int | None, pid: int = 60) -> list[RasMember]:
    return [
        member(rank, None if count is None else {"AllReduce": count, "Broadcast": 2}, pid + rank, rank)
        for rank, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("answer", "accused"),
    [
        (report(reduced(5, 5, 5, 5)), []),
        (report(reduced(5, 5, 4, 5)), ["behind 2 62 2 192.0.2.17 AllReduce 5 1"]),
        (report(reduced(5, 5, None, 5)), ["absent 2 62 2 192.0.2.17  0 0"]),
        (report(reduced(9, 5, 5, 5)), ["ahead 0 60 0 192.0.2.17 AllReduce 9 0"]),
        (
            report([*reduced(7, 7, 6), member(3, {"AllReduce": 6, "Broadcast": 3}, 63, 3)]),
            [
                "instead 3 63 3 192.0.2.17 AllReduce 7 1 Broadcast 3",
                "behind 2 62 2 192.0.2.17 AllReduce 7 1",
            ],
        ),
    ],
)
def test_whom_the_counts_accuse(answer: RasReport, accused: list[str]) -> None:
    assert said(nccl_ras.accused(answer)) == accused


def test_who_waits_in_one_communicator_is_not_blamed_in_another() -> None:
    """Rank 1 is behind in the first, since it waits for rank 3 in the second."""
    first = [member(0, {"AllReduce": 8}, 60, 0), member(1, {"AllReduce": 7}, 61, 1)]
    second = [member(0, {"AllGather": 30}, 61, 1), member(1, {"AllGather": 29}, 63, 3)]
    found = tuple(each for each in nccl_ras.accused(report(first, second)) if each.how != AHEAD)
    assert said(found) == ["behind 1 63 3 192.0.2.17 AllGather 30 1"]


@pytest.mark.parametrize(
    ("gathers", "held"), [((1, 2), [(0, True), (1, False)]), ((1, 6), [(0, False), (1, False)])]
)
def test_of_two_in_different_operations_who_launched_less_holds_up(
    gathers: tuple[int, int], held: list[tuple[int, bool]]
) -> None:
    """Rank 1 calls an AllGather in place of an AllReduce: rank 0 takes it for that, and goes on."""
    counts = [{"AllReduce": 407, "AllGather": gathers[0]}, {"AllReduce": 402, "AllGather": gathers[1]}]
    found = nccl_ras.accused(
        report([member(rank, each, 60 + rank, rank) for rank, each in enumerate(counts)])
    )
    assert sorted((each.member.rank, each.held) for each in found) == held


def test_two_who_wait_for_each_other_are_both_named() -> None:
    first = [member(0, {"AllReduce": 8}, 60, 0), member(1, {"AllReduce": 7}, 61, 1)]
    second = [member(0, {"AllGather": 30}, 61, 1), member(1, {"AllGather": 29}, 60, 0)]
    assert {each.member.pid for each in nccl_ras.accused(report(first, second))} == {60, 61}


def test_what_grows_meanwhile_is_seen() -> None:
    assert report(reduced(5, 6)).counts != report(reduced(6, 6)).counts
    assert nccl_ras_reports.read(text(PAIR, 2)).counts == nccl_ras_reports.read(text(PAIR, 2)).counts
    assert (
        nccl_ras_reports.read(text(PAIR, 2)).counts
        != nccl_ras_reports.read(text(PAIR.replace("1139", "1140"), 2)).counts
    )


@pytest.mark.parametrize(
    "answer", ["", "HTTP/1.1 400 Bad Request\n", "{", '{"communicators": 3}', "[" * 9999]
)
def test_what_is_no_answer_is_refused(answer: str) -> None:
    with pytest.raises(UnreadableError):
        nccl_ras_reports.read(answer)


def test_how_many_gpus_the_job_has() -> None:
    alike = text(PAIR, 2)
    head, _, rest = alike.partition("  Nodes  Processes")
    heads = "  Nodes  Processes         GPUs"
    nodes = f"{heads}\n          per node  per process\n      1          8            1\n"
    total = f"\n{heads}\n(total)    (total)      (total)\n      2         12           12\n"
    unlike = f"{head}{nodes}{total}\nThe outlier node:\n{rest[rest.index('Communicators...') :]}"
    assert [nccl_ras_reports.read(each).gpus for each in (alike, unlike)] == [2, 12]
    assert nccl_ras.accused(nccl_ras_reports.read(alike)) == nccl_ras.accused(nccl_ras_reports.read(unlike))


@settings(max_examples=60)
@given(st.text() | st.lists(st.sampled_from([*text(FEW + STOPPED + DEAD).splitlines(), "x"])).map("\n".join))
def test_no_text_breaks_it(answer: str) -> None:
    try:
        report = nccl_ras_reports.read(answer)
    except UnreadableError:
        return
    assert all(each.how in (BEHIND, AHEAD, INSTEAD, ABSENT) for each in nccl_ras.accused(report))


def test_a_thousand_ranks_in_a_second() -> None:
    ranks = reduced(*([900] * 1023), 899)
    began = time.process_time()
    found = nccl_ras.accused(report(*[ranks] * 4))
    assert [each.member.rank for each in found] == [1023]
    assert time.process_time() - began < 1.0
