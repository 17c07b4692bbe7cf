"""What Guard.poll costs a training step, beside an os.path.exists of the switch at every step.

python -m benchmarks.guard_poll [FOLDER]    FOLDER: where the switches lie; on the file system to be measured.

Prints the median time of one call over many rounds, so that the one look a second stays in the picture.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.table import Line
from watchdogd.training import Guard

CALLS, ROUNDS = 10_000, 50


def nanoseconds(call: Callable[[], object]) -> list[float]:
    """The time of one call, once a round."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        rounds.append((time.perf_counter_ns() - start) / CALLS)
    return rounds


def compare(folder: Path) -> tuple[list[float], list[float]]:
    """The rounds of a poll, and of a look at the switch."""
    (folder / "switches").mkdir()
    (folder / "inbox").mkdir()
    switch = str(folder / "switches" / "run-17.kill")
    with contextlib.closing(Guard("run-17", home=folder, memory_free="1%")) as guard:
        poll = nanoseconds(lambda: guard.poll(step=7, loss=2.5))
    return poll, nanoseconds(lambda: os.path.exists(switch))  # what training scripts call


def lines() -> Iterator[Line]:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as made:
        poll, exists = (statistics.median(rounds) for rounds in compare(Path(made)))
    yield Line(
        "`Guard.poll`, median, beside `os.path.exists` at every step",
        f"{poll / 1e3:.2f} µs",
        f"{exists / 1e3:.2f} µs",
        poll / exists,
        "≤ 5 µs, ≤ 0.2 ×",
    )


def show(folder: Path) -> None:
    """Print what a poll costs on a file system."""
    poll, exists = compare(folder)
    for name, rounds in (("Guard.poll", poll), ("os.path.exists", exists)):
        print(f"{name:15} median {statistics.median(rounds):7.0f} ns   worst round {max(rounds):7.0f} ns")
    ratio = statistics.median(exists) / statistics.median(poll)
    print(f"a look at the switch at every step costs {ratio:.1f} times a poll")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as made:
        show(Path(made))
