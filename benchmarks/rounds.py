"""A round of many runs and disks beside a real Slurm: its CPU, and what the controller is asked."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import measure, ours
from benchmarks.table import Line
from tests.cluster import Cluster

RUNS, DISKS, TENTH = 1000, 200, 10
LARGE, GROWTH = 10_000_000, 10_000
"""Bytes of each log, and by how many it grows between two rounds."""
SETTINGS = {"SchedulerParameters": "bf_interval=30,sched_interval=30,defer"}


def lines() -> Iterator[Line]:
    """Three rows of the table."""
    with Cluster(nodes=2, settings=SETTINGS) as cluster, environment(cluster):
        asked, costs = {}, {}
        queued = 0
        for runs in (1, 10, RUNS // TENTH, RUNS):
            _queue(queued, runs)
            queued = runs
            disks = max(runs * DISKS // RUNS, 1)
            with measure.folder() as folder:
                costs[runs], asked[runs] = _rounds(folder, runs, disks)
    yield Line(
        "a round of 1,000 runs (10 MB logs that grow by 10 kB) and 200 disks",
        f"{costs[RUNS]:.2f} CPU-s, {asked[RUNS]:g} RPC for jobs",
        reach="≤ 6 CPU-s, one squeue",
    )
    yield Line(
        "10 × the runs and disks",
        f"{costs[RUNS]:.2f} CPU-s",
        f"{costs[RUNS // TENTH]:.2f} CPU-s (a tenth of them)",
        costs[RUNS] / costs[RUNS // TENTH],
        "≤ 11 ×",
    )
    yield Line(
        "RPCs for jobs a round with 1, 10, 100 runs (sdiag)",
        ", ".join(f"{asked[runs]:g}" for runs in (1, 10, 100)),
        reach="constant",
    )


@contextmanager
def environment(cluster: Cluster) -> Iterator[None]:
    """Its commands and its slurm.conf are what this process finds."""
    before = dict(os.environ)
    os.environ.update(cluster.env)
    os.environ["HOME"] = before["HOME"]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _queue(have: int, want: int) -> None:
    """Jobs that wait for tomorrow, one a run: an array, of which each task then gets the name of its run."""
    words = ["sbatch", "--parsable", f"--array=0-{want - have - 1}", "--begin=now+1day", "-o", "/dev/null"]
    array = _said([*words, "-n1", "--mem=1", "--wrap", "true"]).strip()
    names = "".join(f"update JobId={array}_{n} JobName=run-{have + n}\n" for n in range(want - have))
    _said(["scontrol"], stdin=names)
    queued = set(_said(["squeue", "--noheader", "--array", "--format=%j"]).split())
    if not {f"run-{number}" for number in range(want)} <= queued:
        raise RuntimeError(f"{len(queued)} jobs of {want} wait in the queue")


def _said(words: list[str], stdin: str = "") -> str:
    return subprocess.run(
        words, input=stdin, capture_output=True, text=True, check=True, cwd="/tmp", timeout=300
    ).stdout


def _rounds(folder: Path, runs: int, disks: int) -> tuple[float, float]:
    """CPU seconds of a round, and how often a round asks the controller for jobs; both medians."""
    logs = [folder / f"{number}.log" for number in range(runs)]
    for log in logs:
        with log.open("wb") as file:
            file.truncate(LARGE - GROWTH)
    config = '[slurm]\nusers = ["root"]\nmin_poll = "1s"\n'
    config += "".join(
        f'[runs.run-{number}]\nlog = "{log}"\nkill_switch = "{folder}/{number}.kill"\n'
        for number, log in enumerate(logs)
    )
    config += "".join(f'[disks.d{n}]\npath = "{folder}"\nquota = "statvfs"\n' for n in range(disks))
    spent, asked = [], []
    with ours.rounds(ours.new_home(folder, config)) as engine:
        for turn in range(5):
            for log in logs:
                _lengthen(log, turn)
            before = _asked()
            spent.append(engine.one())
            asked.append(_asked() - before)
    return statistics.median(spent[2:]), statistics.median(asked[2:])


def _lengthen(log: Path, turn: int) -> None:
    line = f"iteration {turn:8} | lm loss: 2.5 | grad norm: 1.0 | elapsed time per iteration (ms): 9000\n"
    with log.open("a") as file:
        file.write(line * (GROWTH // len(line)))


def _asked() -> int:
    """How often the controller was asked for jobs since it started."""
    found = re.search(r"REQUEST_JOB_INFO\s.*count:(\d+)", _said(["sdiag"]))
    return int(found[1]) if found else 0


if __name__ == "__main__":
    from benchmarks.table import row

    begin = time.time()
    for line in lines():
        print(row(line))
    print(f"{time.time() - begin:.0f} s")
