"""The rows of all channels: what waits, in memory, and what of it is not stored yet.

A row is written here first and stored at once; where the history cannot be written it is kept, and stored
when the disk is back. Times are by a clock that nobody sets: rows are converted as they come and as they are
stored.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import HistoryError
from watchdogd.notify.channel_state import ChannelState
from watchdogd.notify.delivery_plan import after_others
from watchdogd.notify.delivery_policy import timely

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from watchdogd.notify.delivery_plan import Delivered, DeliveryPlan
    from watchdogd.notify.delivery_policy import Policy
    from watchdogd.notify.notification import Notification
    from watchdogd.system.clock import SteadyClock

    Store = Callable[[Sequence[Notification]], None]

log = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds until rows that could not be stored are stored again."""


class Rows:
    """For all threads; `lock` is held while a plan is made from the rows and written to them.

    `store` keeps rows in the history, by key: what is `sent`, `failed` or `expired` there stays so. All
    times are by `clock`.
    """

    def __init__(self, store: Store, clock: SteadyClock) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.store = store
        self.clock = clock
        self._channels: dict[str, ChannelState] = {}
        self._stirred: set[str] = set()
        self._unsaved: dict[str, Notification] = {}
        self._saving = threading.Lock()
        self._save_at = 0.0
        self._complained = False

    # ---------------------------------------------------------------- rows

    def channel(self, name: str) -> ChannelState:
        """Return one channel, a new one where it is not known yet."""
        with self.lock:
            return self._channels.setdefault(name, ChannelState(name))

    @property
    def channels(self) -> dict[str, ChannelState]:
        """Channels that are known, those that are configured no more as well."""
        with self.lock:
            return dict(self._channels)

    def remember(self, ended: Iterable[Notification]) -> None:
        """Take in rows that ended in an earlier life, oldest first."""
        with self.lock:
            for row in ended:
                self.channel(row.channel).notified.note(row)

    def add(self, rows: Iterable[Notification], policy: Policy) -> list[Notification]:
        """Take in rows that are stored and wait; returns those that are new here."""
        with self.lock:
            now, skew = self.clock.now, self.clock.skew
            fresh = [timely(_shifted(row, -skew), now, policy) for row in rows if self._is_new(row)]
            for row in fresh:
                self._put(row)
            self.lock.notify_all()
        return fresh

    def write(self, plan: DeliveryPlan, name: str) -> None:
        """Write the rows of a plan of one channel, and its health."""
        with self.lock:
            self.channel(name).health = plan.health
            for row in plan.rows:
                if row.state == "waiting":
                    self._put(row)
                else:
                    channel = self.channel(row.channel)
                    channel.drop(row.key)
                    channel.notified.note(row)
                self._unsaved[row.key] = row
            self.lock.notify_all()

    def learn(
        self, channels: Mapping[str, ChannelState], name: str, delivered: Iterable[Delivered], policy: Policy
    ) -> bool:
        """Mark what somebody else delivered on one of `channels`: it works. Returns whether that is news."""
        with self.lock:
            skew, channel = self.clock.skew, channels[name]
            mine = [replace(each, at=each.at - skew) for each in delivered]
            for each in mine:
                if not each.partly and each.key not in channel.rows:
                    channel.notified.know(each.key)
            if mine:
                self.write(after_others(channels, name, mine, self.clock.now, policy), name)
            return bool(mine)

    def settled(self, row: Notification) -> None:
        """Take in a row that ended elsewhere, as the history has it: it is not stored again."""
        with self.lock:
            channel = self.channel(row.channel)
            channel.drop(row.key)
            if not channel.notified.knows(row.key):
                channel.notified.note(row)

    def waiting(self, names: Iterable[str]) -> int:
        """Return how many rows of these channels are not delivered, or not stored as they are."""
        with self.lock:
            return len({key for name in names for key in self.channel(name).rows} | self._unsaved.keys())

    def _is_new(self, row: Notification) -> bool:
        return row.key not in self._unsaved and not self.channel(row.channel).knows(row.key)

    def _put(self, row: Notification) -> None:
        channel = self.channel(row.channel)
        if row.key not in channel.rows:
            self._stirred.add(row.channel)
        channel.put(row)
        channel.notified.note(row)

    # ---------------------------------------------------------------- waiting for rows

    def stir(self, name: str) -> None:
        """Have the worker of a channel look at its rows now."""
        with self.lock:
            self._stirred.add(name)
            self.lock.notify_all()

    def calm(self, name: str) -> None:
        """Forget that a channel's worker is to look: it is about to."""
        with self.lock:
            self._stirred.discard(name)

    def is_stirred(self, name: str) -> bool:
        """Return whether rows came for a channel since its worker last looked."""
        return name in self._stirred

    def wait(self, name: str, seconds: float) -> None:
        """Wait until that time has passed (infinity: for ever), or rows came for the channel."""
        with self.lock:
            self.lock.wait_for(lambda: name in self._stirred, min(seconds, threading.TIMEOUT_MAX))

    def wait_for(self, rows: Sequence[Notification], seconds: float) -> None:
        """Wait until none of these waits any more, or that time has passed."""
        with self.lock:
            self.lock.wait_for(
                lambda: not any(row.key in self.channel(row.channel).rows for row in rows), seconds
            )

    # ---------------------------------------------------------------- the store

    @property
    def save_at(self) -> float | None:
        """Time at which rows are to be stored again; None where all are."""
        return self._save_at if self._unsaved else None

    def save(self, *, now: bool = False) -> bool:
        """Store what is not stored yet; False where some is left.

        Soon after a failure it is tried only if it must be `now`.
        """
        with self._saving:
            with self.lock:
                rows, skew = list(self._unsaved.values()), self.clock.skew
            if not rows:
                return True
            if not now and self.clock.now < self._save_at:
                return False
            try:
                self.store([_shifted(row, skew) for row in rows])
            except HistoryError as error:
                self._save_at = self.clock.now + AGAIN
                if not self._complained:
                    log.warning("what becomes of messages cannot be stored now, and is kept: %s", error)
                self._complained = True
                return False
            with self.lock:
                for row in rows:
                    if self._unsaved.get(row.key) is row:
                        del self._unsaved[row.key]
            self._complained, self._save_at = False, 0.0
            return True


def _shifted(row: Notification, seconds: float) -> Notification:
    """Return a row by a clock that is so many seconds ahead."""
    if not seconds:
        return row
    sent_at = None if row.sent_at is None else row.sent_at + seconds
    next_try = row.next_try and row.next_try + seconds
    return replace(row, created_at=row.created_at + seconds, next_try=next_try, sent_at=sent_at)
