"""The relay: delivers what waits in a shared home from a machine that has a way out, daemon or none."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from watchdogd.config.models import Config
from watchdogd.errors import HistoryError
from watchdogd.notify import senders as made
from watchdogd.notify.channel import Sender
from watchdogd.notify.channel_state import REMEMBERED
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Notification
from watchdogd.system.clock import SteadyClock

log = logging.getLogger(__name__)

FAREWELL = 20.0
"""Seconds for a message that is on its way at the end: a server's deadline and more."""


class Recorded(Protocol):
    """The history's notifications, as the relay needs them. HistoryError where they cannot be read."""

    def waiting(self) -> Sequence[Notification]:
        """Return those that are not delivered yet."""

    def notifications(self, *, since: float = 0.0, after: int = 0) -> Sequence[Notification]:
        """Return all from that time on, or that were stored after the one of that id."""


class Relay:
    """Sender of what waits; what came of it stands in the locks' files, which the daemon takes in.

    It expires and diverts nothing. `told` is called with each notification that was delivered. HistoryError
    where the history cannot be read.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        config: Config,
        store: Recorded,
        locks: Locks,
        told: Callable[[Notification], None],
        clock: SteadyClock | None = None,
    ) -> None:
        self._names = frozenset(senders)
        self._store = store
        self._told = told
        self._locks = locks
        clock = clock or SteadyClock()
        policy = replace(made.policy(config), fallback=(), tell=None, expire=math.inf, merges=False)
        waiting, past = self._waiting(), store.notifications(since=clock.now - REMEMBERED)
        taken = {row.key for row in waiting}
        receipts = {each.key: each.receipt for each in locks.delivered()}
        known = [
            replace(row, state="sent", receipt=receipts[row.key]) if row.key in receipts else row
            for row in past
            if row.key not in taken
        ]
        ended = [row for row in known if row.state != "waiting"]
        self._settled = dict.fromkeys(senders, _settled_until(past, 0))
        self.outbox = Outbox(
            senders, policy, self._settle, ended, clock=clock, locks=locks, refresh=self._refresh
        )
        self.outbox.add(waiting)

    def run(self, *, every: float, patience: float | None) -> None:
        """Deliver until nothing is left, `patience` seconds at most; where that is None, for ever.

        What is new is looked for each `every` seconds.
        """
        try:
            end = time.monotonic() + (patience or 0.0)
            while patience is None or (self.outbox.waiting and time.monotonic() < end):
                self.outbox.start()
                rests_until = time.monotonic() + every
                while time.monotonic() < rests_until and (patience is None or self.outbox.waiting):
                    time.sleep(0.05)
                self._fetch()
        finally:
            self.outbox.stop(FAREWELL, more=False)

    def _fetch(self) -> None:
        try:
            self.outbox.add(self._waiting())
        except (HistoryError, OSError) as error:
            log.warning("what waits cannot be looked up now: %s", error)

    def _waiting(self) -> list[Notification]:
        """Return what waits for our channels, and was delivered by nobody; tries of others do not count."""
        delivered = {each.key: each for each in self._locks.delivered()}
        return [
            replace(row, attempts=0, next_try=0.0)
            for row in self._store.waiting()
            if row.channel in self._names and (row.key not in delivered or delivered[row.key].partly)
        ]

    def _refresh(self, channel: str) -> None:
        """Take in what ended on the channel since it was looked up: we send alone now."""
        ids = [row.id for row in [*self.outbox.rows.channel(channel).rows.values()] if row.id is not None]
        after = min([self._settled[channel], *(number - 1 for number in ids)])
        past = [row for row in self._store.notifications(after=after) if row.channel == channel]
        self.outbox.rows.take_ended(row for row in past if row.state != "waiting")
        self._settled[channel] = max(self._settled[channel], _settled_until(past, after))

    def _settle(self, rows: Sequence[Notification]) -> None:
        for row in rows:
            if row.state == "sent":
                self._told(row)


def _settled_until(rows: Sequence[Notification], before: int) -> int:
    """Return the id up to which no row waits, of rows in the order of storing; what ended stays as it is."""
    ids = [row.id or 0 for row in rows]
    waiting = [row.id or 0 for row in rows if row.state == "waiting"]
    return min(waiting) - 1 if waiting else max(ids, default=before)
