"""What a node has left, as the probe writes it beside the GPUs into inbox/RUN.sample.HOST.PID.json.

    "memory": {"pool": "cgroup job_4711", "left": 5.1e9, "total": 6.4e10, "anonymous": 4.2e10,
               "processes": [{"pid": 812, "command": "python", "anonymous": 2.1e10}, ...]},
    "disks": {"/tmp": {"free": 9.0e9, "total": 1.0e10, "free_inodes": 600000, "inodes": 655360},
              "/local": {"trouble": "No such file or directory", "errno": 2}},
    "cpu": {"seconds": 81250.4, "at": 1795800031.2, "gpus": true}

Bytes and numbers of inodes, as an ordinary user has them. `pool` is what ends the job when it is used up: a
control group, or the node.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from watchdogd.errors import UnreadableError
from watchdogd.system.number import count, needed, real, whole
from watchdogd.system.smallfile import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

STAT_FORMAT = "%b %f %a %S %c %d"
"""Blocks, free ones, those free for users, their size, inodes, free ones (stat(1), of a file system)."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the job and its anonymous memory: not page cache, file mappings or shared segments."""

    pid: int
    command: str
    anonymous: float


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor time: `seconds` that the job's processes on one node took until `at`, by the node's clock.
    `gpus`: the node has some, for which processors may burn while they only wait."""

    seconds: float
    at: float
    gpus: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """What is left on one node, what the job's processes hold, and those that hold most."""

    pool: str
    left: float
    total: float
    anonymous: float = 0.0
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Disk:
    """One file system of a node; it counts no inodes where `inodes` is 0. `trouble`: why nothing is known,
    with the system's `errno` of it; 0: none was told, it does not answer.
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
    memory: Memory | None = None
    disks: Mapping[str, Disk] = field(default_factory=dict)
    cpu: Cpu | None = None


def as_json(memory: Memory | None, disks: Mapping[str, Disk], cpu: Cpu | None = None) -> dict[str, Any]:
    """The keys that stand beside the GPUs."""
    told = {} if memory is None else {"memory": asdict(memory)}
    told |= {} if cpu is None else {"cpu": asdict(cpu)}
    return {**told, "disks": {path: asdict(disk) for path, disk in disks.items()}}


def read(text: str) -> Usage:
    """The sample. UnreadableError where it is none."""
    try:
        told = parse_json(text)
        memory = None if told.get("memory") is None else _memory(told["memory"])
        disks = {str(path): _disk(disk) for path, disk in told.get("disks", {}).items()}
        cpu = None if told.get("cpu") is None else _cpu(told["cpu"])
        return Usage(str(told["run"]), str(told["job"]), str(told["node"]), memory, disks, cpu)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"no sample of a probe ({type(error).__name__}: {error})") from None


def read_stat(text: str, *, read_only: bool = False) -> Disk | None:
    """What `stat -f` prints with STAT_FORMAT of one path, or None where it is something else."""
    numbers = text.split()
    told = [number for number in map(count, numbers) if number is not None]
    if len(numbers) != 6 or len(told) != 6:
        return None
    blocks, free, available, size, inodes, free_inodes = told
    total = blocks - free + available  # without what is kept for root
    return Disk(available * size, total * size, free_inodes, inodes, read_only)


def _memory(told: dict[str, Any]) -> Memory:
    processes = tuple(
        Process(needed(whole(each["pid"])), str(each["command"]), needed(real(each["anonymous"])))
        for each in told["processes"]
    )
    left, total, held = (needed(real(told[key])) for key in ("left", "total", "anonymous"))
    return Memory(str(told["pool"]), left, total, held, processes)


def _cpu(told: dict[str, Any]) -> Cpu:
    return Cpu(needed(real(told["seconds"])), needed(real(told["at"])), bool(told["gpus"]))


def _disk(told: dict[str, Any]) -> Disk:
    free, total, free_inodes, inodes = (
        needed(real(told.get(key, 0.0))) for key in ("free", "total", "free_inodes", "inodes")
    )
    read_only, trouble = bool(told.get("read_only", False)), str(told.get("trouble", ""))
    return Disk(free, total, free_inodes, inodes, read_only, trouble, needed(whole(told.get("errno", 0))))
