"""Who is behind in most of several looks at NCCL's counts, while they grow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tests.servers.ras import gpu, mismatch, serving, text
from watchdogd.parsers.gpu.models import Gpu
from watchdogd.probe import node_ranks
from watchdogd.probe.node_ranks import NodeRanks
from watchdogd.stacks import node_stacks


def looked(says: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> NodeRanks:
    """Return what this process, as a rank, is known by, where RAS says that at its first, second… call."""
    calls: list[int] = []

    def answer() -> str:
        calls.append(0)
        return says((len(calls) + 1) // 2)  # each question is two lines

    with serving(answer) as fake:
        monkeypatch.setattr(node_ranks, "_STILL", 0.05)
        monkeypatch.setattr(node_ranks, "_GROWING", 0.05)
        monkeypatch.setattr(node_stacks, "environ", lambda _pid: {"NCCL_RAS_ADDR": fake.address})
        monkeypatch.setattr(node_ranks, "_gpus", lambda _until: ())
        found = [node_stacks.TrainingProcess(os.getpid(), 1, {"RANK": 0})]
        return node_ranks.look("n1", found, time.monotonic() + 4.0)


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        ([True, False], [0]),  # the other one is somebody else's notebook
        ([None, None], [0, 1]),  # nobody is named, as in a container
        ([None, False], []),
        ([True, None], [0]),
    ],
)
def test_the_gpus_of_others_say_nothing(
    listed: list[bool | None], seen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = {True: (os.getpid(),), False: (1,), None: ()}
    gpus = tuple(Gpu(place, pids=pids[each]) for place, each in enumerate(listed))
    monkeypatch.setattr(node_ranks, "_gpus", lambda _until: gpus)
    monkeypatch.setattr(node_stacks, "environ", lambda _pid: {"NCCL_RAS_ENABLE": "0"})
    found = [node_stacks.TrainingProcess(os.getpid(), 1, {"RANK": 0})]
    assert [gpu.index for gpu in node_ranks.look("n1", found, time.monotonic() + 4.0).gpus] == seen


def behind(rank: int, operation: int, by: int = 2) -> str:
    late = f"Rank {rank} has launched up to operation {operation - by} -- {gpu(0, os.getpid(), '127.0.0.1')}"
    return text(mismatch([f"3 ranks have launched up to operation {operation}", late]))


def test_one_that_is_behind_most_of_the_time_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(lambda call: behind(1, 40 + 2 * call) if call != 3 else text(errors="OK"), monkeypatch)
    assert (found.moving, found.accused) == (True, ())
    assert [(each.member.rank, each.looks) for each in found.lagging] == [(1, 5)]


def test_who_is_behind_now_and_then_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked(lambda call: behind(1, 40 + call) if call % 2 else text(errors="OK"), monkeypatch)
    assert (found.moving, found.lagging) == (True, ())
