"""Why a training died or hangs, as its log says: known lines of frameworks, drivers and batch systems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.readers.lines import Line


@dataclass(frozen=True, slots=True)
class Cause:
    """What a line tells: its kind (of KINDS), and a sentence with the rank or node where it names one."""

    kind: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of cause. Lower `weight` lies nearer to the root: what follows from others has a high one."""

    name: str
    weight: int
    pattern: re.Pattern[str]


def _kind(name: str, weight: int, pattern: str) -> Kind:
    return Kind(name, weight, re.compile(pattern, re.IGNORECASE))


KINDS = (
    _kind("uncorrectable ECC error", 0, r"uncorrectable ECC|cudaErrorECCUncorrectable|ECC error encountered"),
    _kind("GPU fault (Xid)", 0, r"NVRM: Xid|\bXid \(PCI|GPU has fallen off the bus"),
    _kind(
        "NVLink or peer memory fault", 0, r"Invalid access of peer GPU memory over nvlink|cudaErrorContained"
    ),
    _kind(
        "GPU reset or hang",
        0,
        r"amdgpu.*(?:GPU reset begin|ring \S+ timeout)|qcm fence wait loop timeout|IP block:\S+ is hung"
        r"|GPU Hang|Memory access fault by GPU",
    ),
    _kind("disk quota exceeded", 1, r"Disk quota exceeded|\bEDQUOT\b|Errno 122"),
    _kind("no space left on device", 1, r"No space left on device|\bENOSPC\b|Errno 28\b"),
    _kind("stale file handle", 1, r"Stale (?:NFS )?file handle|\bESTALE\b|Errno 116"),
    _kind(
        "GPU out of memory",
        1,
        r"(?:CUDA|HIP) out of memory|OutOfMemoryError|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY",
    ),
    _kind(
        "host out of memory (killed by the kernel)",
        1,
        r"oom[-_ ]kill|Out of memory: Kill|OOM Killed|TERM_MEMLIMIT|Exceeded job memory limit",
    ),
    _kind("bus error (shared memory)", 1, r"Bus error|\bSIGBUS\b|out of shared memory"),
    _kind("time limit of the job", 1, r"DUE TO TIME LIMIT|TERM_RUNLIMIT"),
    _kind("preempted", 1, r"DUE TO PREEMPTION"),
    _kind("node failure", 1, r"DUE TO NODE FAILURE|Node failure on|NODE_FAIL"),
    _kind("requeued", 1, r"DUE TO JOB REQUEUE"),
    _kind("container did not start", 1, r"pyxis: container start failed|couldn't start container"),
    _kind("too many open files", 1, r"Too many open files|file-max limit \d+ reached"),
    _kind("segmentation fault", 2, r"Segmentation fault|\bSIGSEGV\b|signal 11\b"),
    _kind(
        "collective timed out",
        3,
        r"Watchdog caught collective operation timeout|Timeout at collective|NCCL WARN .*Timeout"
        r"|collective operation .*timed out",
    ),
    _kind(
        "no connection between ranks",
        3,
        r"Connection refused|No route to host|Connection reset by peer|Connection timed out"
        r"|NCCL.*(?:unhandled system error|remote process exited)",
    ),
    _kind(
        "killed (SIGKILL)", 4, r"exitcode ?: ?-9|Signal 9 \(SIGKILL\)|exit code 137|Exited with exit code 137"
    ),
    _kind("cancelled", 5, r"\*\*\* (?:JOB|STEP) \S+ .*CANCELLED"),
    _kind(
        "error in the program",
        6,
        r"^Traceback \(most recent call last\)|^\w*(?:Error|Exception): |Fatal Python error",
    ),
)
"""Nearest to the root first; the first that fits a line is its kind."""
_HINT = re.compile("|".join(f"(?:{kind.pattern.pattern})" for kind in KINDS), re.IGNORECASE)
_RANK = re.compile(r"\[?\brank\s?(\d+)\]?", re.IGNORECASE)
_NODE = re.compile(r"\bON (\S+?) CANCELLED|srun: error: ([\w.-]+): task")
_PEER = re.compile(r"\b((?:\d{1,3}\.){3}\d{1,3})(?:<\d+>|:\d+)?")
_NO_CAUSE = re.compile(r"NCCL INFO|^\s*File \"")


def find(line: Line) -> Cause | None:
    """The cause that a line tells, or None."""
    text = line.text
    if not _HINT.search(text) or _NO_CAUSE.search(text):
        return None
    for kind in KINDS:
        if kind.pattern.search(text):
            return Cause(kind.name, " ".join([kind.name, *_places(kind, line)]))
    return None


def first(found: Sequence[Sequence[Any]]) -> str:
    """Of several causes [kind, sentence, line] the sentence of the one nearest to the root."""
    weights = {kind.name: kind.weight for kind in KINDS}
    return str(min(found, key=lambda cause: weights.get(cause[0], 9))[1])


def _places(kind: Kind, line: Line) -> list[str]:
    """`on rank 3`, `on node n12`, `with peer 10.0.0.7`, as far as the line says so."""
    found = []
    rank = _RANK.search(line.text)
    if rank or line.rank:
        found.append(f"on rank {rank[1] if rank else line.rank.removeprefix('rank')}")
    node = _NODE.search(line.text)
    if node:
        found.append(f"on node {node[1] or node[2]}")
    peer = _PEER.search(line.text) if kind.weight == 3 else None
    if peer:
        found.append(f"with peer {peer[1]}")
    return found
