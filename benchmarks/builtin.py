"""Checks that are built in: how old a file is, how full a file system is; beside Nagios Core and Monit."""

from __future__ import annotations

from pathlib import Path

from benchmarks import measure, ours

CHECKS = 1000


def home(folder: Path) -> ours.Home:
    """Half of the checks look at the age of a log, half at a file system."""
    lines = []
    for number in range(CHECKS // 2):
        log = folder / f"{number}.log"
        log.write_text("iteration 1\n")
        lines.append(f'[runs.r{number}]\nlog = "{log}"\nstale_after = "90d"')
        lines.append(f'[disks.d{number}]\npath = "{folder}"\nquota = "statvfs"\nwarn_free = "1MB"')
    return ours.new_home(folder, "\n".join(lines) + "\n")


def our_cost(turns: int = 5) -> float:
    """CPU seconds of one check, in daemon and workers together."""
    with measure.folder() as folder, ours.without_slurm(), ours.rounds(home(folder)) as engine:
        engine.one()
        engine.one()
        costs = sorted(engine.one() for _ in range(turns))
        return costs[turns // 2] / CHECKS


if __name__ == "__main__":
    print(our_cost() * 1e6, "us")
