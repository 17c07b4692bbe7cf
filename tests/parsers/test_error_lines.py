"""Errors of no known kind are quoted by their form; those that a program survives are over."""

# ruff: noqa: E501 - log lines stand as programs write them

from __future__ import annotations

import pytest

from watchdogd.parsers.logs.failures import Cause, find, root
from watchdogd.parsers.logs.log_lines import read_lines


def causes(text: str, before: list[Cause] | None = None) -> list[Cause]:
    return find(read_lines(text.encode() + b"\n")[0], before or [])


def cause(text: str) -> Cause | None:
    return root(causes(text))


DEATHS = [
    "thread 'main' panicked at src/loader.rs:88:14:",
    "thread 'tokio-runtime-worker' (4121) panicked at 'index out of bounds: the len is 3 but the index is 7', src/shard.rs:9:2",
    "panic: runtime error: invalid memory address or nil pointer dereference",
    "fatal error: all goroutines are asleep - deadlock!",
    'Exception in thread "main" java.lang.IllegalStateException: shard 7 is closed',
    "ERROR: LoadError: UndefVarError: `batches` not defined",
    "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
    "Fortran runtime error: End of file",
    "STOP 2",
    "terminate called without an active exception",
    "trainer: kernels/attention.cc:211: void forward(int): Assertion `n > 0' failed.",
    "F0203 10:11:12.131415  4121 solver.cc:70] Check failed: n == m (3 vs. 4)",
    "*** stack smashing detected ***: terminated",
    "free(): invalid pointer",
    "corrupted size vs. prev_size",
    "double free or corruption (out)",
    "amrex::Abort::5::no convergence in the multigrid !!!",
    "Fatal Python error: PyEval_RestoreThread: the function must be called with the GIL held",
    "FATAL ERROR: Bad global crossterm count!",
    "2026-02-03 10:11:12 Fatal error: the mesh has no cells",
    "[ 8121.110211] trainer[4121]: segfault at 18 ip 00007f1e error 4 in libx.so",
    "signal (6): Aborted",
    "prterun noticed that process rank 3 with PID 4121 on node n07 exited on signal 6 (Aborted).",
]
ENDS = [
    "Execution halted",
    "./run.sh: line 12:  4121 Aborted                 (core dumped) ./trainer",
    "Primary job  terminated normally, but 1 process returned a non-zero exit code.",
    "[n07:4121] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
]
RECORDS = [
    "2026-02-03 10:11:12,131 - trainer.data - ERROR - shard 7 has no index",
    "[2026-02-03 10:11:12,131][trainer][ERROR] - shard 7 has no index",
    "ERROR:root:shard 7 has no index",
    "ERROR 02-03 10:11:12 engine.py:88] the worker did not answer",
    "(Learner pid=71) 10:11:12 CRITICAL | shard 7 has no index",
    'time=10:11:12 level=error msg="shard 7 has no index"',
    '{"time": 1.5, "level": "ERROR", "msg": "shard 7 has no index"}',
    "Error in solve.default(A) : system is computationally singular",
    "Caused by: java.io.EOFException: shard 7",
    "ERROR on proc 3: Bond atoms 12 13 missing on proc 3 at step 91",
    "./run.sh: line 8: module: command not found",
    "Error: no shard was given",
    "make: *** [Makefile:12: train] Error 2",
]


@pytest.mark.parametrize("line", [*DEATHS, *ENDS])
def test_a_program_says_that_it_ends(line: str) -> None:
    found = cause(line)
    assert found
    assert found.death


@pytest.mark.parametrize("line", RECORDS)
def test_what_is_recorded_as_an_error_is_quoted_and_kills_nobody(line: str) -> None:
    found = cause(line)
    assert found
    assert not found.death
    assert "shard" in found.sentence or line.strip()[:40] in found.sentence


def test_it_is_quoted_with_its_rank_and_its_node() -> None:
    text = (
        "3: thread 'main' panicked at src/x.rs:1:2\n[n07:2] F0203 10:11:12.131415  4121 a.cc:70] Check failed"
    )
    assert [each.sentence for each in causes(text.splitlines()[0])] == [
        "last error in the log on rank 3 (thread 'main' panicked at src/x.rs:1:2)"
    ]
    assert "on n07:2 (F0203" in causes(text)[-1].sentence or "on node n07:2" in causes(text)[-1].sentence


def test_the_last_one_counts_and_a_known_kind_goes_first() -> None:
    text = "\n".join(RECORDS[:3])
    found = cause(text)
    assert found
    assert "ERROR:root:" in found.sentence
    assert len(causes(text)) == 1, "they do not pile up"
    found = cause(text + "\nOSError: [Errno 28] No space left on device\n" + text)
    assert found
    assert found.sentence == "no space left on device"
    found = cause("Error in solve.default(A) :\n  singular matrix\nExecution halted")
    assert found
    assert found.sentence == "last error in the log (Error in solve.default(A) : singular matrix)"


def test_a_death_stays_the_cause_behind_a_record_of_another_rank() -> None:
    found = cause("3: panic: runtime error: index out of range\n0: ERROR:root:could not send metrics")
    assert found
    assert found.death
    assert found.rank == "3"


@pytest.mark.parametrize(
    "line",
    [
        "test error: 0.0312",
        "ERROR: 0",
        "relative error 1.2e-3, max error: 4e-2",
        "epoch 3 error rate 0.31 fatal 0",
        "panicking is no option",
        "-XX:+ExitOnOutOfMemoryError -XX:OnError=gcore",
        "oom_kill_policy: none",
        "PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "set -e  # stop on error",
        "loss 2.3 | mean squared error: 0.4 | lr 1e-4",
        "STOP words removed: 1211",
        "STOP 2 words",
        "Aborted attempts: 3",
        "FATAL errors so far 3",
        "stop 1 of 3: n07",
        "no errors found in 1,211 files",
        "WARNING: Error in reading shard 7, skipping",
        "ERROR: download failed, retrying (2/5)",
        "INFO: the last attempt ended with an ERROR but all is well",
    ],
)
def test_what_has_no_such_form_is_none(line: str) -> None:
    assert causes(line) == []


UNCAUGHT = """[rank3]: Traceback (most recent call last):
[rank3]:   File "train.py", line 88, in <module>
[rank3]:     batch = loader.next()
[rank3]: shards.loader.MissingShard: shard 7 has no index"""


def test_an_exception_that_nobody_caught_is_a_death_whatever_its_name() -> None:
    found = cause(UNCAUGHT)
    assert found
    assert found.death
    assert found.sentence == (
        "error in the program on rank 3 (shards.loader.MissingShard: shard 7 has no index)"
    )
    bare = cause(UNCAUGHT.rpartition(":")[0])
    assert bare
    assert bare.death


def test_the_exception_that_another_one_led_to_is_no_less_one() -> None:
    text = (
        "Traceback (most recent call last):\n  File 'a.py', line 1\nKeyError: 7\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n  File 'a.py', line 3\nloader.MissingShard: shard 7"
    )
    found = causes(text)
    assert found[-1].death
    assert "MissingShard" in found[-1].sentence


@pytest.mark.parametrize(
    "before",
    [
        "[rank3]: Exception ignored in: <function Pool.__del__ at 0x7f1e>",
        "[rank3]: Exception in thread Thread-4 (_send):",
        "[rank3]: 2026-02-03 10:11:12,131 - trainer - ERROR - could not send metrics",
        "[rank3]: --- Logging error ---",
        "[rank3]: WARNING: shard 7 left out",
    ],
)
def test_a_traceback_that_was_logged_or_is_a_threads_kills_nobody(before: str) -> None:
    found = cause(f"{before}\n{UNCAUGHT}")
    assert found
    assert not found.death


@pytest.mark.parametrize(
    "after",
    [
        "[rank3]: Retrying (2/5)",
        "[rank3]: skipping batch 7",
        "[rank3]: Ignoring this choice",
        "[rank3]: resuming from step 400",
        "[rank3]: attempt 2 of 3",
    ],
)
def test_who_says_that_it_goes_on_has_survived(after: str) -> None:
    assert causes(f"{UNCAUGHT}\n{after}") == []
    assert causes(after, causes(UNCAUGHT)) == [], "in a later look, too"
    other = after.replace("rank3", "rank5")
    assert causes(f"{UNCAUGHT}\n{other}"), "another rank says nothing of it"


RAISED = 'Traceback (most recent call last):\n  File "fit.py", line 8, in <module>\n    main()\n'


@pytest.mark.parametrize(
    ("before", "raised", "dies"),
    [
        ('{"lvl":"INFO","event":"train","step":400}', "KeyError: 'shard-7'", True),
        ("2027-01-15 08:00:00,112 [INFO] - epoch 3 fit 0.91", "KeyError: 'shard-7'", True),
        ("2027-01-15 08:00:00,112 ERROR could not write the plot", "OSError: disk", False),
        ("[W 2027-01-15] Trial 9 failed: KeyError('shard-7')", "KeyError: 'shard-7'", False),
        (
            "[W 2027-01-15] Trial 9 failed because of the following error: OutOfMemoryError('CUDA')",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.81 GiB",
            False,
        ),
        ("step 400", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.81 GiB", True),
    ],
)
def test_an_exception_is_caught_where_it_was_said_before_or_logged_as_an_error(
    before: str, raised: str, dies: bool
) -> None:
    found = cause(f"{before}\n{RAISED}{raised}")
    assert found
    assert found.death is dies


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Error in `[.data.frame`(x, idx) : undefined columns\nCalls: train -> fit\nExecution halted",
            "undefined",
        ),
        ("libc++abi: terminating due to uncaught exception of type std::bad_alloc", "memory"),
        ("srun: error: n0412: task 37: Exited with exit code 1", "n0412"),
        ("gpu-b07: ERROR: LoadError: DomainError with -1.0", "gpu-b07"),
    ],
)
def test_who_says_why_and_then_that_it_ends_has_ended(text: str, said: str) -> None:
    found = cause(text)
    assert found
    assert found.death
    assert said in found.sentence


def test_a_banner_of_an_error_is_quoted_with_its_rank() -> None:
    found = cause("12: *** ABORT *** solver: pivot vanished in row 4411")
    assert found
    assert "rank 12" in found.sentence
    assert "pivot vanished" in found.sentence
