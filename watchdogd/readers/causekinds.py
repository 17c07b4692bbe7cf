"""The kinds of causes for which a training dies or hangs: lines of frameworks, drivers and batch systems."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NONE_AFTER = re.compile(
    r"(?:s|\(s\)|[ _](?:errors?|events?|counts?|rate)){0,3}['\"]?\s*[:=]?\s*(?:0(?![\w.])|none\b)"
)
_MANY_AFTER = re.compile(r"s\b|[ _](?:errors|events)\b")
_NONE_BEFORE = re.compile(r"\b(?:no|without|avoid|avoiding)\s+$")
_ZERO_BEFORE = re.compile(r"\b0\s+$")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of cause. Lower `weight` lies nearer to the root: what follows from others has a high one.

    One of `needles` (lower case) must stand in the line, and `pattern`, where there is one, must fit it.
    """

    name: str
    weight: int
    needles: tuple[str, ...]
    pattern: re.Pattern[str] | None = None

    def fits(self, text: str, low: str) -> bool:
        """Whether a line (and the same in lower case) is of this kind."""
        if self.pattern is None:
            return any(_happened(low, needle) for needle in self.needles)
        return any(needle in low for needle in self.needles) and self.pattern.search(text) is not None


def _happened(low: str, needle: str) -> bool:
    """Whether a line says that it happened: not `ECC errors: 0`, `0 bus errors`, `no ...`."""
    at = low.find(needle)
    if at < 0:
        return False
    before, end = low[max(at - 12, 0) : at], at + len(needle)
    if _NONE_BEFORE.search(before) or _NONE_AFTER.match(low, end):
        return False
    return not (_ZERO_BEFORE.search(before) and _MANY_AFTER.match(low, end))


def _kind(name: str, weight: int, *needles: str, only: str = "") -> Kind:
    return Kind(name, weight, needles, re.compile(only) if only else None)


CONNECTION = "no connection between ranks"
"""The kind of which a later line may say that it is over."""
PROGRAM = "error in the program"
"""The kind whose line itself says more than its kind."""
_OF_A_TASK = r"^srun: error: \S+: tasks? [\d,-]+: "
_EXIT_CODE = r"^\s*exitcode\s*: -?"
KINDS = (
    _kind("uncorrectable ECC error", 0, "uncorrectable ecc", "cudaerroreccuncorrectable", "ecc error encou"),
    _kind("GPU fault (Xid)", 0, "nvrm: xid", "xid (pci", "gpu has fallen off the bus"),
    _kind(
        "NVLink or peer memory fault",
        0,
        "peer gpu memory over nvlink",
        "cudaerrorcontained",
        "uncorrectable nvlink",
    ),
    _kind(
        "GPU reset or hang",
        0,
        "gpu reset begin",
        "gpu hang",
        "memory access fault by gpu",
        "qcm fence wait loop timeout",
        " is hung!",
        "signaled seq=",
        "hsa_status_error",
    ),
    _kind("disk quota exceeded", 1, "disk quota exceeded", "edquot", "errno 122"),
    _kind("no space left on device", 1, "no space left on device", "enospc", "errno 28]"),
    _kind("stale file handle", 1, "stale file handle", "stale nfs file handle", "estale", "errno 116"),
    _kind(
        "GPU out of memory",
        1,
        "cuda out of memory",
        "hip out of memory",
        "outofmemoryerror",
        "hiperroroutofmemory",
        "cuda_error_out_of_memory",
        "resource_exhausted: out of memory",
    ),
    _kind(
        "host out of memory",
        1,
        "oom-kill",
        "oom_kill",
        "oom kill",
        "out of memory: kill",
        "term_memlimit",
        "exceeded job memory limit",
    ),
    _kind("host out of memory", 1, "out of memory", only=_OF_A_TASK + "Out Of Memory"),
    _kind("memory could not be allocated", 2, "std::bad_alloc", "cannot allocate memory"),
    _kind("illegal memory access on the GPU", 1, "illegal memory access"),
    _kind("bus error (shared memory)", 1, "bus error", "sigbus", "out of shared memory"),
    _kind("time limit of the job", 1, "due to time limit", "term_runlimit"),
    _kind("preempted", 1, "due to preemption"),
    _kind("node failure", 1, "due to node failure", "node failure on", "node_fail"),
    _kind("requeued", 1, "due to job requeue"),
    _kind("container did not start", 1, "pyxis: container start failed", "couldn't start container"),
    _kind("too many open files", 1, "too many open files", "file-max limit"),
    _kind("segmentation fault", 2, "segmentation fault", "sigsegv", "signal 11"),
    _kind("left behind in a collective", 2, "but didn't join collective", "to pass monitoredbarrier"),
    _kind("MPI could not start", 2, "fatal error in pmpi_init", "fatal error in mpi_init"),
    _kind(
        "collective timed out",
        3,
        "watchdog caught collective operation timeout",
        "timeout at collective",
        "timeout at nccl work",
        "processgroupnccl watchdog hang",
        "some nccl operations have failed or timed out",
        "for failure was: watchdog timeout",
    ),
    _kind(
        CONNECTION,
        3,
        "connection refused",
        "no route to host",
        "connection reset by peer",
        "connection timed out",
        "connection closed by",
        "connection closed by remote peer",
        "network is unreachable",
        "host is unreachable",
        "client socket has timed out",
        "client socket has failed to connect",
        "ncclremoteerror",
        "remote process exited or there was a network error",
        "got completion from peer",
        "transport retry counter exceeded",
    ),
    _kind("killed (SIGKILL)", 4, "exitcode: -9", "exitcode  : -9", "signal 9 (sigkill)", "exit code 137"),
    _kind(
        "collective failed",
        4,
        "detected by watchdog at work",
        "due to collective timeout or exception",
        "communicator was aborted",
        "process group watchdog thread terminated",
    ),
    _kind("cancelled", 5, "*** job ", "*** step ", only=r"\*\*\* (?:JOB|STEP) \S+ .*CANCELLED"),
    _kind(
        PROGRAM,
        6,
        "traceback (most recent call last)",
        "error: ",
        "exception: ",
        "fatal python error",
        only=r"^Traceback \(|^[\w.]*(?:Error|Exception): |Fatal Python error",
    ),
    _kind(
        "aborted through MPI",
        7,
        "abort(",
        "mpi_abort was invoked",
        only=r"\bMPI_Abort\(|^MPI_ABORT was invoked|\bAbort\(-?\d+\) (?:on node|\(rank)",
    ),
    _kind(
        "a task failed", 8, "srun: error: ", "exitcode", only=rf"{_OF_A_TASK}Exited with|{_EXIT_CODE}[1-9]"
    ),
    _kind(
        "a task was killed",
        9,
        "srun: error: ",
        "exitcode",
        only=rf"{_OF_A_TASK}(?:Killed|Terminated|Aborted)",
    ),
)
"""Nearest to the root first; the first that fits a line is its kind."""
FATAL = frozenset(
    {
        "uncorrectable ECC error",
        "GPU fault (Xid)",
        "NVLink or peer memory fault",
        "GPU out of memory",
        "host out of memory",
        "bus error (shared memory)",
        "segmentation fault",
        "illegal memory access on the GPU",
        "collective timed out",
        "collective failed",
        "aborted through MPI",
    }
)
"""Kinds after which no training goes on by itself."""
