"""From a fault to the message at the webhook, on a real Slurm: a killed job, a hang, a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import delivery, measure, ours
from benchmarks.rounds import environment
from benchmarks.table import Line
from tests.cluster import Cluster

INTERVAL, STALE = 10, 20
"""Seconds: a sixth of the usual interval, to wait less; what is to be reached is shorter by as much."""
_TRAIN = """i=0
while :; do
    i=$((i + 1)); [ -e "$1.hang" ] || echo "iteration $i/ 99999 | lm loss: 2.5 |" >>"$1"; sleep 1
done
"""


def lines() -> Iterator[Line]:
    """Three rows of the table; the faults come at the same moment."""
    with (
        Cluster(nodes=3) as cluster,
        environment(cluster),
        measure.folder() as folder,
        _small_disk(folder) as disk,
        delivery.hook() as there,
    ):
        took = _faults(folder, disk, there)
    for fault, least in (("killed", 0), ("hung", STALE), ("disk", 0)):
        yield Line(
            f"fault → alert, interval {INTERVAL} s, confirm 2: {_NAMES[fault]}",
            f"{took[fault]:.1f} s",
            reach=f"≤ {2 * INTERVAL + 5 + least} s",
        )


_NAMES = {"killed": "a killed job", "hung": f"a hang (stale_after {STALE} s)", "disk": "a full disk"}


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _faults(folder: Path, disk: Path, there: delivery.Hook) -> dict[str, float]:
    """Seconds from each fault to its message."""
    config = delivery.channel(there.url, folder) + '[slurm]\nusers = ["root"]\nmin_poll = "1s"\n'
    config += "".join(f'[runs.{name}]\nlog = "{folder}/{name}"\nstale_after = "{STALE}s"\n' for name in _JOBS)
    home = ours.new_home(folder, f'{config}[disks.disk]\npath = "{disk}"\n', interval=f"{INTERVAL}s")
    jobs = {name: _submit(folder, name) for name in _JOBS}
    program = str(Path(sys.executable).with_name("watchdogd"))
    with measure.running([program, "run", "--home", str(home.path)], env=dict(os.environ)):
        for name in _JOBS:
            measure.wait_until((folder / name).exists, 120, f"the job of {name} runs")
        measure.wait_until(home.status.exists, 120, "the daemon's first round")
        time.sleep(2 * INTERVAL)
        before = len(there.heard)
        (folder / "hung.hang").touch()
        subprocess.run(["scancel", "--signal=KILL", "--full", jobs["killed"]], check=True)
        (disk / "full").write_bytes(bytes(19_500_000))
        begin = time.time()
        wanted = {*_JOBS, "disk"}
        measure.wait_until(lambda: wanted <= _told(there, before).keys(), 300, f"alerts of {wanted} come")
        return {name: at - begin for name, at in _told(there, before).items()}


_JOBS = ("killed", "hung")


def _told(there: delivery.Hook, before: int) -> dict[str, float]:
    """When the first alert of each target came."""
    found: dict[str, float] = {}
    for at, said in there.heard[before:]:
        for item in said["items"]:
            if item["status"] in ("WARNING", "CRITICAL"):
                found.setdefault(item["check"].partition("/")[0], at)
    return found


def _submit(folder: Path, name: str) -> str:
    script = folder / f"{name}.sh"
    script.write_text(f"#!/bin/sh\n{_TRAIN}")
    words = [
        "sbatch",
        "--parsable",
        "-J",
        name,
        "-o",
        "/dev/null",
        "-n1",
        "--mem=1",
        str(script),
        f"{folder}/{name}",
    ]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd="/tmp").stdout.strip()


if __name__ == "__main__":
    from benchmarks.table import row

    for line in lines():
        print(row(line))
