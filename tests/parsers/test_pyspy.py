"""py-spy's dumps, and its reasons for having none."""

from __future__ import annotations

import json

import pytest

from watchdogd.parsers import pyspy
from watchdogd.parsers.stack_models import Frame, StackDump, Thread

WAITS = json.dumps(
    [{"pid": 7, "thread_id": 1, "thread_name": "MainThread", "frames": [{"name": "f", "line": 3}]}]
)
SAMPLE_WARNING = (
    "[2026-03-01T20:07:50.03Z WARN  py_spy] Failed to get stack trace from {}: Failed to suspend process\n"
)


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
    threads = tuple(Thread(str(each), each, frames=(Frame("f", "a.py", each),)) for each in (8, 9))
    numbered = StackDump(9, threads)
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
