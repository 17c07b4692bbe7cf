"""Folding the stacks of a run, and saying in one line who is the suspect."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from watchdogd.home.layout import Home
from watchdogd.parsers import pyspy
from watchdogd.parsers.stack_models import Frame, StackDump
from watchdogd.plugin import Job
from watchdogd.stacks import stack_collection, stack_folding, stack_summary
from watchdogd.stacks.stack_folding import Process

RUN = "    train_step (train.py:210)\n    main (train.py:300)\n    <module> (train.py:331)\n"
REDUCE = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2806)\n"
    "    wrapper (torch/distributed/c10d_logger.py:81)\n"
) + RUN
GATHER = REDUCE.replace("all_reduce", "all_gather_into_tensor")
BATCH = "    recv (multiprocessing/connection.py:250)\n    next_batch (loader.py:88)\n" + RUN
SYNC = "    synchronize (torch/cuda/__init__.py:1162)\n" + RUN
COMPUTE = "    forward (model.py:{})\n" + RUN


def dump(frames: str, others: str = "") -> StackDump:
    (found,) = pyspy.read(
        f'Process 9: python train.py\nThread 9 (idle): "MainThread"\n{frames}{others}'
    ).dumps
    return found


def rank(number: int, *samples: str, per_node: int = 8) -> Process:
    dumps = tuple(dump(frames) for frames in samples)
    return Process(f"node{number // per_node}", 5000 + number, number, samples=dumps)


def summary(*processes: Process, seconds: float = 0.0) -> str:
    return stack_summary.summary(stack_folding.fold(processes, seconds))


def test_the_two_in_the_data_loader_are_named_in_the_first_line() -> None:
    """In form the hang measured on real GPUs: all but the guilty wait in a collective."""
    run = [rank(number, BATCH if number in (40, 41) else REDUCE) for number in range(128)]
    assert summary(*run) == (
        "2 of 128 ranks stand elsewhere: node5 ranks 40,41 in next_batch (loader.py:88); "
        "126 wait in all_reduce"
    )


def test_of_two_ranks_the_one_that_waits_is_not_the_suspect() -> None:
    assert summary(rank(0, SYNC), rank(1, BATCH)) == (
        "1 of 2 ranks stands elsewhere: node0 rank 1 in next_batch (loader.py:88); 1 waits in synchronize"
    )


def test_half_of_the_ranks_hold_up_the_other_half() -> None:
    run = [rank(number, BATCH if number < 4 else REDUCE) for number in range(8)]
    assert summary(*run).startswith("4 of 8 ranks stand elsewhere: node0 ranks 0-3 in next_batch")


def test_ranks_in_different_collectives() -> None:
    run = [rank(number, GATHER if number == 3 else REDUCE) for number in range(8)]
    assert summary(*run) == (
        "1 of 8 ranks stands elsewhere: node0 rank 3 in all_gather_into_tensor, "
        "called by train_step (train.py:210); 7 wait in all_reduce"
    )
    folded = stack_folding.fold(run)
    assert [group.waits_in for group in folded.groups] == ["all_gather_into_tensor", "all_reduce"]


def test_where_nobody_waits_the_few_are_odd() -> None:
    run = [rank(number, BATCH if number > 0 else COMPUTE.format(7)) for number in range(8)]
    assert summary(*run) == (
        "1 of 8 ranks stands elsewhere: node0 rank 0 in forward (model.py:7); "
        "7 stand in next_batch (loader.py:88)"
    )


def test_two_halves_in_the_same_kind_of_place_leave_it_open() -> None:
    assert summary(rank(0, COMPUTE.format(7)), rank(1, COMPUTE.format(9))) == (
        "2 ranks stand in 2 places: node0 rank 0 in forward (model.py:7); "
        "node0 rank 1 in forward (model.py:9)"
    )


def test_all_on_one_stack() -> None:
    assert summary(*(rank(number, REDUCE) for number in range(16))) == "all 16 ranks wait in all_reduce"
    assert summary(rank(0, BATCH)) == "the rank stands in next_batch (loader.py:88)"


def test_many_odd_places_are_cut_short() -> None:
    run = [rank(number, COMPUTE.format(number) if number < 5 else REDUCE) for number in range(64)]
    line = summary(*run)
    assert line.startswith("5 of 64 ranks stand elsewhere: node0 rank 0 in forward (model.py:0); ")
    assert line.endswith("; 2 more; 59 wait in all_reduce")


def test_what_moves_and_what_stands_still() -> None:
    still = [rank(number, REDUCE, REDUCE) for number in range(7)]
    moving = rank(7, COMPUTE.format(1), COMPUTE.format(2))
    folded = stack_folding.fold([*still, moving], 4.0)
    assert stack_summary.summary(folded) == (
        "1 of 8 ranks stands elsewhere: node0 rank 7 in forward (model.py:2) (moving); 7 wait in all_reduce"
    )
    text = "\n".join(stack_summary.lines(folded))
    assert "\n1 rank stands, moving: node0 rank 7\n    forward (model.py:2)\n    train_step" in text
    assert "\n7 ranks wait, still for 4s: node0 ranks 0-6\n    all_reduce" in text


def test_a_run_that_trains_is_no_hang() -> None:
    run = [rank(number, COMPUTE.format(number), REDUCE, COMPUTE.format(9 + number)) for number in range(8)]
    assert summary(*run, seconds=4.0) == "all 8 ranks move: none stood on one stack for 4s"


def test_data_loaders_and_launchers_do_not_count_as_ranks() -> None:
    run = [rank(number, REDUCE) for number in range(8)]
    workers = [Process("node0", 9000 + n, n, helper=True, samples=(dump(BATCH),)) for n in range(8)]
    folded = stack_folding.fold([*run, *workers])
    assert folded.odd == ()
    assert folded.ranks == 8
    assert "8 helper processes (data loaders, launchers):\n    8 in recv (multiprocessing" in "\n".join(
        stack_summary.lines(folded)
    )


def test_what_cannot_be_read_is_listed_with_its_state() -> None:
    stuck = Process("node7", 4711, 12, trouble="Permission Denied", state="D (disk sleep), waits in nfs_wait")
    silent = Process("node9", 0, trouble="did not answer within 20 s")
    folded = stack_folding.fold([rank(0, REDUCE), rank(1, REDUCE), stuck, silent])
    first, *rest = stack_summary.lines(folded)
    assert first == "all 2 ranks wait in all_reduce; 2 processes could not be read"
    assert rest[-3:] == [
        "not read:",
        "    node7 pid 4711 rank 12: Permission Denied; D (disk sleep), waits in nfs_wait",
        "    node9: did not answer within 20 s",
    ]
    assert summary(stuck) == "no stack of a rank; 1 process could not be read"


def test_of_stopped_processes_it_is_said_on_which_node_they_go_on() -> None:
    stopped = [
        Process(f"node{at}", 40 + at, at, trouble="it is stopped", state="T (stopped)") for at in (1, 2)
    ]
    helper = Process("node1", 50, trouble="Permission Denied", helper=True)
    assert summary(*stopped, helper) == (
        "no stacks: 2 processes are stopped (state T): kill -CONT 41 on node1, kill -CONT 42 on node2"
    )
    assert summary(rank(0, REDUCE), stopped[0]).startswith("the rank waits in all_reduce; 1 process")


def test_without_ranks_processes_go_by_their_numbers() -> None:
    run = [Process("gpu1", 100 + number, samples=(dump(REDUCE),)) for number in range(3)]
    odd = Process("gpu1", 200, samples=(dump(BATCH),))
    assert summary(*run, odd) == (
        "1 of 4 ranks stands elsewhere: gpu1 pid 200 in next_batch (loader.py:88); 3 wait in all_reduce"
    )


def test_native_frames_do_not_part_what_is_equal() -> None:
    run = [rank(number, f"    0x7f00000000{number} (libcuda.so)\n{SYNC}") for number in range(4)]
    folded = stack_folding.fold(run)
    assert len(folded.groups) == 1
    assert "    0x7f000000000 (libcuda.so)" in list(stack_summary.lines(folded))


def test_a_gradient_computed_by_a_thread_of_autograd() -> None:
    backward = "    backward (torch/autograd/__init__.py:266)\n    train_step (train.py:210)\n"
    engine = "Thread 44 (active)\n    all_gather_into_tensor (torch/distributed/distributed_c10d.py:2709)\n"
    waiting, other = dump(backward, engine), dump(backward, "Thread 45 (idle)\n    wait (threading.py:3)\n")
    run = [Process("node0", number, number, samples=(waiting,)) for number in range(3)]
    folded = stack_folding.fold([*run, Process("node0", 3, 3, samples=(other,))])
    assert [group.waits_in for group in folded.others] == ["all_gather_into_tensor"]
    assert [process.rank for group in folded.odd for process in group.members] == [3]


@pytest.mark.parametrize(
    ("frame", "waits"),
    [
        (Frame("broadcast", "torch/distributed/distributed_c10d.py", 1), True),
        (Frame("reduce_scatter_tensor", "torch/distributed/distributed_c10d.py", 1), True),
        (Frame("Stream.synchronize", "torch/cuda/streams.py", 1), True),
        (Frame("all_reduce", "deepspeed/comm/torch.py", 1), True),
        (Frame("recv", "multiprocessing/connection.py", 1), False),
        (Frame("wait", "threading.py", 1), False),
        (Frame("init_process_group", "torch/distributed/distributed_c10d.py", 1), False),
        (Frame("all_reduce", "mine.py", 1), False),
    ],
)
def test_what_counts_as_waiting_for_the_others(frame: Frame, waits: bool) -> None:
    group = stack_folding.Group((frame, Frame("main", "train.py", 3)), ())
    assert bool(group.waits_in) is waits


@pytest.mark.slow
def test_512_ranks_fold_in_a_fifth_of_a_second() -> None:
    others = "".join(
        f'Thread {t} (idle): "Thread-{t}"\n    wait (threading.py:{t})\n    run (threading.py:9)\n'
        for t in range(100, 110)
    )
    texts = [dump(REDUCE + RUN * 5, others), dump(BATCH + RUN * 5, others)]
    run = [
        Process(f"node{n // 8}", n, n, samples=(texts[n == 77],) * 3 if n % 2 else tuple(
            dump(REDUCE + RUN * 5, others) for _ in range(3)))
        for n in range(512)
    ]  # fmt: skip
    took, usual = [], []
    for _ in range(3):
        begin = time.thread_time()
        line = summary(*run)
        took.append(time.thread_time() - begin)
        begin = time.thread_time()
        sum(range(2_000_000))
        usual.append(time.thread_time() - begin)
    assert line.startswith("1 of 512 ranks stands elsewhere: node9 rank 77 in next_batch (loader.py:88)")
    busy = max(min(usual) / 0.03, 1.0)  # by how much others slow this processor down
    assert min(took) <= 0.2 * busy


@pytest.mark.parametrize(
    ("values", "text"),
    [([], ""), ([3], "3"), ([41, 40], "40,41"), ([1, 2, 3, 7, 8, 12], "1-3,7,8,12"), ([5, 5, 5], "5")],
)
def test_numbers_in_few_letters(values: list[int], text: str) -> None:
    assert stack_folding.numbers(values) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["node1", "node2", "node3", "node7"], "node[1-3,7]"),
        (["node08", "node09", "node10", "node11"], "node[08-11]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["login", "gpu1"], "gpu1,login"),
        (["x1y2-ib", "x1y3-ib"], "x1y[2,3]-ib"),
        (["node001", "node1"], "node001,node1"),
    ],
)
def test_names_in_few_letters(values: list[str], text: str) -> None:
    assert stack_folding.names(values) == text


def test_guards_of_another_job_of_the_run_are_left_out(tmp_path: Path) -> None:
    """Of an array's other task, or of the job before, which still ends."""
    home = Home(tmp_path)
    home.make()
    home.config.write_text('[runs.tide]\nbackend = "slurm"\n')
    later = time.time() + 60.0
    for pid, job in enumerate(("17", "18", None), 41):
        file = home.inbox / f"tide.stacks.n{pid}.{pid}.txt"
        head = {"run": "tide", "host": f"n{pid}", "time": later, "pid": pid, "rank": 0, "job": job}
        stack = 'Thread 0x1 (most recent call first):\n  File "a.py", line 1 in f\n'
        file.write_text(f"{json.dumps(head)}\n{stack}")
        os.utime(file, (later, later))
    mine = Job("17", "17", "tide", "erin", "RUNNING")
    answers = stack_collection.ask(str(tmp_path), "tide", 5.0, lambda heard: heard == 2, mine)
    assert sorted(each.pid for each in answers.processes) == [41, 43]
