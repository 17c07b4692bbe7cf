"""Whom several communicators, several looks and odd answers of NCCL's RAS accuse: tables of cases."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.servers.ras import gpu, text
from watchdogd.parsers import nccl_ras, nccl_ras_reports
from watchdogd.parsers.nccl_ras import Accused
from watchdogd.parsers.nccl_ras_reports import RasReport

WARNINGS = "Errors\n======\n\nWarnings\n========\n\n"


def place(rank: int) -> str:
    """Of a rank of the whole job: eight a node."""
    return gpu(rank % 8, 100 + rank, f"192.0.2.{1 + rank // 8}")


def uneven(number: int, ahead: int, *late: tuple[int, int], group: int = 0, kind: str = "AllReduce") -> str:
    """A communicator: so many ranks at 40, and those (rank of the job, count) named; ranks by their order."""
    lines = [f"  {ahead} ranks have launched up to operation 40"] if ahead > 1 else []
    lines += [
        f"  Rank {at} has launched up to operation {count} -- {place(rank)}"
        for at, (rank, count) in enumerate(late)
    ]
    head = f"#{group}-{number} (c{group}{number:02x}) MISMATCH"
    return "\n".join([head, f"  Communicator ranks have different {kind} operation counts", *lines, "", ""])


def missing(number: int, *ranks: int, group: int = 0) -> str:
    """Ranks that do not answer, of one communicator."""
    lines = [f"  Rank {rank} -- {place(rank)}" for rank in ranks]
    head = f"#{group}-{number} (c{group}{number:02x}) INCOMPLETE"
    return "\n".join([head, f"  Missing communicator data from {len(ranks)} ranks", *lines, "", ""])


def said(found: tuple[Accused, ...]) -> list[str]:
    return [f"{each.how} {each.member.pid}{_doubt(each)}" for each in found]


def _doubt(each: Accused) -> str:
    return " ~" if each.held else " ?" if each.unsure else ""


def judged(body: str, size: int = 16) -> list[str]:
    return said(nccl_ras.accused(nccl_ras_reports.read(text(body, size))))


@pytest.mark.parametrize(
    ("body", "accused"),
    [
        # counts run ahead: only the fewest are guilty
        (uneven(0, 14, (0, 39), (9, 38)), ["behind 109"]),
        (uneven(0, 14, (0, 41), (9, 38)), ["behind 109"]),
        (uneven(0, 10, (2, 9), (3, 39), (4, 39)), ["behind 102"]),
        (uneven(0, 0, *((rank, 38 + rank) for rank in range(8))), ["behind 100 ?"]),
        # tensor parallel 8 x data parallel 4: rank 0 is behind in both of its communicators
        (uneven(0, 7, (0, 39)) + "".join(uneven(n, 3, (n, 39), group=1) for n in range(8)),
         ["behind 100 ?", *(f"behind {100 + rank} ~" for rank in range(1, 8))]),
        # pipeline 2 x data parallel 2: nothing tells who waits
        (uneven(0, 3, (0, 39)) + uneven(1, 3, (2, 39)), ["behind 100 ?", "behind 102 ?"]),
        # all communicators accuse the same
        (uneven(0, 15, (3, 39)) + uneven(0, 7, (3, 39), group=1), ["behind 103"]),
        # who does not answer goes before who is behind
        (missing(0, 1) + uneven(1, 7, (10, 39)), ["absent 101 ?", "behind 110 ~"]),
        # most do not answer: it is who was asked that is cut off
        (missing(0, *range(9)), []),
        (missing(0, *range(8)), [f"absent {100 + rank} ?" for rank in range(8)]),
        (missing(0, *range(7)), [f"absent {100 + rank}" for rank in range(7)]),
        # a rank that its communicator cannot have
        (missing(0, 3, 1_057_455_228), ["absent 103"]),
        ("DEAD\n  1 job process is considered dead\n  Process 142 on node 192.0.2.1 managing GPU 0\n\n"
         + uneven(0, 15, (9, 39)), ["behind 109"]),
    ],
)  # fmt: skip
def test_who_is_guilty(body: str, accused: list[str]) -> None:
    assert judged(WARNINGS + body) == accused


def test_communicators_without_size_are_memory_of_something_else() -> None:
    row = "    1         4         0         0         0         0    NOCOMM  INCOMPLETE,MISMATCH\n"
    answer = text(WARNINGS + missing(0, 3) + missing(0, 5, group=1), 16).replace(
        "\n\nErrors", f"\n{row}\nErrors"
    )
    assert row in answer
    assert said(nccl_ras.accused(nccl_ras_reports.read(answer))) == ["absent 103"]


@pytest.mark.parametrize(
    ("lines", "accused"),
    [
        (["ERROR", "  Asynchronous error on 1 rank", f"  Rank 9 reported System error -- {place(9)}"],
         ["error 109 ? System error"]),
        (["ERROR", "  Asynchronous errors on 2 ranks", "  2 ranks reported Internal error",
          f"  Rank 2 -- {place(2)}", f"  Rank 3 -- {place(3)}"],
         ["error 102 ? Internal error", "error 103 ? Internal error"]),
        (["ERROR", "  Asynchronous error on 1 rank",
          f"  Rank 9 reported Remote process error -- {place(9)}"], []),
        (["MISMATCH", "  Communicator ranks have different status", "  15 ranks have status RUNNING",
          f"  Rank 9 has status ABORT -- {place(9)}"], ["state 109 ? ABORT"]),
        (["MISMATCH", "  Communicator ranks have different status", "  14 ranks have status INIT",
          "  2 ranks have status NOCOMM", f"  Rank 1 -- {place(1)}", f"  Rank 9 -- {place(9)}"],
         ["state 101 ? NOCOMM", "state 109 ? NOCOMM"]),
        (["MISMATCH", "  Communicator ranks have different status", "  9 ranks have status ABORT",
          "  7 ranks have status RUNNING", f"  Rank 1 -- {place(1)}"], []),
    ],
)  # fmt: skip
def test_errors_and_states(lines: list[str], accused: list[str]) -> None:
    body = WARNINGS + "#0-0 (c000) " + "\n".join([*lines, "", ""])
    found = nccl_ras.accused(nccl_ras_reports.read(text(body, 16)))
    assert [f"{line} {each.other}" for line, each in zip(said(found), found, strict=True)] == accused


def test_a_line_that_broke_off_is_none() -> None:
    whole = text(WARNINGS + uneven(0, 15, (9, 39)), 16).rstrip("\n")
    assert whole.endswith("on node 192.0.2.2")
    for cut in (whole, whole[:-1]):
        assert nccl_ras.accused(nccl_ras_reports.read(cut)) == ()


def test_two_communicators_of_one_hash_stay_two() -> None:
    body = uneven(0, 7, (1, 39)) + uneven(0, 7, (9, 38)).replace("#0-0", "#0-1")
    assert judged(WARNINGS + body) == ["behind 109 ?", "behind 101 ?"]


def answers(*bodies: str) -> list[RasReport]:
    return [nccl_ras_reports.read(text(WARNINGS + body, 16)) for body in bodies]


STUCK = uneven(0, 15, (9, 39))


@pytest.mark.parametrize(
    ("reports", "moving", "accused"),
    [
        (answers(STUCK, STUCK), set(), ["behind 109"]),
        (answers(STUCK), set(), ["behind 109 ?"]),
        (answers("", missing(0, 9)), set(), []),
        (answers(missing(0, 9), ""), set(), []),
        (answers(missing(0, 9), missing(0, 9)), set(), ["absent 109"]),
        (answers(STUCK, STUCK.replace("39", "40")), {"c000"}, []),
        (answers(STUCK + uneven(0, 3, (1, 5), group=1), STUCK + uneven(0, 3, (1, 6), group=1)), {"c100"},
         ["behind 109 ?"]),
        ([], set(), []),
    ],
)  # fmt: skip
def test_two_looks_agree(reports: list[RasReport], moving: set[str], accused: list[str]) -> None:
    assert nccl_ras.moving(reports) == moving
    assert said(nccl_ras.agreed(reports)) == accused


def rank(number: int, count: int = 40, **state: object) -> dict[str, object]:
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
              "abort_flag": False}  # fmt: skip
    where = {"host": "192.0.2.1", "pid": 100 + number, "cuda_dev": 0, "nvml_dev": number}
    counts = {"AllReduce": count, "Broadcast": 2}
    return {"rank": number, **where, "status": status | state, "collective_counts": counts}


def absent(number: int, *, unresponsive: bool, pid: int = 0) -> dict[str, object]:
    where = {"host": "192.0.2.1" if pid else "unknown", "pid": pid or -1, "cuda_dev": 0, "nvml_dev": 3}
    return {
        "rank": number,
        **where,
        "status": {"unresponsive": unresponsive, "considered_dead": unresponsive},
    }


def document(*ranks: dict[str, object], gone: tuple[dict[str, object], ...] = (), size: int = 4) -> str:
    comm = {"hash": "0xc0ffee", "size": size, "ranks": ranks, "missing_ranks": gone}
    return json.dumps({"nccl_version": "2.29.1", "communicators": [comm]}, indent=2)


@pytest.mark.parametrize(
    ("answer", "accused"),
    [
        (document(rank(0), rank(1), rank(2, 39), rank(3)), ["behind 102"]),
        (document(rank(0), rank(1), rank(2), rank(3)), []),
        (document(rank(0), rank(1), rank(2), gone=(absent(3, unresponsive=True, pid=103),)), ["absent 103"]),
        (
            document(rank(0), rank(1), rank(2), gone=(absent(3, unresponsive=False, pid=103),)),
            ["state 103 ?"],
        ),
        (document(rank(0), rank(1), rank(2), rank(3, abort_flag=True)), ["state 103 ?"]),
        (document(rank(0), rank(1), rank(2), rank(3, async_error=2)), ["error 103 ?"]),
        (document(rank(0), rank(1), rank(2), rank(3, async_error=7)), []),
        (document(rank(0), rank(1), rank(2), rank(3), rank(9999, 1)), []),
        (document(size=0, gone=(absent(3, unresponsive=True),)), []),
    ],
)
def test_the_json_form(answer: str, accused: list[str]) -> None:
    found = nccl_ras_reports.read(f"OK\n{answer}\n")
    assert found.version == "2.29.1"
    assert said(nccl_ras.accused(found)) == accused


def test_both_forms_say_the_same() -> None:
    told = nccl_ras_reports.read(document(rank(0), rank(1), rank(2, 39), rank(3))).communicators[0]
    body = (
        f"#0-0 (c0ffee) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  3 ranks \
have launched up to operation 40\n  Rank 2 has launched up to operation 39 -- {gpu(2, 102, '192.0.2.1')}\n"
    )
    (written,) = nccl_ras.accused(nccl_ras_reports.read(text(WARNINGS + body, 4)))
    (spoken,) = nccl_ras.accused(RasReport("", (told,)))
    assert replace(spoken, member=written.member) == written
    assert spoken.member == written.member
