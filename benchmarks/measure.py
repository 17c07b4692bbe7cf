"""Measuring: CPU of processes and their children, memory, file-system calls; medians of several turns."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil


def family(pid: int) -> list[psutil.Process]:
    """A process and all that it started and that lives."""
    with contextlib.suppress(psutil.NoSuchProcess):
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    return []


def cpu(pid: int, *, itself: bool = True) -> float:
    """CPU seconds of a process, its living children, and the dead ones that were waited for."""
    total = 0.0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            counts = process.pid != pid or itself
            total += (
                (times.user + times.system if counts else 0.0) + times.children_user + times.children_system
            )
    return total


def pss(pid: int) -> float:
    """MB of memory that a process and its children hold, shared pages divided among all that share them."""
    total = 0.0
    for process in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total / 1e6


def file_calls(words: Sequence[str], env: dict[str, str] | None = None) -> int:
    """File-system calls of a command, its children's too, those that fail included."""
    with tempfile.NamedTemporaryFile("r", prefix="strace-") as trace:
        subprocess.run(
            ["strace", "-f", "-qq", "-e", "trace=%file", "-o", trace.name, *words],
            env=env,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return sum(1 for line in trace if re.match(r"\d+\s+\w+\(", line))


def command_cpu(words: Sequence[str]) -> float:
    """CPU seconds of a command: what other work on the machine adds little to."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall(function: Callable[[], object]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def in_turn(turns: int, *functions: Callable[[], float]) -> list[float]:
    """The medians of what the functions return, called in turn, so that a busy moment hits all."""
    rows = [[function() for function in functions] for _ in range(turns)]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder that others can enter and that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="watchdogd-bench-") as made:
        os.chmod(made, 0o755)
        yield Path(made)


@contextlib.contextmanager
def running(words: Sequence[str], **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program of ours or a peer's, ended at the end."""
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", nowhere),  # type: ignore[call-overload]
            stderr=options.pop("stderr", nowhere),
            start_new_session=True,
            **options,
        )
        try:
            yield process
        finally:
            members = family(process.pid)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            for member in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            process.wait()


def wait_until(true: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until it is so; RuntimeError where it never is."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
