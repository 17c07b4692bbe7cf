"""Kinds of causes for which a training dies or hangs, by messages of frameworks, drivers, batch systems."""

from __future__ import annotations

from watchdogd.parsers.logs.root_causes import EXCEPTION, EXIT_CODE, EXIT_OF, OF_A_TASK, ROOTS, kind

CONNECTION = "no connection between ranks"
"""The kind that a later line may report as resolved."""
KILLED = "killed (SIGKILL)"
PROGRAM = "error in the program"
"""Any exception without a better known kind."""
LAST_ERROR, ENDED = "last error in the log", "end of a program"
"""Errors of unknown kind; of several, only the last counts."""
UNKNOWN = {LAST_ERROR: 11, ENDED: 12}
"""Their weights: any known kind comes first."""
KINDS = (
    *ROOTS,
    kind(
        "download failed",
        3,
        "huggingface",
        "too many requests",
        "max retries exceeded",
        "read timed out",
        only=rf"{EXCEPTION}.*(?i:huggingface|too many requests|max retries|timed out)",
        quoted=True,
    ),
    kind("MPI could not start", 2, "fatal error in pmpi_init", "fatal error in mpi_init"),
    kind(
        "collective timed out",
        3,
        "watchdog caught collective operation timeout",
        "timeout at collective",
        "timeout at nccl work",
        "processgroupnccl watchdog hang",
        "some nccl operations have failed or timed out",
        "for failure was: watchdog timeout",
        "dump signal due to a collective timeout",
        "barrier timed out",
    ),
    kind("collective timed out", 3, "timed out waiting", only=r"waiting \d+ms for (?:recv|send) operation"),
    kind("collective timed out", 3, "termination timeout for"),
    kind(
        "no heartbeat of a rank",
        3,
        "heartbeat timeout",
        "stopped sending heartbeats",
        only=r"/task:\d+ heartbeat timeout|stopped sending heartbeats",
    ),
    kind(
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
        "transport retry count exceeded",
        "software caused connection abort",
        "got completion with error",
        "socket recv failed",
        "timeout waiting for key",
        "wait timeout after ",
        "rendezvousconnectionerror",
        "rendezvoustimeouterror",
    ),
    kind(CONNECTION, 3, "connect() to", only=r"connect\(\) to \S+ failed"),
    kind(
        CONNECTION,
        3,
        "completed with error",
        "ofi poll failed",
        "seconds waiting for clients",
        only=r"NET/OFI .{0,300}?completed with error|OFI poll failed"
        r"|out after \d+ seconds waiting for clients",
    ),
    kind(
        KILLED,
        4,
        "signal 9 (sigkill)",
        "signal 9 (killed)",
        "by signal: 9",
        "by signal: killed",
        "with signal sigkill",
        "exit code 137",
    ),
    kind(KILLED, 4, "exitcode", ": line ", only=rf"{EXIT_OF}9\b|: line \d+: +\d+ Killed\b"),
    kind(
        "collective failed",
        4,
        "detected by watchdog at work",
        "due to collective timeout or exception",
        "communicator was aborted",
        "process group watchdog thread terminated",
        "nccl watchdog thread terminated",
        "detected no heartbeat of its watchdog",
        "heartbeat monitor timed out",
        "watchdog got stuck for",
        "nccl error in: ",
        "ncclsystemerror",
        "ncclunhandledcudaerror",
        "ncclinternalerror",
    ),
    kind(
        "collective failed",
        4,
        "nccl operation",
        "nccl error",
        "ncclcomm",
        only=r"NCCL operation \w+ failed|NCCL [Ee]rror(?: \d|: )|\bnccl[A-Z]\w+ failed",
    ),
    kind("terminated (SIGTERM)", 5, "signalexception: ", only=r"got signal: (?:15|Signals.SIGTERM)"),
    kind(
        "cancelled",
        5,
        "*** job ",
        "*** step ",
        only=r"^.{0,200}?\*\*\* (?:JOB|STEP) \S+ (?!.*TASK FAILURE).*CANCELLED",
    ),
    kind(
        PROGRAM,
        6,
        "traceback (most recent call last)",
        "error: ",
        "exception: ",
        "timeout: ",
        "expired: ",
        "interrupt: ",
        "fatal python error",
        "what():  ",
        only=rf"^Traceback \(|{EXCEPTION}|Fatal Python error|^\s+what\(\):  \S",
        quoted=True,
    ),
    kind(
        "ended since another rank did",
        7,
        "coordination service",
        "the jax distributed service detected fatal errors",
        only=r"detected fatal errors|olled an error from coordination service|ERROR in coordination service",
    ),
    kind(
        "aborted through MPI",
        7,
        "abort(",
        "mpi_abort was invoked",
        only=r"\bMPI_Abort\(|^MPI_ABORT was invoked|\bAbort\(-?\d+\) (?:on node|\(rank)",
    ),
    kind(
        "a task failed",
        8,
        "srun: error: ",
        "exitcode",
        "*** step ",
        only=rf"{OF_A_TASK}Exited with|{EXIT_CODE}[1-9]|failed \(exitcode: [1-9]"
        r"|\*\*\* STEP \S+ ON \S+ FAILED",
    ),
    kind("ended since another task failed", 10, "due to task failure"),
    kind(
        "a task was killed",
        9,
        "srun: error: ",
        "exitcode",
        only=rf"{OF_A_TASK}(?:Killed|Terminated|Aborted)|{EXIT_OF}(?:6|15)\b",
    ),
)
"""Sorted by nearness to the root; the first kind that fits a line counts."""
FATAL = frozenset(
    {
        "a task failed",
        "uncorrectable ECC error",
        "GPU fault (Xid)",
        "NVLink or peer memory fault",
        "GPU out of memory",
        "host out of memory",
        "bus error (shared memory)",
        "segmentation fault",
        "illegal memory access on the GPU",
        "assertion on the GPU",
        "error of the GPU",
        "no heartbeat of a rank",
        "collective timed out",
        "collective failed",
        "aborted through MPI",
    }
)
"""Kinds after which no training continues by itself."""
OF_NODES = frozenset(
    {
        "GPU fault (Xid)",
        "GPU reset or hang",
        "NVLink or peer memory fault",
        "job step did not start",
        "no usable GPU",
        "node failure",
        "port of the network down",
        "processes that no signal ends",
        "uncorrectable ECC error",
    }
)
"""Kinds that can be the fault of a node, not of the code or of a file system."""
RAISED = frozenset({"GPU out of memory", "host out of memory", "error of the GPU"})
"""Kinds that programs also report when they continue, with a smaller batch or without an option."""
CONSEQUENCES = frozenset(
    {
        CONNECTION,
        "collective timed out",
        "collective failed",
        KILLED,
        "terminated (SIGTERM)",
        "cancelled",
    }
)
"""Kinds that the other ranks report when one of them has ended."""
