"""Who is named of all that several sources say: a table of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from watchdogd.batch.run_models import FAIR, SURE, WEAK, Suspect
from watchdogd.remediation.suspects import merge

BEHIND = "is behind: it has not entered AllReduce 1139"
NCCL = Suspect("NCCL", BEHIND, SURE, 137, "n017", 1, 4711)
GPU = Suspect("GPU", "does nothing, while 511 wait at 100 % and 129 W", FAIR, None, "n017.example.org", 1)
LOG = Suspect("log", "was the first of 512 ranks to write no more", WEAK, 137)
STOPPED = Suspect("process", "is stopped by a signal", SURE, 3, "n001", None, 88)
MUTE = Suspect("Guard", "does not answer its Guard's call", FAIR, 3, "n001")
ELSEWHERE = Suspect("Guard", "stands in next_batch (loader.py:88), the others in all_reduce", FAIR, 9, "n002")
STEP = Suspect("Guard", "is at step 40, the others at 41", SURE, 200)
NODE = Suspect("node", "does not answer, while others do", FAIR, node="n009")


def behind(*ranks: int, node: str = "n017") -> list[Suspect]:
    return [Suspect("NCCL", BEHIND, SURE, rank, node, rank % 8, 4000 + rank) for rank in ranks]


@pytest.mark.parametrize(
    ("suspects", "words", "sources", "sure"),
    [
        ([], "", (), False),
        ([NCCL], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL",), True),
        ([LOG, GPU, NCCL], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL", "log", "GPU"), True),
        ([GPU], f"node n017.example.org, GPU 1 {GPU.what}", ("GPU",), False),
        ([LOG], f"rank 137 {LOG.what}", ("log",), False),
        ([MUTE, STOPPED], "rank 3 (node n001, pid 88) is stopped by a signal", ("process", "Guard"), True),
        (
            [NCCL, ELSEWHERE],
            f"rank 137 (node n017, GPU 1) {BEHIND}; but by Guard rank 9 (node n002) {ELSEWHERE.what}",
            ("NCCL",),
            False,
        ),
        ([NCCL, Suspect("log", "was first", WEAK, 8)],
         f"rank 137 (node n017, GPU 1) {BEHIND}; but by log rank 8 was first", ("NCCL",), True),
        (behind(136, 137, 138, 139), f"each of ranks 136-139 (node n017) {BEHIND}", ("NCCL",), True),
        ([*behind(136, 137), GPU], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL", "GPU"), True),
        ([*behind(1), *behind(9, node="n018")], f"each of ranks 1,9 (nodes n[017,018]) {BEHIND}",
         ("NCCL",), True),
        (
            [NCCL, replace(STEP, rank=9)],
            f"rank 9 {STEP.what}; but by NCCL rank 137 (node n017, GPU 1) {BEHIND}",
            ("Guard",),
            False,
        ),
        (
            [NCCL, replace(STEP, rank=137, strength=FAIR), STEP],
            f"rank 137 (node n017, GPU 1) {BEHIND}; but by Guard rank 200 {STEP.what}",
            ("NCCL", "Guard"),
            False,
        ),
        (
            [Suspect("GPU", "is throttled", node="n017", gpu=gpu) for gpu in (1, 2, 3)],
            "each of GPUs 1-3 (node n017) is throttled",
            ("GPU",),
            False,
        ),
        (
            [Suspect("GPU", "is throttled", node=f"n{gpu}", gpu=gpu) for gpu in range(9)],
            "each of 9 GPUs is throttled",
            ("GPU",),
            False,
        ),
        (
            [Suspect("node", "is slow", node=f"n{number}") for number in range(9)],
            "each of 9 nodes is slow",
            ("node",),
            False,
        ),
        ([replace(NCCL, strength=FAIR)], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL",), False),
        (
            [replace(NCCL, strength=FAIR), LOG],
            f"rank 137 (node n017, GPU 1) {BEHIND}",
            ("NCCL", "log"),
            False,
        ),
        ([replace(NCCL, strength=FAIR), GPU], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL", "GPU"), True),
        ([NCCL, replace(NODE, node="n017")], f"rank 137 (node n017, GPU 1) {BEHIND}", ("NCCL",), True),
        ([NODE], "node n009 does not answer, while others do", ("node",), False),
        (
            [Suspect("NCCL", BEHIND, SURE, None, "192.0.2.7", 2, 77)],
            f"process 77, node 192.0.2.7, GPU 2 {BEHIND}",
            ("NCCL",),
            True,
        ),
        (
            [STOPPED, *behind(3, node="n001"), *behind(4, node="n001")],
            "rank 3 (node n001, GPU 3) is stopped by a signal",
            ("process", "NCCL"),
            True,
        ),
    ],
)  # fmt: skip
def test_who_is_named(suspects: list[Suspect], words: str, sources: tuple[str, ...], sure: bool) -> None:
    for order in (suspects, suspects[::-1]):
        found = merge(order)
        assert found.words() == words
        assert sorted(found.sources) == sorted(sources)
        assert found.sure is sure


def test_two_ranks_on_one_gpu_stay_two() -> None:
    """MPS and MIG let several ranks share a card."""
    both = [Suspect("NCCL", BEHIND, SURE, rank, "n017", 0, 4000 + rank) for rank in (6, 7)]
    assert merge(both).words() == f"each of ranks 6,7 (node n017) {BEHIND}"


def test_of_hundreds_there_is_a_number() -> None:
    many = [Suspect("NCCL", BEHIND, SURE, rank * 2, f"n{rank:03d}x{rank}") for rank in range(120)]
    assert merge(many).words() == f"each of 120 ranks {BEHIND}"


def test_all_that_was_said_stands_in_lines() -> None:
    assert list(merge([*behind(7), LOG, NCCL, ELSEWHERE]).lines()) == [
        f"NCCL: rank 137 (node n017, GPU 1) {BEHIND}",
        f"log: rank 137 (node n017, GPU 1) {LOG.what}",
        f"NCCL: rank 7 (node n017, GPU 7) {BEHIND}",
        f"Guard: rank 9 (node n002) {ELSEWHERE.what}",
    ]
