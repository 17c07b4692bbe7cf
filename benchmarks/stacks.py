"""The stacks of 64 nodes with 8 ranks each, taken by a real py-spy here once, folded as of that many."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks import measure
from benchmarks.table import Line
from watchdogd.actions.stacks import Process, fold
from watchdogd.readers import pyspy

NODES, RANKS = 64, 8
_PROGRAM = """import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(60)
"""


def lines() -> Iterator[Line]:
    """One row of the table."""
    with measure.running([sys.executable, "-c", _PROGRAM]) as process:
        time.sleep(2)
        tool = str(Path(sys.executable).with_name("py-spy"))
        said = subprocess.run(
            [tool, "dump", "--json", "--pid", str(process.pid)], capture_output=True, text=True, check=True
        ).stdout
    [dump] = pyspy.read(said).dumps
    first = Process("node0", 1, 0, samples=(dump, dump))
    many = [
        replace(first, node=f"node{rank // RANKS}", pid=1000 + rank, rank=rank)
        for rank in range(NODES * RANKS)
    ]
    [took] = measure.in_turn(9, lambda: measure.wall(lambda: fold(many, 1.0)))
    yield Line(
        "folding the stacks of 64 nodes × 8 ranks",
        f"{took * 1e3:.1f} ms",
        reach="≤ 200 ms",
    )
