"""Cores and GPUs of a job's ranks: what is wrong with them, the table, and the masks that would be right."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdogd.plugin import Status
from watchdogd.preflight import affinity
from watchdogd.preflight.verdicts import Finding

GCDS = {"a1": 48, "a6": 48, "b2": 16, "b7": 16, "c3": 0, "c8": 0, "d4": 32, "d9": 32}
"""Of a node with four MI250X: the bus of each GCD, and the first core of its NUMA domain of 16."""
ALL = "1-7,9-15,17-23,25-31,33-39,41-47,49-55,57-63"
FREE = affinity.cpus(ALL)
"""The cores that such a node gives to jobs: the first of each eight is the system's."""
IN_ORDER = [f"{8 * rank + 1}-{8 * rank + 7}" for rank in range(8)]
RIGHT = [f"{first}-{first + 6}" for first in (49, 57, 17, 25, 1, 9, 33, 41)]
MASKS = (
    "right: srun --cpu-bind=mask_cpu:0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,"
    "0xfe,0xfe00,0xfe00000000,0xfe0000000000 ..."
)


def amd(
    masks: Sequence[str], *, visible: str = "0,1,2,3,4,5,6,7", domains: bool = True, own: bool = False
) -> str:
    """What the ranks of a node with 128 threads and eight GCDs print; `own`: each may open its GCD alone."""
    threads = " ".join(f"{core},{core + 64}" for core in range(64))
    gpus = []
    for bus, first in GCDS.items():
        near = f"{first}-{first + 15},{first + 64}-{first + 79}" if domains else "0-127"
        gpus.append(f"|0000:{bus}:00.0={near}={affinity.MI250X}=")
    return "\n".join(
        f"@@ rank {rank} {rank} nid7 {mask} {'0' if own else visible}|{'' if rank else threads}"
        f"{gpus[rank] if own else ''.join(gpus)}"
        for rank, mask in enumerate(masks)
    )


def nvidia(masks: Sequence[str], visible: Sequence[str], node: str = "gpu1") -> str:
    """What the ranks of a node print of whose four GPUs sysfs does not say what is near."""
    threads = " ".join(f"{core},{core + 16}" for core in range(16))
    gpus = "".join(f"|0000:{bus}:00.0==0x2330=gpu-{bus}" for bus in ("18", "2a", "9a", "ab"))
    rows = "".join(
        f"|GPU{number}\t"
        + "".join(" X \t" if other == number else "NV18\t" for other in range(4))
        + f"SYS\t{'0-7,16-23' if number < 2 else '8-15,24-31'}\t{number // 2}\t\tN/A"
        for number in range(4)
    )
    return "\n".join(
        f"@@ rank {rank} {rank} {node} {mask} {shown}|{'' if rank else threads}{gpus}{rows}"
        for rank, (mask, shown) in enumerate(zip(masks, visible, strict=True))
    )


def judged(text: str, free: affinity.Cpus = FREE, most: int | None = 56) -> Finding:
    (found,) = affinity.judge(affinity.read(text, {"nid7": free}, most))
    return found


@pytest.mark.parametrize("domains", [True, False])
def test_ranks_in_order_are_far_from_their_gcds_and_both_ways_out_are_named(domains: bool) -> None:
    found = judged(amd(IN_ORDER, domains=domains))
    assert found.status is Status.WARNING
    assert found.text == "nid7: local ranks 0,1,4-7 compute far from the GPU"
    assert found.table[-2:] == (MASKS, "or:    srun --gpu-bind=map_gpu:4,5,2,3,6,7,0,1 ...")
    assert found.table[1].split() == ["0", "1-7", "0", "(a1:00.0)", *found.table[1].split()[4:5], "far"]


@pytest.mark.parametrize("own", [True, False])
def test_the_right_masks_are_fine_also_where_each_rank_sees_its_own_gpu_alone(own: bool) -> None:
    found = judged(amd(RIGHT, own=own))
    assert (found.status, found.text) == (
        Status.OK,
        "nid7: each of 8 ranks has cores of its own, near its GPU",
    )
    assert len(found.table) == 9


@pytest.mark.parametrize(
    ("masks", "status", "text"),
    [
        (["1"] * 8, Status.CRITICAL, "8 ranks on 1 core; no rank may use 55 of the job's 56 cores"),
        (["1", "65"] * 4, Status.CRITICAL, "8 ranks on 1 core;"),
        (["1-7"] * 2 + IN_ORDER[2:], Status.WARNING, "local ranks 0,1 share cores 1-7;"),
        (["1-7"] * 2 + ["9-15"] * 6, Status.WARNING, "local ranks 0-7 share cores 1-7,9-15; no rank may"),
        ([*map(str, sorted(FREE)[:8])], Status.WARNING, "no rank may use 48 of the job's 56 cores;"),
        ([ALL] * 8, Status.WARNING,
         "none of its 8 ranks is bound to cores of its own"),
        ([ALL], Status.OK, "its rank may use 56 cores"),
        (["49-55,1", *RIGHT[1:4], "2-7", *RIGHT[5:]], Status.WARNING, "local rank 0 may run far"),
    ],
)  # fmt: skip
def test_what_is_told_of_masks(masks: list[str], status: Status, text: str) -> None:
    found = judged(amd(masks))
    assert found.status is status
    assert found.text.startswith(f"nid7: {text}")
    if len(masks) > 1:
        assert found.table[-1] in (MASKS, "or:    srun --gpu-bind=map_gpu:4,5,2,3,6,7,0,1 ...")


def test_what_is_near_is_taken_from_nvidias_matrix_where_sysfs_does_not_know_it() -> None:
    masks = ["8-11", "12-15", "0-3", "4-7"]
    nodes = affinity.read(nvidia(masks, ["0,1,2,3"] * 4), {})
    (found,) = affinity.judge(nodes)
    assert found.text == "gpu1: local ranks 0-3 compute far from the GPU"
    assert found.table[-2] == "right: srun --cpu-bind=mask_cpu:0xf,0xf0,0xf00,0xf000 ..."
    assert found.table[-1] == "or:    srun --gpu-bind=map_gpu:2,3,0,1 ..."


@pytest.mark.parametrize(
    ("visible", "bus"), [("2", "9a"), ("GPU-AB", "ab"), ("-", "18"), ("3,1", "ab"), ("", None), ("7", None)]
)
def test_which_gpu_is_a_ranks_own(visible: str, bus: str | None) -> None:
    nodes = affinity.read(nvidia(["0-3", "4-7"], [visible, visible]), {})
    gpu = nodes["gpu1"].ranks[0].gpu
    assert (gpu.bus if gpu else None) == (f"0000:{bus}:00.0" if bus else None)


def test_nodes_that_are_alike_are_told_once_and_one_that_is_not_apart() -> None:
    masks, shown = ["0-3", "4-7", "8-11", "12-15"], ["0,1,2,3"] * 4
    text = "\n".join(nvidia(masks, shown, f"gpu{number}") for number in (1, 2, 3))
    text += "\n" + nvidia(["0"] * 4, shown, "gpu4")
    found = list(affinity.judge(affinity.read(text, {"gpu4": affinity.cpus("0-15")})))
    assert [each.text.partition(":")[0] for each in found] == ["gpu[1-3]", "gpu4"]
    assert [each.status for each in found] == [Status.OK, Status.CRITICAL]


def test_without_gpus_each_rank_is_to_have_its_share() -> None:
    text = "\n".join(f"@@ rank {rank} {rank} n1 0-1 -|" for rank in range(4))
    (found,) = affinity.judge(affinity.read(text, {"n1": affinity.cpus("0-15")}))
    assert found.status is Status.CRITICAL
    assert found.table[-1] == "right: srun --cpus-per-task=4 --cpu-bind=cores ..."


def test_a_plain_srun_may_not_be_what_the_script_types_and_stops_no_job() -> None:
    (found,) = affinity.judge(affinity.read(amd(["1"] * 8), {"nid7": FREE}), stated=False)
    assert found.status is Status.WARNING
    assert found.text.endswith("(by srun without options: --srun)")


def test_ranks_without_a_mask_share_the_cores_and_nothing_is_near_or_far() -> None:
    text = "\n".join(f"@@ rank {rank} {rank} n1 0-15 -|" for rank in range(4))
    (found,) = affinity.judge(affinity.read(text, {"n1": affinity.cpus("0-15")}))
    assert (found.status, found.text) == (Status.OK, "n1: its 4 ranks share 16 cores")


def test_a_slurm_that_confines_no_job_says_nothing_of_cores_that_the_job_does_not_have() -> None:
    text = "\n".join(f"@@ rank {rank} {rank} n1 {rank} -|" for rank in range(4))
    (found,) = affinity.judge(affinity.read(text, {"n1": affinity.cpus("0-63")}, most=4))
    assert (found.status, found.text) == (Status.OK, "n1: each of 4 ranks has cores of its own")


@settings(max_examples=40)
@given(st.text(alphabet="@ rank0123,-|=:\tGPU\n", max_size=200))
def test_whatever_is_printed_ends_in_findings(text: str) -> None:
    for each in affinity.judge(affinity.read(f"@@ rank 0 0 n1 0-3 0|{text}", {})):
        assert each.text


def test_the_script_prints_what_is_read_of_tools_that_are_here(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\ncase $1 in topo) printf 'GPU0\\t X \\tNV18\\t0-1\\t0\\nGPU1\\tNV18\\t X \\t1\\t0\\n';;\n"
        "*) printf '00000000:F1:00.0, GPU-1A\\n00000000:F2:00.0, GPU-2B\\n';; esac\n"
    )
    tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "n1", "CUDA_VISIBLE_DEVICES": "1"}
    text = ""
    for rank in ("0", "1"):
        more = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank}
        text += subprocess.run(
            ["sh", "-c", affinity.SCRIPT],
            env=env | more,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    node = affinity.read(text, {})["n1"]
    assert [rank.cpus for rank in node.ranks] == [frozenset(os.sched_getaffinity(0))] * 2
    assert [(gpu.bus, gpu.near, gpu.uuid) for gpu in node.gpus[-2:]] == [
        ("0000:f1:00.0", frozenset({0, 1}), "gpu-1a"),
        ("0000:f2:00.0", frozenset({1}), "gpu-2b"),
    ]
    assert {rank.gpu for rank in node.ranks} == {node.gpus[-1]}
    assert set(node.core_of) >= set(os.sched_getaffinity(0))
