"""Ninety days in a while: the real round, history and outbox by a clock of their own, and what grows.

    python scripts/soak.py [--days 90] [--checks 100] [--folder DIR] [--minutes 0]

Each round is one minute of that clock: all checks report, some fail and recover, incidents open and close,
evidence is gathered, messages are sent, and each hour the chores are done. The checks' results are made up,
but for one round in six hours, in which real worker processes run all of them. `--minutes` ends it earlier
(0: it does not). A line a day is printed. It exits with 1 where something grew.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from watchdogd.batch.models import Job, Snapshot
from watchdogd.daemon import daemon_log
from watchdogd.daemon.housekeeping import do_chores
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.snapshots import looked_at
from watchdogd.daemon.storage import Storage
from watchdogd.daemon.wiring import Wiring, outbox_of
from watchdogd.daemon.workers.worker_pool import WorkerPool
from watchdogd.daemon.workers.worker_protocol import Call, Reply
from watchdogd.home.layout import Home
from watchdogd.notify.locks import Locks
from watchdogd.plugin import Metric, Result, Status
from watchdogd.remediation import evidence
from watchdogd.system.bounded_io import BoundedIO

HOUR, DAY = 60, 1440
"""In rounds."""
REAL = 360
"""Rounds from one that real workers run to the next."""
FAILS, RECOVERS = 1 / (5 * DAY), 1 / 45
"""How likely a good check fails in a round, and a failed one recovers."""
ANSWERS = 500
"""Answers of each kind, of which one is chosen each time."""
DISKS = 50
"""One check in so many is a disk: it is given its past of 14 days."""
KEEP = 30
"""Days for which numbers and evidence are kept, so that they are dropped within the soak."""
SETTLED = KEEP + 10
"""Days until all that is kept is there, and caches are warm: growth is judged from then on."""


class MadeUp(WorkerPool):
    """Answers at once; while `real` is set, the real processes do."""

    def __init__(self, noise: random.Random) -> None:
        super().__init__()
        self._noise = noise
        self._good = [result(Status.OK, noise.random() * 1e12) for _ in range(ANSWERS)]
        self._bad = [result(Status.CRITICAL, noise.random() * 1e10) for _ in range(ANSWERS)]
        self._jobs: tuple[Job, ...] = ()
        self._failing: set[str] = set()
        self.real = False

    def submit(self, calls: Sequence[Call]) -> None:
        if self.real:
            super().submit(calls)
        else:
            self._replies += [Reply(call.key, self._answer(call)) for call in calls]

    @property
    def busy(self) -> bool:
        return bool(self._replies) or super().busy

    def _answer(self, call: Call) -> list[Result] | Snapshot:
        if looked_at(call.key):
            if not self._jobs:
                runs = call.parameters["runs"]
                self._jobs = tuple(Job("7", "7", run.name, "ada", "RUNNING") for run in runs)
            return Snapshot(call.parameters["now"], self._jobs, backend="process")
        failing = call.key in self._failing
        if self._noise.random() < (RECOVERS if failing else FAILS):
            self._failing ^= {call.key}
        return [self._noise.choice(self._bad if failing else self._good)]


def result(status: Status, free: float) -> Result:
    metrics = {"free": Metric(free, "B", 1e11), "used": Metric(2e12 - free, "B")}
    return Result(status, f"{free:.0f} B free", metrics, subject="bytes")


@dataclass(frozen=True, slots=True)
class Measured:
    """What is there after a day."""

    day: float
    memory: float
    descriptors: int
    processes: int
    threads: int
    database: float
    logs: float
    evidence: int
    sent: int
    round_ms: float

    def line(self) -> str:
        return (
            f"| {self.day:4.1f} | {self.memory:6.1f} | {self.descriptors:3} | {self.processes:2} | "
            f"{self.threads:2} | {self.database:6.1f} | {self.logs:5.2f} | {self.evidence:3} | "
            f"{self.sent:6} | {self.round_ms:5.1f} |"
        )


HEAD = (
    "|  day | memory | fds | processes | threads | database | logs | evidence | messages | ms a round |\n"
    "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


@contextmanager
def training(place: Path) -> Iterator[Path]:
    """A process that lives, with its pid file and its log, for the real rounds to look at."""
    place.mkdir()
    log = place / "train.log"
    log.write_text("iteration 7\n")
    process = subprocess.Popen(["sleep", "1d"])
    (place / "train.pid").write_text(f"{process.pid}\n")
    try:
        yield log
    finally:
        process.kill()
        process.wait()


def configured(home: Home, checks: int, log: Path) -> Setup:
    """A home with so many things to look at, one in fifty of them a disk with its forecast."""
    home.make()
    watched = "".join(
        f'[runs.run-{number}]\nbackend = "process"\npid_file = "{log.parent}/train.pid"\nlog = "{log}"\n'
        f"checks.job_liveness.enabled = false\n"
        if number % DISKS
        else f'[disks.disk-{number}]\npath = "{log.parent}"\nquota = "statvfs"\n'
        for number in range(checks)
    )
    home.write(
        home.config,
        f'[history]\nkeep = "{KEEP}d"\n[channels.log]\ntype = "statuslog"\npath = "/dev/null"\n{watched}',
    )
    return Setup.load(home)


def dated(home: Home, at: float) -> None:
    """What was written of late gets the time of the soak's clock: by that the chores see its age."""
    now = time.time()
    marks = [path for path in home.path.iterdir() if path.name.startswith(".") and path.is_file()]
    for path in (*marks, *home.evidence.iterdir(), *home.logs.iterdir()):
        if path.stat().st_mtime <= now:
            os.utime(path, (at, at))


def measured(day: float, home: Home, sent: int, seconds: list[float]) -> Measured:
    ours = psutil.Process()
    return Measured(
        day=day,
        memory=ours.memory_info().rss / 1e6,
        descriptors=ours.num_fds(),
        processes=1 + len(ours.children(recursive=True)),
        threads=ours.num_threads(),
        database=_size(home.path, "history*") / 1e6,
        logs=_size(home.logs, "*") / 1e6,
        evidence=sum(1 for _ in home.evidence.iterdir()),
        sent=sent,
        round_ms=statistics.mean(seconds) * 1000,
    )


def _size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def soak(home: Home, checks: int, days: int, minutes: float, log: Path) -> list[Measured]:
    """Round after round; a line is printed for each day."""
    begin = at = time.time()
    until = time.monotonic() + (minutes * 60 or float("inf"))
    setup = configured(home, checks, log)
    daemon_log.begin(home)
    patient = BoundedIO(str(home.path))
    storage = Storage(setup.config.history.url, home, patient, clock=lambda: at)
    workers = MadeUp(random.Random(17))  # noqa: S311 - the same faults in each soak
    past = storage.past()
    engine = Engine(home, setup, past, workers=workers, patient=patient, storage=storage, clock=lambda: at)
    parts = Wiring(home, engine, patient, storage, past, Locks(home, patient.attempt))
    outbox = outbox_of(parts, lambda: True)
    outbox.start()
    found: list[Measured] = []
    seconds: list[float] = []
    sent = 0
    print(HEAD)
    for number in range(1, days * DAY + 1):
        at = begin + 60 * number
        workers.real = number % REAL == 0
        if workers.real:
            os.utime(log, (at, at))
        started = time.perf_counter()
        engine.reload()
        seen = engine.round()
        seconds.append(time.perf_counter() - started)
        assert seen is not None
        outbox.add(seen.notifications)
        sent += len(seen.notifications)
        if number % HOUR == 0:
            do_chores(parts, at)
            dated(home, at)
        if number % DAY == 0:
            found.append(measured(number / DAY, home, sent, seconds))
            seconds.clear()
            print(found[-1].line(), flush=True)
        if time.monotonic() > until:
            break
    outbox.stop(10.0)
    workers.close()
    engine.close()
    storage.close()
    patient.close()
    return found


def growth(found: list[Measured]) -> list[str]:
    """What grew that should not have, a line each."""
    late = [each for each in found if each.day > SETTLED]
    if len(late) < 2:
        return [f"it ended before day {SETTLED + 2}: too early to judge"]
    first, last = late[0], late[-1]
    days = last.day - first.day
    told = []
    if last.database > first.database * 1.15:
        told.append(
            f"database: {first.database:.0f} MB on day {first.day:.0f}, {last.database:.0f} MB at the end"
        )
    if last.evidence > evidence.FOLDERS or last.evidence > first.evidence * 1.5:
        told.append(
            f"evidence: of {first.evidence} incidents on day {first.day:.0f}, {last.evidence} at the end"
        )
    if last.memory > first.memory * 1.15 + 0.1 * days:
        told.append(f"memory: {first.memory:.0f} MB on day {first.day:.0f}, {last.memory:.0f} MB at the end")
    for name in ("descriptors", "processes", "threads"):
        if getattr(last, name) > getattr(first, name) + 2:
            told.append(
                f"{name}: {getattr(first, name)} on day {first.day:.0f}, {getattr(last, name)} at the end"
            )
    if last.logs > 10.0:
        told.append(f"logs: {last.logs:.0f} MB")
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--checks", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--folder", type=Path, default=None, help="default: a folder of its own in /tmp")
    args = parser.parse_args()
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="watchdogd-soak-", dir=args.folder) as folder,
        training(Path(folder, "training")) as log,
    ):
        found = soak(Home(Path(folder, "home")), args.checks, args.days, args.minutes, log)
    cpu = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(
        f"{time.monotonic() - begin:.0f} s, {cpu:.0f} s of CPU; on {os.uname().sysname} {os.uname().release}"
    )
    told = growth(found)
    for line in told:
        print(f"grew: {line}")
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
