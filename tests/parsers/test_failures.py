"""Causes recognised in the tail of a log."""

# ruff: noqa: E501 - log lines stand as programs write them

from __future__ import annotations

import pytest

from watchdogd.parsers.logs.failures import find, root
from watchdogd.parsers.logs.log_lines import read_lines

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
    ("srun: error: nid07: task 12: Out Of Memory", "host out of memory on rank 12 on node nid07"),
    ("srun: error: nid07: tasks 8-15: Out Of Memory", "host out of memory on node nid07"),
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
        "n1:7:9 [4] ib.c:1615 NCCL WARN NET/IB : Got completion from peer 10.3.0.9<4021> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fd00:11:9:5:4:2:3:f2 remoteGidsfd00:11:9:5:4:2:3:f1",
        "no connection between ranks with peer 10.3.0.9",
    ),
    (
        "[W socket.cpp:697] [c10d] The client socket has failed to connect to [::ffff:10.3.0.7]:47389 (errno: 110 - Connection timed out).",
        "no connection between ranks with peer 10.3.0.7",
    ),
    ("ssh: connect to host n17 port 22: Connection refused", "no connection between ranks with peer n17"),
    ("  Message:    connect() to 10.3.0.7:1024 failed", "no connection between ranks with peer 10.3.0.7"),
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
    (
        "E0325 api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 26)",
        "killed (SIGKILL) on local rank 5",
    ),
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
    (
        "MPICH ERROR [Rank 12] [job id 7.0] [Mon Jan 1 00:00:00 2024] [nid0021] - Abort(1) (rank 12 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 12",
        "aborted through MPI on rank 12 on node nid0021",
    ),
    (
        "Abort(15) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 15) - process 3",
        "aborted through MPI on rank 3",
    ),
    ("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD", "aborted through MPI on rank 2"),
    ("srun: error: n04: task 9: Segmentation fault", "segmentation fault on rank 9 on node n04"),
    ("srun: error: n04: task 9: Killed", "a task was killed on rank 9 on node n04"),
    ("srun: error: n04: tasks 8-11: Exited with exit code 2", "a task failed on node n04"),
    (
        "[rank4]:[E0102 ProcessGroupNCCL.cpp:1834] [PG ID 1 PG GUID 1 Rank 4] Timeout at NCCL work: 51, last enqueued NCCL work: 51",
        "collective timed out on rank 4",
    ),
    (
        "[rank4]:[E0102 ProcessGroupNCCL.cpp:1785] [PG ID 1 PG GUID 1 Rank 4] Exception (either an error or timeout) detected by watchdog at work: 51",
        "collective failed on rank 4",
    ),
    (
        "RuntimeError: NCCL communicator was aborted on rank 6.  Original reason for failure was: watchdog timeout",
        "collective timed out on rank 6",
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 MiB. GPU 2 has a total capacity of 79 GiB",
        "GPU out of memory on GPU 2",
    ),
    (
        "[rank6]:[E 07:08:09 ProcessGroupNCCL.cpp:1375] [PG ID 0 PG GUID 0(default_pg) Rank 6] First PG on this rank that detected no heartbeat of its watchdog.",
        "collective failed on rank 6",
    ),
    (
        "[rank6]:[F ProcessGroupNCCL.cpp:1185] [PG 0 Rank 6] ProcessGroupNCCL's watchdog got stuck for 300 seconds without making progress",
        "collective failed on rank 6",
    ),
    (
        "[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective timeout from  rank 14 and we will try our best",
        "collective timed out on rank 14",
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:99, unhandled system error",
        "collective failed",
    ),
    (
        "RuntimeError: [/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 90000ms for recv operation to complete",
        "collective timed out",
    ),
    (
        "n3:71:92 [4] net_ib.cc:99 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
        "port of the network down on node n3",
    ),
    ("n3:71:92 [4] NCCL WARN Cuda failure 2 'out of memory'", "GPU out of memory on node n3"),
    (
        "n3:71:92 [4] NCCL WARN Duplicate GPU detected : rank 5 and rank 4 both on CUDA device 21000",
        "two ranks on one GPU on rank 5 on node n3",
    ),
    (
        "n3:71:92 [4] NCCL WARN NET/OFI Request 0x7f completed with error. RC: 5. Error: 5 (Input/output error)",
        "no connection between ranks",
    ),
    (
        "[n3:71] ib_mlx5_log.c:171 UCX  ERROR Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)",
        "no connection between ranks on n3:71",
    ),
    (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running collective: X",
        "ranks called different collectives on rank 2",
    ),
    (
        "OSError: [Errno 98] Address already in use",
        "address already in use",
    ),
    (
        "RuntimeError: CUDA error: unspecified launch failure",
        "error of the GPU (RuntimeError: CUDA error: unspecified launch failure)",
    ),
    ("4: RuntimeError: CUDA error: device-side assert triggered", "assertion on the GPU on rank 4"),
    ("INTERNAL: failed call to cuCtxSynchronize: CUDA_ERROR_ECC_UNCORRECTABLE: x", "uncorrectable ECC error"),
    (
        "2024 E cuda_driver.cc:99] INTERNAL: CUDA_ERROR_LAUNCH_FAILED: x",
        "error of the GPU (2024 E cuda_driver.cc:99] INTERNAL: CUDA_ERROR_LAUNCH_FAILED: x)",
    ),
    ("W external/x.cc:199] INTERNAL: CUDA_ERROR_DEVICE_UNAVAILABLE: busy", "no usable GPU"),
    ("RuntimeError: No CUDA GPUs are available", "no usable GPU"),
    ("RuntimeError: CUDA error: out of memory", "GPU out of memory"),
    (
        "E1102 coordination_service.cc:954] UNAVAILABLE: Task /job:jax_worker/replica:0/task:21 heartbeat timeout. This indicates that",
        "no heartbeat of a rank on rank 21",
    ),
    (
        "F1102 client.h:80] Terminating process because the JAX distributed service detected fatal errors. This most likely",
        "ended since another rank did",
    ),
    (
        "(raylet, ip=10.3.0.7) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed",
        "host out of memory on raylet, ip=10.3.0.7",
    ),
    (
        "(Learner pid=71, ip=10.3.0.7) ValueError: no such shape",
        "error in the program on Learner pid=71, ip=10.3.0.7 (ValueError: no such shape)",
    ),
    (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: (1) killed by SIGKILL by OOM killer (3) SIGSEGV",
        "a worker of Ray died",
    ),
    (
        "[1]<stderr>:RuntimeError: ncclCommInitRank failed: unhandled cuda error",
        "collective failed on rank 1",
    ),
    (
        "ERROR 05-30 [pynccl.py:153] ncclCommInitRank failed with error: NCCL error: internal error",
        "collective failed",
    ),
    ("(Learner pid=71) [rank3]: KeyError: 0", "error in the program on rank 3 (KeyError: 0)"),
    ("slurmstepd: error: Job 77 exceeded memory limit (65 > 60), being killed", "host out of memory"),
    (
        "slurmstepd: error: *** JOB 77 STEPD TERMINATED ON r02 AT 2024-05-06T07:08:09 DUE TO JOB NOT ENDING WITH SIGNALS ***",
        "processes that no signal ends on node r02",
    ),
    ("srun: error: Node failure on r02", "node failure on node r02"),
    (
        "srun: error: Task launch for StepId=77.0 failed on node r02: Communication connection failure",
        "job step did not start on node r02 (srun: error: Task launch for StepId=77.0 failed on node r02: Communication connection failure)",
    ),
    (
        "/var/spool/slurmd/job77/slurm_script: line 8:   471 Killed                  python train.py",
        "killed (SIGKILL)",
    ),
    (
        "mpirun noticed that process rank 3 with PID 471 on node n04 exited on signal 9 (Killed).",
        "killed (SIGKILL) on rank 3 on node n04",
    ),
    ("  exitcode  : -11 (pid: 26)", "segmentation fault"),
    ("  exitcode  : -7 (pid: 26)", "bus error (shared memory)"),
    ("Exception: process 0 terminated with signal SIGKILL", "killed (SIGKILL)"),
    ("RuntimeError: received 0 items of ancdata", "too many open files"),
    (
        "3: RuntimeError: store->get('0') got error: Timeout waiting for key: default_pg/0/0 after 60 s",
        "no connection between ranks on rank 3",
    ),
    ("MemoryError", "memory could not be allocated"),
    ("numpy._ArrayMemoryError: Unable to allocate 9.5 GiB for an array", "memory could not be allocated"),
    ("RuntimeError: can't start new thread", "no more processes or threads allowed"),
    ("RuntimeError: unable to write to file </torch_71_92>", "bus error (shared memory)"),
    ("OSError: [Errno 5] Input/output error: '/scratch/x'", "input/output error"),
    ("OSError: [Errno 30] Read-only file system: '/scratch/x'", "read-only file system"),
    ("OSError: [Errno 108] Cannot send after transport endpoint shutdown", "file system lost"),
    (
        "hub.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://hub.example.org/x",
        "download failed (hub.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://hub.example.org/x)",
    ),
    (
        "AssertionError: Rank 7: found NaN in local grad norm in backward pass. Device: 3, node: n04",
        "loss is no number on rank 7 on node n04 (AssertionError: Rank 7: found NaN in local grad norm in backward pass. Device: 3, node: n04)",
    ),
    ("  what():  no such shape", "error in the program (what():  no such shape)"),
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
        "srun: Job 77 step creation temporarily disabled, retrying (Requested nodes are busy)",
        "wandb: Network error (ConnectionError), entering retry loop.",
        "W0301 rendezvous.cc:84] This thread has been waiting for `initialize clique` for 20 seconds",
        "RAS: 0 uncorrectable hardware errors detected in umc block",
        "train loss: 2.5, val loss is 3.0",
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


def test_the_report_of_torchrun_names_host_and_rank() -> None:
    text = (
        b"Root Cause (first observed failure):\n[0]:\n  time      : 2024-05-06_07:08:09\n  host      : n07\n"
        b"  rank      : 13 (local_rank: 5)\n  exitcode  : 1 (pid: 26)\n"
    )
    assert [cause.sentence for cause in find(read_lines(text)[0])] == ["a task failed on node n07 on rank 13"]


def test_a_host_that_calls_itself_localhost_is_no_node() -> None:
    text = b"Root Cause (first observed failure):\n  host : localhost\n  rank : 1 (local_rank: 1)\n"
    text += b"  exitcode : -9 (pid: 26)\n"
    (cause,) = find(read_lines(text)[0])
    assert (cause.sentence, cause.node) == ("killed (SIGKILL) on rank 1", "")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("-9 (pid: 26)  (SIGKILL)", "killed (SIGKILL) on node n07 on rank 13"),
        ("1 (pid: 26)", "no connection between ranks on rank 2"),  # it may be the first that noticed
    ],
)
def test_who_was_killed_before_all_others_ended_is_the_root(code: str, sentence: str) -> None:
    """The others say what came of it; theirs are ended with signals too."""
    text = (
        "[rank2]: RuntimeError: Connection closed by peer\nFailures:\n[1]:\n  host      : n07\n"
        "  rank      : 14 (local_rank: 6)\n  exitcode  : -9 (pid: 27)  (SIGKILL)\n"
        "Root Cause (first observed failure):\n[0]:\n  host      : n07\n  rank      : 13 (local_rank: 5)\n"
        f"  exitcode  : {code}\n"
    )
    cause = root(find(read_lines(text.encode())[0]))
    assert cause
    assert cause.sentence == sentence


@pytest.mark.parametrize(
    "text",
    [
        "socket: Connection refused; retrying in 5 s\nConnected to n07",
        "3: n07: Connection refused, retrying\n3: connection to n07 established",
        "Connection reset by peer\nreconnected after 2 s",
    ],
)
def test_a_connection_that_came_after_all_is_no_cause(text: str) -> None:
    assert find(read_lines(text.encode() + b"\n")[0]) == []
    first, second = (read_lines(line.encode() + b"\n")[0] for line in text.splitlines())
    assert find(second, find(first)) == []


@pytest.mark.parametrize(
    "text",
    [
        "3: n07: Connection refused, retrying\n5: connected to n07",
        "Connection refused\ncould not get connected to n07",
        "Connection refused\nnot connected",
        "Connection refused\nloading the data",
        "[Errno 28] No space left on device\nConnected to n07",
    ],
)
def test_what_does_not_mend_it_leaves_the_cause(text: str) -> None:
    assert len(find(read_lines(text.encode() + b"\n")[0])) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[rank3]: ValueError: no such shape\n"
            "[rank0]:[E1] [Rank 0] Watchdog caught collective operation timeout: x\n"
            "slurmstepd: error: *** STEP 9.0 ON n4 CANCELLED AT 2024-05-06T07:08:09 ***",
            "error in the program on rank 3 (ValueError: no such shape)",
        ),
        (
            "[rank0]:[E1] [Rank 0] Watchdog caught collective operation timeout: x\n"
            "[rank0]: ValueError: what came of it",
            "collective timed out on rank 0",
        ),
        (
            "ValueError: no such shape\nOSError: [Errno 28] No space left on device\nConnection refused",
            "no space left on device",
        ),
        (
            "slurmstepd: error: *** STEP 9.0 ON n4 CANCELLED AT 2024-05-06T07:08:09 DUE TO TASK FAILURE ***\n"
            "srun: error: n4: task 2: Exited with exit code 3",
            "a task failed on rank 2 on node n4",
        ),
    ],
)
def test_an_exception_before_what_other_ranks_tell_of_it_is_the_root(text: str, sentence: str) -> None:
    cause = root(find(read_lines(text.encode() + b"\n")[0]))
    assert cause
    assert cause.sentence == sentence


def test_the_report_of_hydra_names_host_and_rank() -> None:
    text = b"=   RANK 3 PID 471 RUNNING AT n12\n=   KILLED BY SIGNAL: 9 (Killed)\n"
    assert [cause.sentence for cause in find(read_lines(text)[0])] == [
        "killed (SIGKILL) on rank 3 on node n12"
    ]
