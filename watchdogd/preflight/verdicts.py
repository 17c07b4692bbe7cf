"""Verdicts of preflight: from facts to findings in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import Status
from watchdogd.plugins.gpu_health import faults
from watchdogd.stacks import stack_folding
from watchdogd.units import format_size

LEFT_OVER = 2 << 30
"""Bytes of GPU memory in use before the job begins that are too many for the driver's own."""
LEFT_OVER_SHARE = 5.0
NODE_DISK_FREE = 1 << 30
"""Minimum free bytes of a node's own disk: sockets, compiled kernels, core files."""


@dataclass(frozen=True, slots=True)
class Believed:
    """Resources that the job script expects, None where it does not say. `gpus`: on each node.

    `spares`: nodes that the run can do without.
    """

    nodes: int | None = None
    tasks: int | None = None
    cpus: int | None = None
    gpus: int | None = None
    spares: int = 0


@dataclass(frozen=True, slots=True)
class NodeDisk:
    """Folder on one node: free bytes, or why it cannot be written."""

    node: str
    path: str
    free: int = 0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """Free bytes for checkpoints, the limit that leaves them, and the size of the last checkpoints."""

    folder: str
    free: float
    of: str
    needed: float | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the job and its nodes.

    `stopped`: who stopped or finished the run; `unread`: why that is unknown. `silent`: nodes without an
    answer, with the reason; `suspects`: nodes under suspicion, likewise. `given`: the job's CPUs by node.
    """

    hosts: tuple[str, ...]
    tasks: int | None = None
    cores: int = 0
    stopped: str = ""
    save_switch: str = ""
    unread: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
    suspects: Mapping[str, str] = field(default_factory=dict)
    unasked: str = ""
    gpus: tuple[GpuNode, ...] = ()
    no_gpus: str = ""
    disks: tuple[NodeDisk, ...] = ()
    room: Room | None = None
    given: Mapping[str, frozenset[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of preflight. CRITICAL stops the job; what could not be tested does not.

    `nodes`: nodes to exclude; `table`: lines of evidence.
    """

    status: Status
    topic: str
    text: str
    nodes: tuple[str, ...] = ()
    table: tuple[str, ...] = ()


def judge(facts: Facts, believed: Believed) -> tuple[Finding, ...]:
    """Return all findings."""
    return (
        *_switches(facts),
        *_shape(facts, believed),
        *_nodes(facts),
        *_gpus(facts, believed),
        *_disks(facts),
        *_room(facts.room),
    )


def bad_nodes(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the nodes for sbatch's --exclude."""
    return tuple(sorted({node for finding in findings for node in finding.nodes}))


def healthy(findings: Sequence[Finding], hosts: Sequence[str], spares: int) -> tuple[str, ...]:
    """Return the nodes to launch on, `spares` fewer than the job has; empty where too few are healthy.

    A node under suspicion is used only where there is no other.
    """
    broken = {node for each in findings if each.status is Status.CRITICAL for node in each.nodes}
    suspect = set(bad_nodes(findings)) - broken
    well = sorted((host for host in hosts if host not in broken), key=lambda host: host in suspect)
    chosen = set(well[: max(len(hosts) - spares, 1)])
    return tuple(host for host in hosts if host in chosen) if len(well) >= len(hosts) - spares else ()


def _switches(facts: Facts) -> Iterator[Finding]:
    if facts.stopped:
        yield Finding(Status.CRITICAL, "switches", facts.stopped)
    elif facts.unread:
        yield Finding(Status.WARNING, "switches", facts.unread)
    elif facts.save_switch:
        yield Finding(Status.WARNING, "switches", f"the save switch is still set {facts.save_switch}")
    else:
        yield Finding(Status.OK, "switches", "none is set")


def _shape(facts: Facts, believed: Believed) -> Iterator[Finding]:
    nodes = believed.nodes
    if believed.spares and nodes is not None:  # scripts may or may not count the spare nodes
        nodes = nodes if nodes == len(facts.hosts) else nodes + believed.spares
    yield _counted("nodes", nodes, len(facts.hosts))
    if believed.tasks is not None:
        yield _counted("tasks", believed.tasks, facts.tasks or 0)
    if believed.cpus is None:
        yield Finding(Status.OK, "cores", f"{facts.cores} can be used here")
    elif facts.cores < believed.cpus:
        text = f"{facts.cores} can be used here, the job has {believed.cpus}: look at --cpu-bind"
        yield Finding(Status.CRITICAL, "cores", text)
    else:
        yield Finding(Status.OK, "cores", f"{facts.cores} can be used here for the job's {believed.cpus}")


def _counted(topic: str, believed: int | None, found: int) -> Finding:
    if believed is None or believed == found:
        return Finding(Status.OK, topic, f"the job has {found}")
    return Finding(Status.CRITICAL, topic, f"the job has {found}, the script goes by {believed}")


def _nodes(facts: Facts) -> Iterator[Finding]:
    if facts.unasked:
        yield Finding(Status.WARNING, "nodes", f"no node could be asked: {facts.unasked}")
        return
    for node in (host for host in facts.hosts if host in facts.suspects):
        text = f"{node} is under suspicion: {facts.suspects[node]}"
        yield Finding(Status.WARNING, "nodes", text, (node,))
    for node, why in facts.silent.items():
        yield Finding(Status.CRITICAL, "nodes", f"{node} does not answer: {why}", (node,))
    heard = [host for host in facts.hosts if host not in facts.silent]
    if heard:
        yield Finding(Status.OK, "nodes", f"{stack_folding.names(heard)} answered")


def _gpus(facts: Facts, believed: Believed) -> Iterator[Finding]:
    if not believed.gpus:
        yield Finding(Status.OK, "GPUs", "none is asked for")
        return
    if facts.no_gpus:
        yield Finding(Status.WARNING, "GPUs", facts.no_gpus)
    well = []
    for node in facts.gpus:
        found = list(_of_node(node, believed.gpus))
        yield from found
        well += [] if any(finding.status is Status.CRITICAL for finding in found) else [node.name]
    if well:
        yield Finding(Status.OK, "GPUs", f"{believed.gpus} on each of {stack_folding.names(well)}")


def _of_node(node: GpuNode, expected: int) -> Iterator[Finding]:
    _, count = node.readout.counts
    if node.trouble or node.readout.absent:
        text = f"{node.name}: its GPUs cannot be seen: {node.trouble or node.readout.absent}"
        yield Finding(Status.CRITICAL, "GPUs", text, (node.name,))
        return
    if count < expected:
        text = f"{node.name} has {count} GPUs of {expected}"
        yield Finding(Status.CRITICAL, "GPUs", text, (node.name,))
    for gpu in node.readout.gpus:
        for event in node.events:  # it may be old, and corrected by a reset since: no reason to stop
            if event.speaks_of(gpu.bus):
                text = f"{node.name} {gpu.label}: its driver once reported: {event.text}"
                yield Finding(Status.WARNING, "GPUs", text)
        for fault in faults.gpu_faults(gpu, faults.GpuLimits()):
            bad = fault.status is Status.CRITICAL
            text = f"{node.name} {gpu.label}: {fault.text}"
            status = Status.CRITICAL if bad else Status.WARNING
            yield Finding(status, "GPUs", text, (node.name,) if bad else ())
        if count == expected and (gpu.vram or 0.0) > LEFT_OVER_SHARE and (gpu.vram_used or 0) > LEFT_OVER:
            used = format_size(gpu.vram_used or 0)
            text = f"{node.name} {gpu.label}: {used} of its memory are in use already: leftover processes"
            yield Finding(Status.CRITICAL, "GPUs", text, (node.name,))


def _disks(facts: Facts) -> Iterator[Finding]:
    for disk in facts.disks:
        if disk.trouble:
            text = f"{disk.node}: nothing can be written to {disk.path}: {disk.trouble}"
        elif disk.free < NODE_DISK_FREE:
            text = f"{disk.node}: {disk.path} has {format_size(disk.free)} left"
        else:
            continue
        yield Finding(Status.CRITICAL, "disks", text, (disk.node,))
    well = sorted({disk.path for disk in facts.disks} - {disk.path for disk in facts.disks if disk.trouble})
    if well:
        yield Finding(Status.OK, "disks", f"{', '.join(well)} of the nodes can be written to")


def _room(room: Room | None) -> Iterator[Finding]:
    if room is None:
        return
    if room.trouble:
        yield Finding(Status.CRITICAL, "checkpoints", room.trouble)
        return
    free = f"{format_size(room.free)} free in {room.folder} ({room.of})"
    if room.needed is None:
        yield Finding(Status.OK, "checkpoints", f"{free}; none is there yet to say what one needs")
    elif room.free < room.needed:
        text = f"no room for one of {format_size(room.needed)}: {free}"
        yield Finding(Status.CRITICAL, "checkpoints", text)
    else:
        yield Finding(Status.OK, "checkpoints", f"room for one of {format_size(room.needed)}: {free}")
