"""The stacks of 64 nodes with 8 ranks each: those of one node taken by the probe, folded as of that many."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure
from benchmarks.table import Line
from watchdogd.actions.stackprobe import Parcel, parcels
from watchdogd.actions.stacks import fold
from watchdogd.actions.stacktaking import processes_of

NODES, RANKS = 64, 8
SAMPLES, APART = 3, 1.5
"""As the probe of a job takes them: this many of each process, so many seconds apart."""
_PROGRAM = """import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
time.sleep(600)
"""


def lines() -> Iterator[Line]:
    """Two rows of the table."""
    taken, lasted = _one_node()
    if len(taken) != RANKS or any(parcel.trouble for parcel in taken):
        raise RuntimeError(f"stacks of {len(taken)} processes: {[parcel.trouble for parcel in taken]}")
    many = processes_of((f"node{number}", taken) for number in range(NODES))
    [folding] = measure.in_turn(9, lambda: measure.wall(lambda: fold(many, lasted)))
    yield Line(
        f"stacks of one node with {RANKS} ranks, {SAMPLES} samples {APART:g} s apart (nodes side by side)",
        f"{lasted:.1f} s",
        reach="≤ 15 s",
    )
    yield Line(
        f"folding the stacks of {NODES} nodes × {RANKS} ranks",
        f"{folding * 1e3:.1f} ms",
        reach="≤ 200 ms",
    )


def _one_node() -> tuple[list[Parcel], float]:
    """What the probe says of a node's ranks that are there already, and in how many seconds."""
    ranks = f"for rank in $(seq {RANKS}); do RANK=$rank '{sys.executable}' -c '{_PROGRAM}' & done; wait"
    with measure.running(["sh", "-c", ranks]) as node:
        time.sleep(5)
        tool = str(Path(sys.executable).with_name("py-spy"))
        words = [sys.executable, "-m", "watchdogd.actions.stackprobe", "--below", str(node.pid)]
        words += ["--py-spy", tool, "--samples", str(SAMPLES), "--every", str(APART)]
        begin = time.perf_counter()
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
        return parcels(said), time.perf_counter() - begin


if __name__ == "__main__":
    from benchmarks.table import row

    for line in lines():
        print(row(line))
