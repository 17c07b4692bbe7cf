"""Sample of one node, as the job's own probe leaves it in home: inbox/RUN.sample.HOST.PID.json.

One JSON object, replaced atomically, its date the file's time:

    {"kind": "sample", "run": "run-17", "job": "4711", "node": "node5",
     "gpus": {"list": [{"index": 3, "uuid": "GPU-...", "utilisation": 97.0, ...}], "absent": "",
              "complete": true, "trouble": ""},
     "memory": {"pool": "cgroup job_4711", "left": 5.1e9, "total": 6.4e10, "anonymous": 4.2e10,
                "processes": [{"pid": 812, "command": "python", "anonymous": 2.1e10}, ...]},
     "disks": {"/tmp": {"free": 9.0e9, "total": 1.0e10, "free_inodes": 600000, "inodes": 655360},
               "/local": {"trouble": "No such file or directory", "errno": 2}},
     "cpu": {"seconds": 81250.4, "at": 1795800031.2, "gpus": true}}

`job` is the raw id. A GPU has the fields of `Gpu`, those that are not known left out. Bytes and numbers of
inodes are as an ordinary user has them. `pool` is what ends the job when it is used up: a control group, or
the node. Unknown keys are passed over, so that old and new go together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.system.number import count, needed, real, whole
from watchdogd.system.smallfile import parse_json

_NAMES = {field.name: field.type for field in fields(Gpu)}
_TUPLES = frozenset({"throttled", "doubts"})


@dataclass(frozen=True, slots=True)
class GpuSample:
    """The GPUs of one node of one job."""

    run: str
    job: str
    node: GpuNode


def gpus_json(sample: GpuSample) -> str:
    """Return the text of the file."""
    readout = sample.node.readout
    gpus = {
        "list": [_known(gpu) for gpu in readout.gpus],
        "absent": readout.absent,
        "complete": readout.complete,
        "trouble": sample.node.trouble,
    }
    document = {
        "kind": "sample",
        "run": sample.run,
        "job": sample.job,
        "node": sample.node.name,
        "gpus": gpus,
    }
    return json.dumps(document) + "\n"


def read_gpus(text: str) -> GpuSample | None:
    """Return the sample, or None where it has no GPUs. UnreadableError where it is no sample."""
    try:
        said = parse_json(text)
        gpus = said.get("gpus")
        if gpus is None:
            return None
        readout = Readout(
            tuple(_gpu(entry) for entry in gpus["list"]), str(gpus["absent"]), bool(gpus["complete"])
        )
        node = GpuNode(str(said["node"]), readout, str(gpus["trouble"]))
        return GpuSample(str(said["run"]), str(said["job"]), node)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None


def _known(gpu: Gpu) -> dict[str, Any]:
    values = {name: getattr(gpu, name) for name in _NAMES}
    return {name: value for name, value in values.items() if value not in (None, "", ())}


def _gpu(entry: dict[str, Any]) -> Gpu:
    """ValueError where a value is of another kind than its field."""
    found: dict[str, Any] = {}
    for name, value in entry.items():
        if name in _TUPLES:
            found[name] = tuple(str(item) for item in value)
        elif name in _NAMES:
            found[name] = _typed(name, value)
    return Gpu(**found)


def _typed(name: str, value: Any) -> Any:
    wanted = str(_NAMES[name])
    kinds: dict[str, tuple[type, ...]] = {
        "str": (str,),
        "int": (int,),
        "bool": (bool,),
        "float": (int, float),
    }
    if not isinstance(value, kinds[wanted.partition(" ")[0]]) or (
        isinstance(value, bool) and "bool" not in wanted
    ):
        raise ValueError(f"{name}: {str(value)[:80]}")
    return needed(real(value)) if isinstance(value, float) else value


STAT_FORMAT = "%b %f %a %S %c %d"
"""Blocks, free ones, those free for users, their size, inodes, free ones (stat(1), of a file system)."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """One process of the job and its anonymous memory: not page cache, file mappings or shared segments."""

    pid: int
    command: str
    anonymous: float


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time: `seconds` that a job's processes on one node took until `at`, by the node's clock.

    `gpus`: the node has some, for which processors may burn while they only wait."""

    seconds: float
    at: float
    gpus: bool


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Memory of one node in bytes: what is left, what the job's processes hold, and those that hold most."""

    pool: str
    left: float
    total: float
    anonymous: float = 0.0
    processes: tuple[JobProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system of a node, in bytes; it counts no inodes where `inodes` is 0.

    `trouble`: why nothing is known, with the system's `errno` of it; 0: none, it does not answer.
    """

    free: float = 0.0
    total: float = 0.0
    free_inodes: float = 0.0
    inodes: float = 0.0
    read_only: bool = False
    trouble: str = ""
    errno: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """One node of one job. `memory` and `cpu` are None where the sample does not tell."""

    run: str
    job: str
    node: str
    memory: NodeMemory | None = None
    disks: Mapping[str, Disk] = field(default_factory=dict)
    cpu: Cpu | None = None


def usage_json(
    memory: NodeMemory | None, disks: Mapping[str, Disk], cpu: Cpu | None = None
) -> dict[str, Any]:
    """Return the keys that stand beside the GPUs."""
    fields = {} if memory is None else {"memory": asdict(memory)}
    fields |= {} if cpu is None else {"cpu": asdict(cpu)}
    return {**fields, "disks": {path: asdict(disk) for path, disk in disks.items()}}


def read_usage(text: str) -> Usage:
    """Return memory, disks and processor time of a sample. UnreadableError where it is none."""
    try:
        fields = parse_json(text)
        memory = None if fields.get("memory") is None else _memory(fields["memory"])
        disks = {str(path): _disk(disk) for path, disk in fields.get("disks", {}).items()}
        cpu = None if fields.get("cpu") is None else _cpu(fields["cpu"])
        return Usage(str(fields["run"]), str(fields["job"]), str(fields["node"]), memory, disks, cpu)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None


def read_stat(text: str, *, read_only: bool = False) -> Disk | None:
    """Read what `stat -f` prints with STAT_FORMAT of one path; None where it is something else."""
    numbers = text.split()
    known = [number for number in map(count, numbers) if number is not None]
    if len(numbers) != 6 or len(known) != 6:
        return None
    blocks, free, available, size, inodes, free_inodes = known
    total = blocks - free + available  # without what is kept for root
    return Disk(available * size, total * size, free_inodes, inodes, read_only)


def _memory(fields: dict[str, Any]) -> NodeMemory:
    processes = tuple(
        JobProcess(needed(whole(each["pid"])), str(each["command"]), needed(real(each["anonymous"])))
        for each in fields["processes"]
    )
    left, total, held = (needed(real(fields[key])) for key in ("left", "total", "anonymous"))
    return NodeMemory(str(fields["pool"]), left, total, held, processes)


def _cpu(fields: dict[str, Any]) -> Cpu:
    return Cpu(needed(real(fields["seconds"])), needed(real(fields["at"])), bool(fields["gpus"]))


def _disk(fields: dict[str, Any]) -> Disk:
    free, total, free_inodes, inodes = (
        needed(real(fields.get(key, 0.0))) for key in ("free", "total", "free_inodes", "inodes")
    )
    read_only, trouble = bool(fields.get("read_only", False)), str(fields.get("trouble", ""))
    return Disk(free, total, free_inodes, inodes, read_only, trouble, needed(whole(fields.get("errno", 0))))
