"""Built-in checks (how old a file is, how full a file system) and executables as drop-ins."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measure, ours, peers
from benchmarks.table import Line
from watchdogd.home.layout import Home

CHECKS, PROGRAMS, OF_NAGIOS = 1000, 1000, 200


def home(folder: Path, checks: int) -> Home:
    """Half of the checks look at the age of a log, half at a file system."""
    lines = []
    for number in range(checks // 2):
        log = folder / f"{number}.log"
        log.write_text("iteration 1\n")
        lines.append(f'[runs.r{number}]\nlog = "{log}"\nstale_after = "90d"')
        lines.append(f'[disks.d{number}]\npath = "{folder}"\nquota = "statvfs"\nwarn_free = "1MB"')
    return ours.new_home(folder, "\n".join(lines) + "\n")


def programs(folder: Path) -> Home:
    """A home with executables in one drop-in folder."""
    made = ours.new_home(folder, "")
    crontab = made.path / "cron.every-1m"
    crontab.mkdir(mode=0o700)
    for number in range(PROGRAMS):
        program = crontab / f"check-{number}"
        program.write_text("#!/bin/sh\necho OK\n")
        program.chmod(0o700)
    return made


def cost(home: Home, checks: int, turns: int = 5) -> float:
    """CPU seconds of one check, in daemon and workers and programs together."""
    with ours.rounds(home) as engine:
        engine.one()
        engine.one()
        spent = statistics.median(engine.one() for _ in range(turns))
        if engine.seen < checks:
            raise RuntimeError(f"{engine.seen} results of {checks} checks")
        return spent / checks


def lines() -> Iterator[Line]:
    """Three rows of the table."""
    with measure.folder() as folder, ours.without_slurm():
        ours_built = cost(home(folder, CHECKS), CHECKS)
    with measure.folder() as folder:
        log = folder / "a.log"
        log.write_text("x\n")
        age = f"{peers.PLUGINS}/check_file_age -w 999999 -c 9999999 -f {log}"
        disk = f"{peers.PLUGINS}/check_disk -w 1% -c 1% -p {folder}"
        theirs = peers.nagios_cost([age, disk] * (OF_NAGIOS // 2))
        monit = peers.monit_cost(
            [f"check file f{n} path {log}\n  if timestamp > 90 days then alert" for n in range(CHECKS // 2)]
            + [
                f"check filesystem d{n} path /\n  if space usage > 99.9% then alert"
                for n in range(CHECKS // 2)
            ]
        )
    yield Line(
        "built-in checks (file age, file system), per CPU-second",
        f"{1 / ours_built:.0f}",
        f"Nagios Core {1 / theirs:.0f}",
        theirs / ours_built,
        "≥ 10 ×",
    )
    yield Line(
        "CPU per built-in check, daemon and worker together",
        f"{ours_built * 1e6:.0f} µs",
        f"Monit {monit * 1e6:.0f} µs",
        ours_built / monit,
        "≤ 3 ×",
    )
    with measure.folder() as folder:
        ours_run = cost(programs(folder), PROGRAMS)
    with measure.folder() as folder:
        program = folder / "check"
        program.write_text("#!/bin/sh\necho OK\n")
        program.chmod(0o755)
        theirs = peers.nagios_cost([str(program)] * PROGRAMS)
    yield Line(
        "executables as drop-ins, per CPU-second",
        f"{1 / ours_run:.0f}",
        f"Nagios Core {1 / theirs:.0f}",
        theirs / ours_run,
        "≥ 1 ×",
    )
