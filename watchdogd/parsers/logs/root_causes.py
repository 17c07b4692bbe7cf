"""Kinds of root causes: GPUs, memory, disks, files, processes, decisions of the batch system.

Each kind has the words by which its lines are recognised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NONE_AFTER = re.compile(
    r"(?:s|\(s\)|[ _](?:errors?|events?|counts?|rate)){0,3}['\"]?\s*+(?:[:=]\s*+)?(?:0(?![\w.])|none\b)"
)
_MANY_AFTER = re.compile(r"s\b|[ _](?:errors|events)\b")
_OFF_AFTER = re.compile(r"[\w.-]{0,40}+['\"]?\s?[:=]\s{0,9}+['\"]?(?:none|no|off|false|never|disabled)\b")
_OPTION_BEFORE = re.compile(r"(?:^|\s)['\"]?-\S{0,40}$")
"""A setting that is switched off, and an option of a command line, only name what might happen."""
_NONE_BEFORE = re.compile(r"\b(?:no|without|avoid|avoiding)\s+$")
_ZERO_BEFORE = re.compile(r"\b0\s+$")


MISMATCH = "ranks called different collectives"


@dataclass(frozen=True, slots=True)
class FailureKind:
    """Kind of cause; the lower its `weight`, the nearer it is to the root. Consequences weigh most.

    The line must contain one of `needles` (lower case) and match `pattern`, if there is one. `quoted`: the
    line says more than the name of its kind, and is quoted.
    """

    name: str
    weight: int
    needles: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    quoted: bool = False

    def fits(self, text: str, low: str) -> bool:
        """Return True if a line (`low`: in lower case) is of this kind."""
        if self.pattern is None:
            return any(_happened(low, needle) for needle in self.needles)
        return any(needle in low for needle in self.needles) and self.pattern.search(text) is not None


def _happened(low: str, needle: str) -> bool:
    """Return True if a line reports the event; not for `ECC errors: 0`, `0 bus errors` or `no ...`."""
    at = low.find(needle)
    if at < 0:
        return False
    before, end = low[max(at - 12, 0) : at], at + len(needle)
    if _NONE_BEFORE.search(before) or _NONE_AFTER.match(low, end) or _OFF_AFTER.match(low, end):
        return False
    if _OPTION_BEFORE.search(low[max(at - 42, 0) : at]):
        return False
    return not (_ZERO_BEFORE.search(before) and _MANY_AFTER.match(low, end))


def kind(name: str, weight: int, *needles: str, only: str = "", quoted: bool = False) -> FailureKind:
    """Make a kind; `only` becomes its pattern."""
    return FailureKind(name, weight, needles, re.compile(only) if only else None, quoted)


EXCEPTION = r"^[\w.]{0,200}(?:Error|Exception|Timeout|Expired|Interrupt): "
"""Line in which Python names an uncaught exception."""
OF_A_TASK = r"^srun: error: \S+: tasks? [\d,-]+: "
EXIT_CODE = r"^\s*exitcode\s*: -?"
EXIT_OF = r"\bexitcode\s*: -"
"""Text before the number of the signal that ended a rank, in torchrun's report."""


ROOTS = (
    kind("a worker of Ray died", 4, "worker exit type: ", "worker died or was killed while executing"),
    kind(
        "uncorrectable ECC error",
        0,
        "uncorrectable ecc",
        "cudaerroreccuncorrectable",
        "cuda_error_ecc_uncorrectable",
        "ecc error encou",
        "uncorrectable hardware error",
    ),
    kind(
        "GPU fault (Xid)",
        0,
        "nvrm: xid",
        "xid (pci",
        "gpu has fallen off the bus",
        "gpu is lost",
        "unable to determine the device handle for gpu",
    ),
    kind(
        "NVLink or peer memory fault",
        0,
        "peer gpu memory over nvlink",
        "cudaerrorcontained",
        "uncorrectable nvlink",
    ),
    kind(
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
    kind("disk quota exceeded", 1, "disk quota exceeded", "edquot", "errno 122"),
    kind("no space left on device", 1, "no space left on device", "enospc", "errno 28]"),
    kind("stale file handle", 1, "stale file handle", "stale nfs file handle", "estale", "errno 116"),
    kind("file system lost", 1, "errno 108]", "cannot send after transport endpoint shutdown"),
    kind("file system lost", 1, "transport endpoint is not connected", only=r"\[Errno 107\].{0,300}?: '"),
    kind("read-only file system", 1, "errno 30]", ": read-only file system"),
    kind(
        "input/output error",
        1,
        "errno 5]",
        ": input/output error",
        only=r"\[Errno 5\]|^[^(]*: Input/output error$",
    ),
    kind(
        "host out of memory",
        1,
        "ray.exceptions.outofmemoryerror",
        "killed due to memory pressure",
        "killed due to the node running low on memory",
    ),
    kind(
        "GPU out of memory",
        1,
        "cuda out of memory",
        "hip out of memory",
        "outofmemoryerror",
        "hiperroroutofmemory",
        "cuda_error_out_of_memory",
        "cuda error: out of memory",
        "hip error: out of memory",
        "cublas_status_alloc_failed",
        "resource_exhausted: out of memory",
        "resource_exhausted: failed to allocate request",
    ),
    kind("GPU out of memory", 1, "cuda failure", only=r"Cuda failure (?:2 )?'out of memory'"),
    kind(
        "host out of memory",
        1,
        "oom-kill",
        "oom_kill",
        "oom kill",
        "out of memory: kill",
        "term_memlimit",
        "exceeded job memory limit",
        "exceeded memory limit",
    ),
    kind("host out of memory", 1, "out of memory", only=OF_A_TASK + "Out Of Memory"),
    kind("memory could not be allocated", 2, "std::bad_alloc", "cannot allocate memory"),
    kind(
        "memory could not be allocated",
        2,
        "memoryerror",
        "unable to allocate",
        only=r"^[\w.]{0,200}MemoryError\b|Unable to allocate [\d.]+ [KMGT]iB",
    ),
    kind("illegal memory access on the GPU", 1, "illegal memory access", "cuda_error_illegal_address"),
    kind("assertion on the GPU", 1, "device-side assert"),
    kind("assertion on the GPU", 1, "assertion `", only=r"thread: \[\d+,\d+,\d+\] Assertion `"),
    kind(
        "bus error (shared memory)",
        1,
        "bus error",
        "sigbus",
        "out of shared memory",
        "unable to write to file </torch",
        "unable to open shared memory object",
    ),
    kind("bus error (shared memory)", 1, "exitcode", only=EXIT_OF + r"7\b"),
    kind("time limit of the job", 1, "due to time limit", "term_runlimit"),
    kind("preempted", 1, "due to preemption"),
    kind("node failure", 1, "due to node failure", "node failure on", "node_fail"),
    kind("requeued", 1, "due to job requeue"),
    kind(
        "container did not start",
        1,
        "pyxis: container start failed",
        "couldn't start container",
        "container creation failed",
    ),
    kind("too many open files", 1, "too many open files", "file-max limit", "items of ancdata"),
    kind(
        "no more processes or threads allowed",
        1,
        "pthread_create failed",
        "can't start new thread",
        "errno 11] resource temporarily unavailable",
        "fork: retry: resource temporarily unavailable",
    ),
    kind("segmentation fault", 2, "segmentation fault", "sigsegv", "signal 11"),
    kind("segmentation fault", 2, "exitcode", only=EXIT_OF + r"11\b"),
    kind("left behind in a collective", 2, "but didn't join collective", "to pass monitoredbarrier"),
    kind(MISMATCH, 2, "mismatch between collectives on ranks", "is there a distributed collective mismatch"),
    kind("two ranks on one GPU", 2, "duplicate gpu detected"),
    kind("port of the network down", 2, "got async event", only=r"Got async event ?: port error"),
    kind("processes that no signal ends", 2, "due to job not ending with signals"),
    kind(
        "job step did not start",
        2,
        "srun: error: ",
        "execve():",
        only=r"^srun: error: .*(?:Unable to create step|Task launch for|launch failed|Unable to confirm alloc"
        r"|[Ii]nvalid job credential)|^slurmstepd: error: execve\(\): ",
        quoted=True,
    ),
    kind(
        "loss is no number",
        2,
        "loss is nan",
        "loss is inf",
        "found nan",
        "found inf",
        "unexpected result",
        "minimum loss scale",
        "loss scale already",
        only=r"(?i:loss is (?:nan|inf\w*),? *(?:stopping|abort)|found (?:nan|inf\w*) in local"
        r"|unexpected result (?:nan|inf)|minimum loss scale reached|loss scale already at minimum)",
        quoted=True,
    ),
    kind(
        "damaged file",
        2,
        "pytorchstreamreader failed",
        "error while deserializing header",
        quoted=True,
    ),
    kind("file could not be written", 2, "pytorchstreamwriter failed writing", quoted=True),
    kind(
        "address already in use",
        2,
        "address already in use",
        only=r"Error: (?:(?!Error: ).){0,500}?[Aa]ddress already in use",
    ),
    kind(
        "no usable GPU",
        2,
        "no cuda-capable device",
        "no cuda gpus are available",
        "no hip gpus are available",
        "cuda-capable devices are busy",
        "cuda unknown error",
        "invalid device ordinal",
        "system not yet initialized",
        "driver/library version mismatch",
        "cuda_error_device_unavailable",
        "cuda_error_invalid_device",
        only=rf"{EXCEPTION}|NVML: Driver|CUDA_ERROR_(?:DEVICE_UNAVAILABLE|INVALID_DEVICE)",
    ),
    kind(
        "error of the GPU",
        2,
        "cuda error: ",
        "hip error: ",
        "cublas_status_",
        "hipblas_status_",
        "cudnn_status_",
        "cuda failure ",
        "cuda_error_launch_failed",
        "cuda_error_hardware",
        "cuda_error_nvlink_uncorrectable",
        only=rf"{EXCEPTION}|NCCL WARN .{{0,300}}?Cuda failure \d|CUDA_ERROR_",
        quoted=True,
    ),
)
"""Sorted by nearness to the root."""
