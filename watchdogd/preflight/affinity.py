"""CPU affinity of a job's ranks: whether each has its own cores, near its GPU. Pure.

SCRIPT runs with the training's own `srun` options, and prints a line for each rank: its mask, the GPUs that
it sees and the cores near each. These come from sysfs or, where sysfs does not know them for NVIDIA's GPUs,
from `nvidia-smi topo -m`. On MI250X nodes with a single NUMA domain the order of LUMI and Frontier is used
(MI250X_FIRST): the first GCD is near cores 48 and up, not near core 0.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from watchdogd.plugin import Status
from watchdogd.preflight.verdicts import Finding
from watchdogd.stacks import stack_folding
from watchdogd.system.number import digits

Cpus = frozenset[int]

SCRIPT = r"""
see() {
    path=/sys/bus/pci/devices/$1
    near=$(cat "$path/local_cpulist" 2>/dev/null)
    printf '|%s=%s=%s=%s' "$1" "$near" "$(cat "$path/device" 2>/dev/null)" "$2"
    [ "$near" ]
}
mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
seen=$(
    if command -v nvidia-smi >/dev/null; then
        timeout 20 nvidia-smi --query-gpu=pci.bus_id,uuid --format=csv,noheader 2>/dev/null |
            tr A-Z, 'a-z ' | {
                known=yes
                while read -r bus uuid; do see "${bus#0000}" "$uuid" || known=; done
                [ "$known" ] ||
                    printf '|%s' "$(timeout 20 nvidia-smi topo -m | grep '^GPU[0-9]' | tr '\n' '|')"
            }
    fi
    for device in /sys/bus/pci/drivers/amdgpu/*:*; do
        for node in "$device"/drm/renderD*; do
            [ -e "$node" ] && ( : < "/dev/dri/${node##*/}" ) 2>/dev/null && see "${device##*/}"
        done
    done
)
if [ "$SLURM_LOCALID" = 0 ]; then
    same=$(cat /sys/devices/system/cpu/cpu*/topology/thread_siblings_list | sort -u | tr '\n' ' ')
fi
printf '@@ rank %s %s %s %s %s|%s%s\n' "$SLURM_PROCID" "$SLURM_LOCALID" "${SLURMD_NODENAME:-?}" "$mask" \
    "${ROCR_VISIBLE_DEVICES-${HIP_VISIBLE_DEVICES-${CUDA_VISIBLE_DEVICES--}}}" "$same" "$seen"
"""
TOPIC = "affinity"
MI250X = "0x7408"
MI250X_FIRST = (48, 56, 16, 24, 0, 8, 32, 40)
"""First of the eight cores near each GCD of an MI250X node."""
_RANK = re.compile(
    r"^(?: *\d+: )?@@ rank (\d+) (\d+) (\S+) ([\d,-]+) ([^\s|]*)\|([\d,\- ]*)(.*)$", re.MULTILINE
)
_TOPO = re.compile(r"GPU([0-9]++)\t(?:[^\tA-Z]*+[A-Z][^\t]*+\t)*+ *([0-9,-]+)")
"""Row of `nvidia-smi topo -m`: CPU Affinity is the first column after the matrix that has numbers only."""
_UNUSED = 0.25
"""Share of a node's cores that no rank uses, from which that is reported."""


@dataclass(frozen=True, slots=True)
class RankGpu:
    """GPU as a rank sees it: address on the bus (or `GPU3`), nearby cores, device id, UUID."""

    bus: str
    near: Cpus = frozenset()
    device: str = ""
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class RankBinding:
    """Rank: global number, number on its node, CPU mask, and its own GPU, where that is known."""

    number: int
    local: int
    node: str
    cpus: Cpus
    gpu: RankGpu | None = None


@dataclass(frozen=True, slots=True)
class NodeBinding:
    """Ranks of one node, its GPUs in order, the job's CPUs, and the core of each CPU."""

    ranks: tuple[RankBinding, ...]
    gpus: tuple[RankGpu, ...]
    given: Cpus
    core_of: Mapping[int, int]

    def cores(self, cpus: Iterable[int]) -> set[int]:
        """Return the cores of these CPUs, each by its first CPU."""
        return {self.core_of.get(cpu, cpu) for cpu in cpus}


def cpus(text: str) -> Cpus:
    """Return the numbers in `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found |= set(range(digits(first), min(digits(last or first), 1 << 16) + 1))
    return frozenset(found)


def read(text: str, given: Mapping[str, Cpus], most: int | None = None) -> dict[str, NodeBinding]:
    """Parse SCRIPT's output into ranks by node; `given`: the job's CPUs on each.

    Where these are more than the job requested (`most`), Slurm does not confine it: then the ranks' own
    count.
    """
    lines = sorted(_RANK.findall(text), key=lambda each: digits(each[0]))
    nodes = defaultdict[str, list[tuple[str, ...]]](list)
    for line in lines:
        nodes[line[2]].append(line)
    return {node: _node(node, found, given.get(node, frozenset()), most) for node, found in nodes.items()}


def _node(node: str, lines: Sequence[tuple[str, ...]], given: Cpus, most: int | None) -> NodeBinding:
    seen = {line[1]: _seen(line[6]) for line in lines}
    everything = {gpu.bus: gpu for gpus in seen.values() for gpu in gpus}
    gpus = _placed(tuple(everything[bus] for bus in sorted(everything, key=_in_order)))
    placed = {gpu.bus: gpu for gpu in gpus}
    ranks = tuple(
        RankBinding(
            digits(number), digits(local), node, cpus(mask), _own(visible, digits(local), seen[local], lines)
        )
        for number, local, _, mask, visible, *_ in lines
    )
    ranks = tuple(replace(rank, gpu=placed[rank.gpu.bus]) if rank.gpu else rank for rank in ranks)
    cores = [sorted(cpus(part)) for line in lines for part in line[5].split()]
    core_of = {cpu: threads[0] for threads in cores for cpu in threads}
    confined = most is None or len({core_of.get(cpu, cpu) for cpu in given}) <= most
    given = given if confined else frozenset()
    return NodeBinding(ranks, gpus, given.union(*(rank.cpus for rank in ranks)), core_of)


def _in_order(bus: str) -> tuple[int, str]:
    return (len(bus), bus)


def _seen(text: str) -> tuple[RankGpu, ...]:
    """Return the GPUs that a rank sees, in order."""
    parts = text.split("|")[1:]
    near = {digits(row[1]): cpus(row[2]) for part in parts if (row := _TOPO.match(part))}
    found = [fields for part in parts if len(fields := part.split("=")) == 4]
    return tuple(
        RankGpu(bus, cpus(cores) or near.get(at, frozenset()), device, uuid)
        for at, (bus, cores, device, uuid) in enumerate(found)
    )


def _own(visible: str, local: int, seen: Sequence[RankGpu], lines: Sequence[object]) -> RankGpu | None:
    """Return the GPU that a rank computes on: the one visible to it, or of several that of its local number.

    A launcher such as torchrun starts several workers in one rank: then it is unknown.
    """
    named = [each for each in visible.strip(",").split(",") if each] if visible != "-" else []
    usable = [gpu for each in named if (gpu := _named(each, seen))] if visible != "-" else list(seen)
    if len(usable) == 1:
        return usable[0]
    return usable[local] if 1 < len(lines) <= len(usable) and local < len(usable) else None


def _named(name: str, seen: Sequence[RankGpu]) -> RankGpu | None:
    if name.isdecimal():
        return seen[digits(name)] if digits(name) < len(seen) else None
    return next((gpu for gpu in seen if gpu.uuid and gpu.uuid.startswith(name.lower())), None)


def _placed(gpus: tuple[RankGpu, ...]) -> tuple[RankGpu, ...]:
    """Return the GPUs with nearby cores; for MI250X without NUMA domains in the known order."""
    known = len(gpus) == len(MI250X_FIRST) and {gpu.device for gpu in gpus} == {MI250X}
    if not known or len({gpu.near for gpu in gpus}) > 1:
        return gpus
    near = [{*range(first, first + 8), *range(first + 64, first + 72)} for first in MI250X_FIRST]
    return tuple(replace(gpu, near=frozenset(each)) for gpu, each in zip(gpus, near, strict=True))


def judge(nodes: Mapping[str, NodeBinding], *, stated: bool = True) -> Iterator[Finding]:
    """Judge the ranks of all nodes; equal nodes share one finding and its table.

    `stated`: srun's options are known. Without, the training may be started otherwise, so nothing here stops
    the job.
    """
    alike = defaultdict[object, list[str]](list)
    for name, node in nodes.items():
        alike[tuple((rank.local, rank.cpus, rank.gpu) for rank in node.ranks), node.given].append(name)
    for names in alike.values():
        found = _judged(stack_folding.names(names), nodes[names[0]])
        if not stated and found.status is not Status.OK:
            found = replace(
                found, status=Status.WARNING, text=f"{found.text} (by srun without options: --srun)"
            )
        yield found


def _judged(names: str, node: NodeBinding) -> Finding:
    crowd, faults = _crowded(node), [*_overlaps(node), *_unused(node), *_far(node)]
    lines = (*table(node), *advice(node))
    if crowd:
        return Finding(Status.CRITICAL, TOPIC, f"{names}: {'; '.join([crowd, *faults])}", table=lines)
    if faults:
        return Finding(Status.WARNING, TOPIC, f"{names}: {'; '.join(faults)}", table=lines)
    return Finding(Status.OK, TOPIC, f"{names}: {_well(node)}", table=tuple(table(node)))


def _well(node: NodeBinding) -> str:
    """Describe a node without faults."""
    count, cores = len(node.ranks), len(node.cores(node.ranks[0].cpus))
    if count == 1:
        return f"its rank may use {cores} cores"
    if len({rank.cpus for rank in node.ranks}) == 1:
        return f"its {count} ranks share {cores} cores"
    near = ", near its GPU" if any(rank.gpu and rank.gpu.near for rank in node.ranks) else ""
    return f"each of {count} ranks has cores of its own{near}"


def _crowded(node: NodeBinding) -> str:
    """Describe more ranks than cores, if the job has enough cores; else empty."""
    used = node.cores(cpu for rank in node.ranks for cpu in rank.cpus)
    if len(used) >= len(node.ranks) or len(node.cores(node.given)) < len(node.ranks):
        return ""
    return f"{len(node.ranks)} ranks on {len(used)} core{'' if len(used) == 1 else 's'}"


def _overlaps(node: NodeBinding) -> Iterator[str]:
    if len({rank.cpus for rank in node.ranks}) == 1 and len(node.ranks) > 1:
        if _domains(node) > 1 and not _crowded(node):
            yield f"none of its {len(node.ranks)} ranks is bound to cores of its own"
        return
    holders = Counter(core for rank in node.ranks for core in node.cores(rank.cpus))
    shared = {core for core, count in holders.items() if count > 1}
    ranks = [rank.local for rank in node.ranks if node.cores(rank.cpus) & shared]
    if ranks:
        yield f"local ranks {stack_folding.numbers(ranks)} share cores {stack_folding.numbers(shared)}"


def _domains(node: NodeBinding) -> int:
    """Return the number of different sets of cores near its GPUs."""
    return len({gpu.near for gpu in node.gpus if gpu.near})


def _unused(node: NodeBinding) -> Iterator[str]:
    idle = node.cores(node.given) - node.cores(cpu for rank in node.ranks for cpu in rank.cpus)
    if len(idle) >= max(_UNUSED * len(node.cores(node.given)), 1):
        yield f"no rank may use {len(idle)} of the job's {len(node.cores(node.given))} cores"


def _far(node: NodeBinding) -> Iterator[str]:
    bound = [rank for rank in node.ranks if rank.gpu and rank.gpu.near and rank.cpus != node.given]
    far = [rank.local for rank in bound if rank.gpu and not rank.cpus & rank.gpu.near]
    partly = [
        rank.local for rank in bound if rank.gpu and rank.cpus & rank.gpu.near and rank.cpus - rank.gpu.near
    ]
    if far:
        yield f"{_ranks(far, 'computes', 'compute')} far from the GPU"
    elif partly:
        yield f"{_ranks(partly, 'may run', 'may run')} far from the GPU"


def _ranks(found: list[int], one: str, more: str) -> str:
    which = stack_folding.numbers(found)
    return f"local rank {which} {one}" if len(found) == 1 else f"local ranks {which} {more}"


def table(node: NodeBinding) -> Iterator[str]:
    """Yield a line for each rank: its cores, its GPU, the cores near that."""
    rows = [("rank", "may run on", "GPU", "cores near it", ""), *(_row(rank, node) for rank in node.ranks)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(rank: RankBinding, node: NodeBinding) -> tuple[str, ...]:
    where, near = stack_folding.numbers(rank.cpus), rank.gpu.near if rank.gpu else frozenset()
    far = "far" if near and not near & rank.cpus else ""
    bus = f"{node.gpus.index(rank.gpu)} ({rank.gpu.bus.removeprefix('0000:')})" if rank.gpu else ""
    return str(rank.local), where, bus, stack_folding.numbers(near), far


def advice(node: NodeBinding) -> Iterator[str]:
    """Yield options for the training's srun: the mask of each local rank, or the GPU of each."""
    masks = best_masks(node)
    if masks:
        yield f"right: srun --cpu-bind=mask_cpu:{','.join(masks)} ..."
    order = gpu_order(node)
    if order:
        yield f"or:    srun --gpu-bind=map_gpu:{','.join(map(str, order))} ..."
    if not masks and len(node.ranks) > 1:
        share = len(node.cores(node.given)) // len(node.ranks)
        yield f"right: srun --cpus-per-task={max(share, 1)} --cpu-bind=cores ..."


def shares(node: NodeBinding) -> dict[str, Cpus]:
    """Return the job's cores near each GPU; GPUs near the same cores divide them in order."""
    found: dict[str, Cpus] = {}
    for near in {gpu.near for gpu in node.gpus}:
        buses = [gpu.bus for gpu in node.gpus if gpu.near == near]
        cores = sorted(node.cores(near))
        size = len(cores) // len(buses)
        for at, bus in enumerate(buses):
            mine = set(cores[at * size : (at + 1) * size])
            found[bus] = frozenset(cpu for cpu in near & node.given if node.core_of.get(cpu, cpu) in mine)
    return found


def best_masks(node: NodeBinding) -> list[str]:
    """Return a mask for each local rank; none where a GPU or its nearby cores are unknown.

    Second threads of a core are left out if no rank has them now (`--hint=nomultithread`).
    """
    near = shares(node)
    threads = any(len(node.cores(rank.cpus)) < len(rank.cpus) for rank in node.ranks)
    masks = []
    for rank in node.ranks:
        mine = near.get(rank.gpu.bus, frozenset()) if rank.gpu and rank.gpu.near else frozenset[int]()
        chosen = mine if threads else frozenset(node.cores(mine)) & mine
        if not chosen:
            return []
        masks.append(hex(sum(1 << cpu for cpu in chosen)))
    return masks if _domains(node) > 1 and len(set(masks)) == len(masks) else []


def gpu_order(node: NodeBinding) -> list[int]:
    """Return the GPU near each local rank's cores, if the ranks merely have each other's; else nothing."""
    near = list(shares(node).items())
    numbers = {gpu.bus: at for at, gpu in enumerate(node.gpus)}
    order = [
        next((numbers[bus] for bus, mine in near if mine and rank.cpus <= mine), None) for rank in node.ranks
    ]
    known = [number for number in order if number is not None]
    whole = len(known) == len(node.ranks) == len(set(known)) and len(node.gpus) == len(known)
    return known if whole and known != sorted(known) else []
