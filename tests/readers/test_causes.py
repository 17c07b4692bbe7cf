"""Causes recognised in the tail of a log."""

# ruff: noqa: E501 - log lines stand as programs write them

from __future__ import annotations

import pytest

from watchdogd.readers.causes import find, root
from watchdogd.readers.lines import read_lines

CASES = [
    (
        "[rank3]:[E0102 03:04:05.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=91)",
        "collective timed out on rank 3",
    ),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.", "GPU out of memory"),
    ("5: RuntimeError: CUDA out of memory. Tried to allocate 3 MiB", "GPU out of memory on rank 5"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "uncorrectable ECC error"),
    ("[ 12.1] NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.", "GPU fault (Xid)"),
    ("OSError: [Errno 28] No space left on device", "no space left on device"),
    ("cat: write error: Disk quota exceeded", "disk quota exceeded"),
    ("OSError: [Errno 116] Stale file handle", "stale file handle"),
    ("RuntimeError: DataLoader worker (pid 3) is killed by signal: Bus error.", "bus error (shared memory)"),
    (
        "slurmstepd: error: *** JOB 77 ON nid09 CANCELLED AT 2024-05-06T07:08:09 DUE TO TIME LIMIT ***",
        "time limit of the job on node nid09",
    ),
    (
        "slurmstepd: error: *** JOB 77 ON r02 CANCELLED AT 2024-05-06T07:08:09 DUE TO PREEMPTION ***",
        "preempted on node r02",
    ),
    (
        "slurmstepd: error: *** STEP 77.0 ON r02 CANCELLED AT 2024-05-06T07:08:09 DUE TO NODE FAILURE ***",
        "node failure on node r02",
    ),
    ("0: slurmstepd: error: *** STEP 77.0 CANCELLED AT 2024-05-06T07:08:09 ***", "cancelled on rank 0"),
    (
        "slurmstepd: error: Detected 2 oom_kill events in StepId=77.0. Some of the step tasks have been OOM Killed.",
        "host out of memory",
    ),
    ("[nid01:317] Signal: Segmentation fault (11)", "segmentation fault on nid01:317"),
    (
        "socket.cpp: [c10d] connect to 10.3.0.7:29500 failed: No route to host",
        "no connection between ranks with peer 10.3.0.7",
    ),
    (
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n17.cluster]:29500 (errno: 111 - Connection refused).",
        "no connection between ranks with peer n17.cluster",
    ),
    (
        "RuntimeError: The client socket has timed out after 600s while trying to connect to (n17, 29500).",
        "no connection between ranks with peer n17",
    ),
    (
        "n1:7:9 [2] NCCL WARN socketProgress: Connection closed by remote peer fe80::a:b1<3721>",
        "no connection between ranks with peer fe80::a:b1",
    ),
    (
        "n4: Segmentation fault, core file /scratch/run/core.n4.71 written",
        "segmentation fault with core file /scratch/run/core.n4.71",
    ),
    (
        "[rank2]: DistNetworkError: The client socket has failed to connect to any network address of (n17, 29400).",
        "no connection between ranks on rank 2 with peer n17",
    ),
    (
        "n1:7:9 [2] transport/net_ib.cc:1290 NCCL WARN NET/IB : Got completion from peer 10.3.0.9<4021> with status=12 opcode=0 len=0 vendor err 129",
        "no connection between ranks with peer 10.3.0.9",
    ),
    (
        "RuntimeError: [Rank 0]: Ranks 6, 7 failed to pass monitoredBarrier in 600000 ms",
        "left behind in a collective on rank 6, 7",
    ),
    (
        "[rank0]:[F0102 03:04:05 ProcessGroupNCCL.cpp:1550] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        "collective timed out on rank 0",
    ),
    (
        "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4096 bytes.",
        "GPU out of memory",
    ),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "memory could not be allocated"),
    ("OSError: [Errno 12] Cannot allocate memory", "memory could not be allocated"),
    ("link of rank 0 connection reset by peer", "no connection between ranks on rank 0"),
    ("KeyError: 0", "error in the program (KeyError: 0)"),
    ("CUDA out of memory could not be recovered", "GPU out of memory"),
    ("HIP error: an illegal memory access was encountered", "illegal memory access on the GPU"),
    (
        ":0:rocdevice.cpp :2660: Queue 0x7f aborting with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: code: 0x29",
        "GPU reset or hang",
    ),
    (
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
        "NVLink or peer memory fault",
    ),
    ("E0325 api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 26)", "killed (SIGKILL)"),
    (
        "     [6] finished collective #11, but didn't join collective #12 (count from 1)",
        "left behind in a collective on rank 6",
    ),
    (
        "[Rank 9] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2)",
        "collective timed out on rank 9",
    ),
    (
        "MPICH ERROR [Rank 0] [job id 7.0] - Abort(26) (rank 0 in comm 0): Fatal error in PMPI_Init_thread: Other",
        "MPI could not start on rank 0",
    ),
    ("Traceback (most recent call last):", "error in the program"),
    ("ValueError: no such shape", "error in the program (ValueError: no such shape)"),
]


@pytest.mark.parametrize(("text", "sentence"), CASES)
def test_each_is_named_with_its_rank_node_or_peer(text: str, sentence: str) -> None:
    lines, _ = read_lines(text.encode() + b"\n")
    assert [cause.sentence for cause in find(lines)] == [sentence]


@pytest.mark.parametrize(
    "text",
    [
        "n7:1:2 [0] NCCL INFO Timeout at collective is set to 600000",
        "train error rate 0.3, loss 2.1",
        "iteration 4/ 90 | number of nan iterations: 0 |",
        "overflow_expert1: 18",
        "GPU 0: ECC errors: 0 uncorrectable ECC errors: 0",
        "oom_kill 0",
        "0 errors, no CUDA out of memory, 0 segmentation faults",
        "WARNING: connection reset by peer, retrying (2/5) ... succeeded",
    ],
)
def test_harmless_lines_are_no_cause(text: str) -> None:
    assert find(read_lines(text.encode() + b"\n")[0]) == []


def test_of_several_the_one_nearest_to_the_root_counts() -> None:
    text = (
        b"Traceback (most recent call last):\n"
        b"[rank1]:[E1] [Rank 1] Watchdog caught collective operation timeout: x\n"
        b"4: OSError: [Errno 28] No space left on device\n"
        b"slurmstepd: error: *** STEP 9.0 ON n4 CANCELLED AT 2024-05-06T07:08:09 ***\n"
    )
    cause = root(find(read_lines(text)[0]))
    assert cause
    assert cause.sentence == "no space left on device on rank 4"
    assert root([]) is None
