"""Putting an engine together for a home: the daemon, a tick and a check all do it here."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.engine.crontab import submitting_nothing
from watchdogd.engine.engine import Engine
from watchdogd.engine.storage import Storage
from watchdogd.engine.workers import Workers
from watchdogd.errors import ConfigError, HistoryError, WatchdogError
from watchdogd.history.record import Past
from watchdogd.notify import senders
from watchdogd.notify.channel_state import REMEMBERED
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.system.bounded import BoundedIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from watchdogd.engine.setup import Setup
    from watchdogd.home.layout import Home


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts that belong to one engine."""

    home: Home
    engine: Engine
    patient: BoundedIO
    storage: Storage
    past: Past
    locks: Locks


@contextmanager
def assembled(home: Home, setup: Setup, *, looking: bool = False) -> Iterator[Assembly]:
    """Assemble an engine with its workers and its history; they are taken apart at the end.

    `looking`: as if no check had run before, so that all are due; what they remembered is there, nothing is
    made in home, and no drop-in is submitted to Slurm.
    """
    if looking:
        setup = replace(setup, checks=tuple(submitting_nothing(check) for check in setup.checks))
    patient = BoundedIO(str(home.path))
    storage = Storage(setup.config.history.url, home, patient, owner=not looking)
    workers = Workers()
    past = storage.past()
    if looking:
        past = replace(past, started={})
    engine = Engine(home, setup, past, workers=workers, patient=patient, storage=storage, dry=looking)
    try:
        yield Assembly(home, engine, patient, storage, past, Locks(home, patient.attempt))
    finally:
        workers.close()
        engine.close()
        with suppress(HistoryError):  # it hangs: it is left behind
            storage.close()
        patient.close()


def missing(parts: Assembly) -> str:
    """Which secret of the channels or the heartbeat is missing, or empty."""
    config = parts.engine.setup.config
    try:
        senders.build(config, parts.home)
        heartbeat_of(config)
    except ConfigError as error:
        return str(error)
    return ""


def outbox_of(parts: Assembly, may_act: Callable[[], bool], *, go_on: bool = False) -> Outbox:
    """Return the outbox of the present configuration, not started yet.

    ConfigError where a secret is missing, unless it shall `go_on` with the other channels.
    """
    config = parts.engine.setup.config
    made = senders.build(config, parts.home, go_on=go_on)
    try:
        ended = parts.storage.ended(REMEMBERED)
    except HistoryError:
        ended = []  # later messages then open threads of their own
    policy = replace(senders.policy(config), command=parts.engine.setup.rules.command)
    return Outbox(
        made,
        policy,
        parts.storage.settle,
        ended,
        locks=parts.locks,
        may_act=may_act,
    )


def learn(parts: Assembly, outbox: Outbox) -> None:
    """Take in what a relay delivered meanwhile, and that somebody's test message went well."""
    with suppress(OSError, WatchdogError):  # home is away: nothing is sent twice by that
        journals = parts.patient.attempt(parts.locks.journals)
        others = [journal for journal in journals if journal.holder.id != parts.locks.me.id]
        delivered = [each for journal in others for each in journal.delivered]
        if journals and outbox.learn(delivered):
            parts.patient.attempt(partial(parts.locks.remove, journals))
