"""Sample of one node, which the probe inside a job writes to home: inbox/RUN.sample.HOST.PID.json.

A file is one JSON object and is replaced atomically; its mtime is the sample's time:

    {"kind": "sample", "run": "run-17", "job": "4711", "node": "node5",
     "gpus": {"list": [{"index": 3, "uuid": "GPU-...", "utilisation": 97.0, ...}], "absent": "",
              "complete": true, "trouble": ""},
     "memory": {"pool": "cgroup job_4711", "left": 5.1e9, "total": 6.4e10, "anonymous": 4.2e10,
                "processes": [{"pid": 812, "command": "python", "anonymous": 2.1e10}, ...]},
     "disks": {"/tmp": {"free": 9.0e9, "total": 1.0e10, "free_inodes": 600000, "inodes": 655360},
               "/local": {"trouble": "No such file or directory", "errno": 2}},
     "cpu": {"seconds": 81250.4, "at": 1795800031.2, "gpus": true}}

`job` is the raw job id. A GPU has the fields of `Gpu`, without those that are unknown. Bytes and inodes are
those available to an ordinary user. `pool` is the memory whose end is the job's end: its control group, or
the node. Unknown keys are ignored, so that old and new versions understand each other.
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
    """Return the GPUs of a sample, or None if it has none. Raise UnreadableError if it is not a sample."""
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
    """Build a dataclass from the keys that are its fields.

    Raise TypeError if `said` is not an object or lacks a field, ValueError if a value has the wrong type.
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
"""Format for `stat -f`: blocks, free blocks, blocks free for users, block size, inodes, free inodes."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """One process of a job, and its anonymous memory in bytes.

    That is without page cache, mapped files and shared memory.
    """

    pid: int
    command: str
    anonymous: float


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time: `seconds` used by the job's processes on one node until `at`, by the node's clock.

    `gpus`: the node has GPUs, so that its processors may be busy while they only wait for them.
    """

    seconds: float
    at: float
    gpus: bool


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Memory of one node in bytes: `left` of `total`, and what the job's largest `processes` hold."""

    pool: str
    left: float
    total: float
    anonymous: float = 0.0
    processes: tuple[JobProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system of a node, in bytes; `inodes` is 0 if it does not count inodes.

    `trouble` says why nothing is known, `errno` is the system's number for it (0: it does not answer).
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
    """Memory, disks and processor time of one job on one node; None if the sample does not have them."""

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
    """Return memory, disks and processor time of a sample. Raise UnreadableError if it is not a sample."""
    try:
        usage: Usage = _made(Usage, parse_json(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None
    return usage


def read_stat(text: str, *, read_only: bool = False) -> Disk | None:
    """Read what `stat -f` printed with STAT_FORMAT for one path; None if it is something else."""
    numbers = text.split()
    known = [number for number in map(count, numbers) if number is not None]
    if len(numbers) != 6 or len(known) != 6:
        return None
    blocks, free, available, size, inodes, free_inodes = known
    total = blocks - free + available  # without what is kept for root
    return Disk(available * size, total * size, free_inodes, inodes, read_only)
