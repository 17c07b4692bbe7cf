"""Wiring of an engine with its workers, history and channels, for the daemon, a tick or a check.

Where config.toml is broken the last good configuration is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from watchdogd.config import last_good_config
from watchdogd.daemon.chat_answers import ChatAnswers
from watchdogd.daemon.config_changes import not_taken
from watchdogd.daemon.dropins.crontab import submitting_nothing
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.storage import Storage
from watchdogd.daemon.trouble import Trouble, TroubleKind
from watchdogd.daemon.workers.worker_pool import WorkerPool
from watchdogd.errors import ConfigError, HistoryError
from watchdogd.history.models import Past
from watchdogd.home.layout import Home
from watchdogd.notify import senders
from watchdogd.notify.channel_state import REMEMBERED
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.system.bounded_io import BoundedIO


@dataclass(frozen=True, slots=True)
class Wiring:
    home: Home
    engine: Engine
    patient: BoundedIO
    storage: Storage
    past: Past
    locks: Locks


@contextmanager
def assembled(home: Home, setup: Setup, *, looking: bool = False) -> Iterator[Wiring]:
    """Yield an engine with its workers and history; close them at the end.

    `looking`: all checks are due, with their memories; nothing is written to home or submitted to Slurm.
    """
    if looking:
        setup = replace(setup, checks=tuple(submitting_nothing(check) for check in setup.checks))
    patient = BoundedIO(str(home.path))
    storage = Storage(setup.config.history.url, home, patient, owner=not looking)
    workers = WorkerPool()
    past = storage.past()
    if looking:
        past = replace(past, started={})
    engine = Engine(home, setup, past, workers=workers, patient=patient, storage=storage, dry=looking)
    try:
        yield Wiring(home, engine, patient, storage, past, Locks(home, patient.attempt))
    finally:
        workers.close()
        engine.close()
        with suppress(HistoryError):  # it hangs: it is left behind
            storage.close()
        patient.close()


def missing(parts: Wiring) -> str:
    """Return why a channel or the heartbeat cannot be set up (a missing secret), or empty."""
    config = parts.engine.setup.config
    try:
        senders.build(config, parts.home)
        heartbeat_of(config)
    except ConfigError as error:
        return str(error)
    return ""


def outbox_of(parts: Wiring, may_act: Callable[[], bool], *, go_on: bool = False) -> Outbox:
    """Return a new outbox for the present configuration.

    ConfigError where a secret is missing, unless `go_on` with the other channels.
    """
    config = parts.engine.setup.config
    made = senders.build(config, parts.home, go_on=go_on)
    policy = replace(senders.policy(config), command=parts.engine.setup.rules.command)
    outbox = Outbox(made, policy, parts.storage.settle, locks=parts.locks, may_act=may_act)
    with suppress(HistoryError):  # later messages then open threads of their own
        outbox.add(parts.storage.ended(REMEMBERED))
    return outbox


def threadless(outbox: Outbox) -> Trouble:
    """Start or replace the threads of channels without one; return which still have none, or empty."""
    return Trouble(outbox.start(), TroubleKind.PROCESSES)


def answers_of(parts: Wiring) -> ChatAnswers:
    """Return the answer readers for the present configuration."""
    return ChatAnswers(parts.engine.setup.config, parts.home, parts.patient, parts.storage.ended)


def setup_of(home: Home, *, go_on: bool) -> tuple[Setup, str]:
    """Return the setup, and what is wrong with config.toml. ConfigError if no usable one exists.

    `go_on`: use the last good configuration, without checks that are no longer valid.
    """
    try:
        return Setup.load(home), ""
    except ConfigError as error:
        config = last_good_config.last(home) if go_on else None
        if config is None:
            raise
        return Setup.of(config, home, whole=False), not_taken(home, error)
