"""Putting an engine together for a home: the daemon, a tick and a check all do it here."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.engine.engine import Engine
from watchdogd.engine.patient import Patient
from watchdogd.engine.storage import Storage
from watchdogd.engine.workers import Workers
from watchdogd.history.record import Past

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.engine.setup import Setup
    from watchdogd.home import Home


@contextmanager
def assembled(home: Home, setup: Setup, *, fresh: bool = False) -> Iterator[Engine]:
    """An engine with its workers and its history, taken apart at the end.

    `fresh`: as if no check had run before, so that all are due; what they remembered is there.
    """
    patient = Patient(str(home.path))
    storage = Storage(setup.config.history.url, home, patient)
    workers = Workers(hidden=setup.hidden)
    try:
        past = storage.past() if home.history.exists() or not fresh else Past()
        engine = Engine(
            home,
            setup,
            replace(past, started={}) if fresh else past,
            workers=workers,
            patient=patient,
            storage=storage,
        )
        yield engine
    finally:
        workers.close()
        storage.close()
        patient.close()
