"""py-spy's dumps in all the forms that are met, and its reasons for having none."""

from __future__ import annotations

import json

import pytest

from watchdogd.parsers import pyspy
from watchdogd.parsers.stack_models import Frame, StackDump

WAITS = """Process 4242: /opt/env/bin/python -u train.py --config big.toml
Python v3.11.9 (/opt/env/bin/python3.11)

Thread 4242 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    wrapper (torch/distributed/c10d_logger.py:81)
    train_step (train.py:210)
    <module> (train.py:331)
Thread 4300 (idle): "Thread-1 (_pin)"
    wait (threading.py:331)
"""
NATIVE = """Thread 77 (idle): "MainThread"
    0x7f0a12345678 (libcuda.so.550.54)
    pthread_cond_timedwait
    std::function<void ()>::operator() (libtorch_cpu.so)
    gloo::transport::tcp::Buffer::waitRecv (libtorch_cpu.so)
    0x7f0a00000001 (?)
    next_batch (loader.py:88)
    ...
"""
RAY = (
    "Stack dump for alice    31001  0.2  0.1 1751000 151000 pts/2  Sl   10:48   0:01 ray_worker\n"
    "Thread 0x7F4AA0000700 (active)\n\t flush (ray/profiling.py:97)\n\t run (threading.py:864)\n\n"
    "Stack dump for alice    31002  0.2  0.1 1751000 151000 pts/2  Sl   10:48   0:01 ray_worker\n"
    "Thread 0x7FB6D0000700 (idle)\n\t main_loop (ray/worker.py:1005)\n"
)
SAMPLE_WARNING = (
    "[2026-03-01T20:07:50.03Z WARN  py_spy] Failed to get stack trace from {}: Failed to suspend process\n"
)


def the(text: str) -> StackDump:
    (dump,) = pyspy.read(text).dumps
    return dump


def test_the_plain_form() -> None:
    dump = the(WAITS)
    assert dump.pid == 4242
    main, other = dump.threads
    assert (main.id, main.os_id, main.name) == ("4242", 4242, "MainThread")
    assert main.frames[0] == Frame("all_reduce", "torch/distributed/distributed_c10d.py", 2806)
    assert [str(frame) for frame in main.frames[2:]] == [
        "train_step (train.py:210)",
        "<module> (train.py:331)",
    ]
    assert other.name == "Thread-1 (_pin)"


def test_native_frames() -> None:
    frames = the(NATIVE).threads[0].frames
    assert [(frame.function, frame.file, frame.line) for frame in frames] == [
        ("0x7f0a12345678", "libcuda.so.550.54", None),
        ("pthread_cond_timedwait", "", None),
        ("std::function<void ()>::operator()", "libtorch_cpu.so", None),
        ("gloo::transport::tcp::Buffer::waitRecv", "libtorch_cpu.so", None),
        ("0x7f0a00000001", "", None),
        ("next_batch", "loader.py", 88),
    ]


def test_several_processes_and_a_first_stack_that_was_cut() -> None:
    cut, whole = pyspy.read("    broadcast (x/c10d.py:3)\n    main (refit.py:4)\n\n\n" + WAITS).dumps
    assert (cut.pid, len(cut.threads[0].frames)) == (None, 2)
    assert whole == the(WAITS)


def test_ray_tells_the_process_in_the_words_of_ps() -> None:
    assert [(dump.pid, len(dump.threads)) for dump in pyspy.read(RAY).dumps] == [(31001, 1), (31002, 1)]


def test_lost_line_breaks_and_lost_headers() -> None:
    joined = " ".join(line.strip() for line in WAITS.splitlines() if line)
    assert the(joined) == the(WAITS)
    bare = the(WAITS.partition("\n\n")[2])
    assert (bare.pid, bare.main) == (None, the(WAITS).main)


def test_a_dump_within_another_log() -> None:
    log = f"[2026-01-29 13:12:37 TP1] watchdog timeout (timeout=300)\n   retrying (1 of 3)\n\n{WAITS}"
    assert the(log).threads == the(WAITS).threads


def test_variables_of_the_frames_are_no_frames() -> None:
    text = WAITS.replace(
        "    train_step", "        Arguments:\n            batch: <Batch (64)>\n    train_step"
    )
    assert the(text) == the(WAITS)


def test_colours_are_removed() -> None:
    assert the(WAITS.replace("all_reduce", "\x1b[32mall_reduce\x1b[0m")) == the(WAITS)


@pytest.mark.parametrize("before", ["", "[2026-03-01T20:07:50Z WARN  py_spy] slow\n"])
def test_json(before: str) -> None:
    frame = {
        "name": "next_batch",
        "filename": "/home/alice/loader.py",
        "short_filename": "loader.py",
        "line": 88,
    }
    shim = {"name": "<module>", "filename": "<string>", "short_filename": None, "line": 1, "is_entry": True}
    thread = {"pid": 7, "thread_id": 140057, "thread_name": None, "os_thread_id": 7, "active": True}
    entries = [{**thread, "owns_gil": True, "frames": [frame, shim]}, {**thread, "pid": 8, "frames": []}]
    first, second = pyspy.read(before + json.dumps(entries, indent=2)).dumps
    assert (first.pid, second.pid, second.threads[0].frames) == (7, 8, ())
    assert first.main is not None
    assert first.main.frames[0] == Frame("next_batch", "loader.py", 88, "/home/alice/loader.py")
    assert first.main.frames[1] == Frame("<module>", "<string>", 1, "<string>")


@pytest.mark.parametrize(
    ("said", "kind", "line"),
    [
        (
            "Permission Denied: Try running again with elevated permissions by going 'sudo env !!'",
            "permission",
            "Permission Denied",
        ),
        (
            "root@pod-7:/app# py-spy dump --pid 13\nPermission Denied: Try running again with elevated",
            "permission",
            "Permission Denied",
        ),
        (
            "Error: EPERM: Operation not permitted\nstack backtrace:\n   0:   0x4e7bac - trace (x:1)",
            "permission",
            "EPERM: Operation not permitted",
        ),
        (
            "$ py-spy --pid 9134\nError: No such file or directory (os error 2)\n$ readlink /proc/9134/exe",
            "unreadable",
            "No such file or directory (os error 2)",
        ),
        (
            "Error: Failed to parse python binary\nReason: No such file or directory (os error 2)",
            "container",
            "Failed to parse python binary (No such file or directory (os error 2))",
        ),
        (
            "Error: Failed to merge native and python frames (Have 1 native and 2 python)",
            "native",
            "Failed to merge native and python frames (Have 1 native and 2 python)",
        ),
        ("Error: Not a tty (os error 25)", "not a terminal", "Not a tty (os error 25)"),
        (
            "Error : Failed to suspend process\nReason : ERROR_WAIT_1 (os error 731)\nReason : ERROR_WAIT_1",
            "suspend",
            "Failed to suspend process (ERROR_WAIT_1 (os error 731))",
        ),
        (
            "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n"
            "    0: No such file or directory (os error 2)\n\nStack backtrace:\n   0: anyhow::ext",
            "gone",
            "Failed to get process executable name. Check that the process is running.",
        ),
        (
            "Error: Failed to find python version from target process\n\nStack backtrace:\n   0: anyhow",
            "not python",
            "Failed to find python version from target process",
        ),
        (
            SAMPLE_WARNING.format(9) * 3 + "py-spy> done. Samples: 10 Errors: 900",
            "suspend",
            "900 errors for 10",
        ),
        ("Error: the moon is full", "unknown", "the moon is full"),
    ],
)
def test_why_there_is_none(said: str, kind: str, line: str) -> None:
    for answer in (pyspy.read("", said), pyspy.read(said)):
        assert answer.dumps == ()
        assert answer.trouble is not None
        assert (answer.trouble.kind, answer.trouble.line[: len(line)]) == (kind, line)
        assert "sudo" not in str(answer.trouble)


def test_a_warning_is_no_failure() -> None:
    answer = pyspy.read(WAITS, SAMPLE_WARNING.format(1) + SAMPLE_WARNING.format(2))
    assert (len(answer.dumps), answer.trouble) == (1, None)
    namespace = "[2026-11-22T18:27:19.8Z WARN  py_spy::python_spy] Failed to set namespace: EINVAL\n"
    assert pyspy.read("", namespace).trouble is None
    advice = "Failed to load libunwind-ptrace, you may have an elevated error rate\nYou can install it\n"
    assert pyspy.read(advice + WAITS).dumps == pyspy.read(WAITS).dumps


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1, 2]", "[{}]", '[{"pid": "x"}]', "    indented (but no frame)"]
)
def test_what_makes_no_sense_has_no_dumps(text: str) -> None:
    assert pyspy.read(text) == pyspy.PyspyAnswer()


def test_the_main_thread() -> None:
    numbered = the("Process 9: python\nThread 8 (idle)\n    a (a.py:1)\nThread 9 (idle)\n    b (b.py:2)\n")
    assert numbered.main is not None
    assert numbered.main.id == "9"
    assert StackDump(9).main is None


@pytest.mark.parametrize(
    ("frame", "library"),
    [
        (Frame("read", "socket.py", 1), True),
        (Frame("run", "multiprocessing/process.py", 108), True),
        (Frame("all_reduce", "torch/distributed/distributed_c10d.py", 1), True),
        (Frame("main", "<frozen runpy>", 1), True),
        (Frame("poll", "libc.so.6"), True),
        (Frame("next_batch", "loader.py", 88), False),
        (Frame("step", "project/torch_utils.py", 88), False),
        (Frame("f", "queue.py", 1, "/home/alice/queue.py"), False),
        (Frame("f", "m.py", 1, "/opt/env/lib/python3.11/site-packages/x/m.py"), True),
    ],
)
def test_whose_code_a_frame_is(frame: Frame, library: bool) -> None:
    assert frame.library is library
