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
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.system.number import count, needed, real
from watchdogd.system.smallfile import parse_json


@dataclass(frozen=True, slots=True)
class GpuSample:
    """The GPUs of one node of one job."""

    run: str
    job: str
    node: GpuNode


def gpus_json(sample: GpuSample) -> str:
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
            tuple(_made(Gpu, entry) for entry in gpus["list"]), str(gpus["absent"]), bool(gpus["complete"])
        )
        node = GpuNode(str(said["node"]), readout, str(gpus["trouble"]))
        return GpuSample(str(said["run"]), str(said["job"]), node)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None


def _known(gpu: Gpu) -> dict[str, Any]:
    return {name: value for name, value in asdict(gpu).items() if value not in (None, "", ())}


@lru_cache(maxsize=16)
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _made(cls: Any, said: Mapping[str, Any]) -> Any:
    """Make a dataclass of the keys that are fields of it. TypeError where one is missing, or these are none.

    ValueError where a value is of another kind than its field.
    """
    if not isinstance(said, Mapping):
        raise TypeError(str(said)[:80])
    return cls(**{name: _value(hint, said[name]) for name, hint in _hints(cls).items() if name in said})


def _value(hint: Any, value: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_value(parts[0], each) for each in value)
    if origin is Mapping:
        return {str(name): _value(parts[1], each) for name, each in value.items()}
    if value is None and type(None) in parts:
        return None
    kind = parts[0] if parts else hint
    if is_dataclass(kind):
        return _made(kind, value)
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:
        raise ValueError(str(value)[:80])
    return needed(real(value)) if kind is float else value


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
    fields = {} if memory is None else {"memory": asdict(memory)}
    fields |= {} if cpu is None else {"cpu": asdict(cpu)}
    return {**fields, "disks": {path: asdict(disk) for path, disk in disks.items()}}


def read_usage(text: str) -> Usage:
    """Return memory, disks and processor time of a sample. UnreadableError where it is none."""
    try:
        usage: Usage = _made(Usage, parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None
    return usage


def read_stat(text: str, *, read_only: bool = False) -> Disk | None:
    """Read what `stat -f` prints with STAT_FORMAT of one path; None where it is something else."""
    numbers = text.split()
    known = [number for number in map(count, numbers) if number is not None]
    if len(numbers) != 6 or len(known) != 6:
        return None
    blocks, free, available, size, inodes, free_inodes = known
    total = blocks - free + available  # without what is kept for root
    return Disk(available * size, total * size, free_inodes, inodes, read_only)
