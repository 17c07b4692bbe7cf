"""Our own engine, round after round: the daemon's code with its real workers, on a clock that we turn."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import cpu
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.storage import Storage
from watchdogd.daemon.workers.worker_pool import WorkerPool
from watchdogd.home.layout import Home
from watchdogd.system.bounded_io import BoundedIO

HEAD = '[daemon]\ninterval = "{}"\n[channels.nowhere]\ntype = "statuslog"\npath = "logs/alerts.log"\n'
"""What every configuration here begins with: one channel, that a notification costs what it costs."""

PATIENCE = 120.0
"""Seconds that a round may take on a busy machine."""


def new_home(folder: Path, config: str, interval: str = "1m") -> Home:
    """A home with a configuration."""
    home = Home(folder / "home")
    home.make(None)
    home.write(home.config, HEAD.format(interval) + config)
    return home


@dataclass(slots=True)
class Rounds:
    """An engine whose clock goes on by a minute a round."""

    engine: Engine
    now: float
    seen: int = 0

    def one(self) -> float:
        """CPU seconds, of daemon and workers, of one round of everything that is due."""
        self.now += 60.0
        workers = cpu(os.getpid(), itself=False)
        begin = time.process_time()
        self.engine.reload()
        done = self.engine.round(patience=PATIENCE)
        daemon = time.process_time() - begin
        self.seen = 0 if done is None else len(done.observations)
        return daemon + cpu(os.getpid(), itself=False) - workers


@contextlib.contextmanager
def rounds(home: Home) -> Iterator[Rounds]:
    """The engine of a home, with its workers and its history."""
    setup = Setup.load(home)
    patient = BoundedIO(str(home.path), deadline=60.0)
    storage = Storage(setup.config.history.url, home, patient)
    workers = WorkerPool()
    turned: list[Rounds] = []
    start = time.time()
    engine = Engine(
        home,
        setup,
        storage.past(),
        workers=workers,
        patient=patient,
        storage=storage,
        clock=lambda: turned[0].now if turned else start,
    )
    turned.append(Rounds(engine, start))
    try:
        yield turned[0]
    finally:
        workers.close()
        engine.close()
        storage.close()
        patient.close()


@contextlib.contextmanager
def without_slurm() -> Iterator[None]:
    """As on a machine that has none: a run then is its log alone."""
    before = os.environ["PATH"]
    os.environ["PATH"] = "/nonexistent"
    try:
        yield
    finally:
        os.environ["PATH"] = before
