"""A first look at a log of 3 GB, and later looks at the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks import measure
from benchmarks.table import Line
from watchdogd.plugin import Run
from watchdogd.plugins.log_staleness.check import log_staleness

SIZE, TAIL, NEW = 3_000_000_000, 20_000_000, 10_000
"""Bytes of the log, those of them that are text, and what it grows by; the text's beginning is never read."""


def lines() -> Iterator[Line]:
    """One row of the table."""
    with measure.folder() as folder:
        log = folder / "main_log.txt"
        with log.open("wb") as file:
            file.truncate(SIZE - TAIL)
        memory: dict[str, Any] = {}
        small = folder / "small.txt"
        _append(small)
        _look(str(small), {})  # the worker is warm
        _append(log, TAIL)
        begin = time.process_time()
        _look(str(log), memory)
        first = time.process_time() - begin
        read = []
        for _ in range(5):
            _append(log)
            before = psutil.Process().io_counters().read_chars
            _look(str(log), memory)
            read.append(psutil.Process().io_counters().read_chars - before)
    yield Line(
        "first look at a 3 GB log; bytes read by a later look after 10,000 new ones",
        f"{first * 1e3:.0f} ms of CPU; {sorted(read)[2]:,} bytes",
        reach="≤ 50 ms; the new bytes",
    )


def _append(log: Path, size: int = NEW) -> None:
    """Lines of a training that goes on: each tells one iteration more, and a loss of its own."""
    first = log.stat().st_size if log.exists() else 0
    lines, length = [], 0
    while length < size:
        number = (first + length) // 60
        loss = f"lm loss: {2.5 + number % 7 / 100:.2f}"
        line = f"iteration {number} | {loss} | elapsed time per iteration (ms): 9000\n"
        lines.append(line)
        length += len(line)
    with log.open("a") as file:
        file.writelines(lines)


def _look(log: str, memory: dict[str, Any]) -> None:
    parameters = {name: each.default for name, each in log_staleness.parameters.items()} | {"log": log}
    given = {"run": Run("r", "r"), "snapshot": None, "memory": memory, "history": None, "now": time.time()}
    log_staleness.results(parameters, given)
