"""Whether a job should start: every finding that stops it, and none that should not."""

from __future__ import annotations

import dataclasses

import pytest

from watchdogd.batch.node_steps import NodeOutputs
from watchdogd.parsers.gpu.kernel_log import DriverEvent
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import Status
from watchdogd.preflight import inspection, verdicts
from watchdogd.preflight.verdicts import Believed, Facts, NodeDisk, Room

GB = 1_000_000_000
WELL = Facts(
    hosts=("node1", "node2"),
    tasks=2,
    cores=8,
    gpus=tuple(
        GpuNode(name, Readout(tuple(Gpu(index=i, vram_used=GB // 2, vram_total=80 * GB) for i in range(4))))
        for name in ("node1", "node2")
    ),
    disks=tuple(NodeDisk(name, "/tmp", 50 * GB) for name in ("node1", "node2")),
    room=Room("/scratch/tr11", 500 * GB, "quota of group six", 200 * GB),
)
ASKED = Believed(nodes=2, tasks=2, cpus=8, gpus=4)


def broken(facts: Facts, believed: Believed = ASKED) -> list[str]:
    return [each.text for each in verdicts.judge(facts, believed) if each.status is Status.CRITICAL]


def with_gpu(**fields: object) -> Facts:
    """One GPU of node2 is otherwise."""
    gpus = list(WELL.gpus[1].readout.gpus)
    gpus[3] = dataclasses.replace(gpus[3], **fields)  # type: ignore[arg-type] # the tests name fields of Gpu
    return dataclasses.replace(WELL, gpus=(WELL.gpus[0], GpuNode("node2", Readout(tuple(gpus)))))


def test_all_is_well() -> None:
    assert broken(WELL) == []
    texts = [finding.text for finding in verdicts.judge(WELL, ASKED)]
    assert texts == [
        "none is set",
        "the job has 2",
        "the job has 2",
        "8 can be used here for the job's 8",
        "node[1,2] answered",
        "4 on each of node[1,2]",
        "/tmp of the nodes can be written to",
        "room for one of 200 GB: 500 GB free in /scratch/tr11 (quota of group six)",
    ]


@pytest.mark.parametrize(
    ("changes", "text", "nodes"),
    [
        ({"stopped": "the kill switch is set by bob"}, "the kill switch is set by bob", ()),
        ({"hosts": ("node1",)}, "the job has 1, the script goes by 2", ()),
        ({"tasks": None}, "the job has 0, the script goes by 2", ()),
        ({"cores": 1}, "1 can be used here, the job has 8: look at --cpu-bind", ()),
        ({"silent": {"node2": "launch failed"}}, "node2 does not answer: launch failed", ("node2",)),
        (
            {"disks": (NodeDisk("node2", "/tmp", trouble="Read-only file system"),)},
            "node2: nothing can be written to /tmp: Read-only file system",
            ("node2",),
        ),
        ({"disks": (NodeDisk("node2", "/dev/shm", 1000),)}, "node2: /dev/shm has 1 kB left", ("node2",)),
        ({"room": Room("/s", GB, "file system", 2 * GB)}, "no room for one of 2 GB: 1 GB free in /s", ()),
        ({"room": Room("/s", 0, "", trouble="/s: Stale file handle")}, "/s: Stale file handle", ()),
    ],
)
def test_what_stops_a_job(changes: dict[str, object], text: str, nodes: tuple[str, ...]) -> None:
    facts = dataclasses.replace(WELL, **changes)  # type: ignore[arg-type] # the tests name fields of Facts
    (found,) = broken(facts)
    assert found.startswith(text)
    assert verdicts.bad_nodes(verdicts.judge(facts, ASKED)) == nodes


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (with_gpu(trouble="GPU is lost"), "node2 gpu3: it cannot be used: GPU is lost"),
        (with_gpu(remap_failed=True), "node2 gpu3: a memory row could not be remapped"),
        (
            with_gpu(vram_used=12 * GB),
            "node2 gpu3: 12 GB of its memory are in use already: leftover processes",
        ),
        (
            dataclasses.replace(
                WELL, gpus=(WELL.gpus[0], GpuNode("node2", Readout(WELL.gpus[1].readout.gpus[:3])))
            ),
            "node2 has 3 GPUs of 4",
        ),
        (
            dataclasses.replace(WELL, gpus=(WELL.gpus[0], GpuNode("node2", trouble="nvidia-smi hangs"))),
            "node2: its GPUs cannot be seen: nvidia-smi hangs",
        ),
    ],
)
def test_a_node_with_a_bad_gpu_is_left_out(facts: Facts, text: str) -> None:
    (found,) = broken(facts)
    assert found.startswith(text)
    assert verdicts.bad_nodes(verdicts.judge(facts, ASKED)) == ("node2",)


def test_what_stops_no_job() -> None:
    assert broken(dataclasses.replace(WELL, gpus=()), Believed()) == []
    assert broken(with_gpu(vram_used=12 * GB), Believed(gpus=3)) == []  # a shared node: not all are ours
    assert broken(dataclasses.replace(WELL, room=Room("/s", GB, "file system"))) == []
    old = GpuNode(
        "node1", WELL.gpus[0].readout, events=(DriverEvent("0000:01:00", 79, "fallen off the bus"),)
    )
    assert broken(dataclasses.replace(WELL, gpus=(old,))) == []
    assert broken(dataclasses.replace(WELL, save_switch="by bob")) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"unasked": "srun: refused"}, "no node could be asked: srun: refused"),
        ({"no_gpus": "no node could tell"}, "no node could tell"),
        ({"unread": "the switches cannot be read"}, "the switches cannot be read"),
    ],
)
def test_what_could_not_be_looked_at_stops_no_job(changes: dict[str, object], text: str) -> None:
    facts = dataclasses.replace(WELL, **changes)  # type: ignore[arg-type] # the tests name fields of Facts
    findings = verdicts.judge(facts, ASKED)
    assert [each.text for each in findings if each.status is Status.WARNING] == [text]
    assert broken(facts) == []


def test_the_disks_of_a_node() -> None:
    text = (
        "@@ node node1\n@@ free 1024 /tmp\n@@ free 7 /dev/a b\n@@ fail /x: mktemp: failed: Permission denied"
    )
    assert list(inspection.read_disks("node1", text)) == [
        NodeDisk("node1", "/tmp", 1 << 20),
        NodeDisk("node1", "/dev/a b", 7 << 10),
        NodeDisk("node1", "/x", trouble="Permission denied"),
    ]


@pytest.mark.parametrize(
    ("broken", "suspect", "spares", "chosen"),
    [
        ([], [], 0, "n1 n2 n3 n4"),
        ([], [], 1, "n1 n2 n3"),
        (["n2"], [], 1, "n1 n3 n4"),
        ([], ["n1"], 1, "n2 n3 n4"),
        (["n2"], ["n1"], 1, "n1 n3 n4"),
        (["n2"], ["n1"], 2, "n3 n4"),
        (["n2", "n3"], [], 1, ""),
        ([], [], 9, "n1"),
    ],
)
def test_the_healthy_subset_to_launch_on(
    broken: list[str], suspect: list[str], spares: int, chosen: str
) -> None:
    findings = [
        *(verdicts.Finding(Status.CRITICAL, "GPUs", "", (node,)) for node in broken),
        *(verdicts.Finding(Status.WARNING, "nodes", "", (node,)) for node in suspect),
    ]
    assert verdicts.healthy(findings, ("n1", "n2", "n3", "n4"), spares) == tuple(chosen.split())


@pytest.mark.parametrize("nodes", [2, 1])
def test_a_script_counts_its_nodes_with_the_spare_ones_or_without(nodes: int) -> None:
    assert broken(WELL, dataclasses.replace(ASKED, nodes=nodes, spares=1)) == []


def test_a_node_under_suspicion_is_named_and_stops_nothing() -> None:
    facts = dataclasses.replace(WELL, suspects={"node2": "incident 3", "elsewhere": ""})
    assert broken(facts) == []
    (found,) = [each for each in verdicts.judge(facts, ASKED) if each.status is Status.WARNING]
    assert (found.text, found.nodes) == ("node2 is under suspicion: incident 3", ("node2",))


@pytest.mark.parametrize(
    ("heard", "trouble"),
    [
        (NodeOutputs({"n1": "ok"}, {"n2": "it hangs"}), ""),
        (
            NodeOutputs({}, {"n1": "srun: denied", "n2": "srun: denied"}),
            "no step can be started: srun: denied",
        ),
        (NodeOutputs(trouble="no srun"), "no srun"),
    ],
)
def test_where_steps_cannot_be_started_no_job_is_refused(heard: NodeOutputs, trouble: str) -> None:
    found = inspection._started(heard)
    assert found.trouble == trouble
    assert bool(found.silent) == (not trouble)
