"""Putting an engine together for a home: the daemon, a tick and a check all do it here."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchdogd.engine.crontab import submitting_nothing
from watchdogd.engine.engine import Engine
from watchdogd.engine.patient import Patient
from watchdogd.engine.storage import Storage
from watchdogd.engine.workers import Workers
from watchdogd.errors import HistoryError
from watchdogd.history.record import Past
from watchdogd.notify import channels
from watchdogd.notify.leased import Leased
from watchdogd.notify.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watchdogd.engine.setup import Setup
    from watchdogd.home import Home

REMEMBERED = 14 * 86400.0
"""Seconds for which delivered messages are looked up again, so that later ones hang on their threads."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts that belong to one engine."""

    home: Home
    engine: Engine
    patient: Patient
    storage: Storage
    past: Past


@contextmanager
def assembled(home: Home, setup: Setup, *, looking: bool = False) -> Iterator[Assembly]:
    """An engine with its workers and its history, taken apart at the end.

    `looking`: as if no check had run before, so that all are due; what they remembered is there, nothing is
    made in home, and no drop-in is submitted to Slurm.
    """
    if looking:
        setup = replace(setup, checks=tuple(submitting_nothing(check) for check in setup.checks))
    patient = Patient(str(home.path))
    storage = Storage(setup.config.history.url, home, patient, owner=not looking)
    workers = Workers(hidden=setup.hidden)
    past = storage.past()
    if looking:
        past = replace(past, started={})
    engine = Engine(home, setup, past, workers=workers, patient=patient, storage=storage, dry=looking)
    try:
        yield Assembly(home, engine, patient, storage, past)
    finally:
        workers.close()
        engine.close()
        with suppress(HistoryError):  # it hangs: it is left behind
            storage.close()
        patient.close()


def outbox_of(parts: Assembly, may_act: Callable[[], bool]) -> Outbox:
    """The outbox of the present configuration, not started yet. ConfigError where a secret is missing."""
    config = parts.engine.setup.config
    senders = channels.build(config, parts.home)
    try:
        sent = parts.storage.sent(REMEMBERED)
    except HistoryError:
        sent = []  # later messages then open threads of their own
    leased = {name: Leased(sender, may_act) for name, sender in senders.items()}
    return Outbox(leased, channels.policy(config), parts.storage.settle, sent)
