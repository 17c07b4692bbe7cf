"""Training of the demo: `python -m watchdogd.demo.toy_training FOLDER DISK`.

A real, small one: it fits a line to noisy points, a batch an iteration, logs to FOLDER/train.log and saves
its weights on DISK. As under torchrun, the process in FOLDER/train.pid is a launcher, which lives on while
its worker hangs; both end with the demo, even if that is killed with SIGKILL.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TextIO

from watchdogd.training import Guard

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process signal `number` when its parent ends, prctl(2).

    Linux only; without prctl nothing is done, and the parent cleans up.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)


RUN = "run-17"
PACE = 0.25
"""Seconds of an iteration."""
ITERATIONS = 4000
RATE = 0.05
BATCH = 8
SLOPE, OFFSET, NOISE = 3.0, -1.0, 0.1
"""Parameters of the data."""


class LinearModel:
    """Model: a line, fitted by gradient descent on its mean squared error."""

    def __init__(self) -> None:
        self.slope = 0.0
        self.offset = 0.0

    def learn(self, points: list[tuple[float, float]]) -> float:
        errors = [(x, self.slope * x + self.offset - y) for x, y in points]
        self.slope -= RATE * sum(2 * error * x for x, error in errors) / len(points)
        self.offset -= RATE * sum(2 * error for _, error in errors) / len(points)
        return sum(error * error for _, error in errors) / len(points)

    def save(self, path: Path) -> None:
        """Write the weights atomically."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps({"slope": self.slope, "offset": self.offset}) + "\n")
        draft.replace(path)


def batch() -> list[tuple[float, float]]:
    """Return new random points near the line."""
    xs = [random.uniform(-1.0, 1.0) for _ in range(BATCH)]  # noqa: S311 - data, no secret
    return [(x, SLOPE * x + OFFSET + random.gauss(0.0, NOISE)) for x in xs]


def train(log: TextIO, disk: Path) -> None:
    """Train as in README, until all is done or the Guard says stop."""
    guard = Guard(RUN)
    guard.exit_if_stopped()
    model = LinearModel()
    for iteration in range(1, ITERATIONS + 1):
        loss = model.learn(batch())
        time.sleep(PACE)
        print(f" iteration {iteration:8d}/{ITERATIONS:8d} | lm loss: {loss:.4E} |", file=log)
        wish = guard.poll(step=iteration, loss=loss)
        if wish:
            checkpoint = disk / f"iter_{iteration:07d}.json"
            model.save(checkpoint)
            guard.saved()
            print(f"saved {checkpoint.name} at iteration {iteration}: {wish.reason}", file=log)
        if wish.stop:
            return
    guard.finished()


def main(folder: Path, disk: Path) -> int:
    """Start the worker and wait for it; return its exit code."""
    worker = os.fork()
    if worker == 0:
        end_with_parent()
        with (folder / "train.log").open("a", buffering=1) as log:
            train(log, disk)
        return 0
    (folder / "train.pid").write_text(f"{os.getpid()}\n")
    return os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
