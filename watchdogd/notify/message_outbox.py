"""Outbox: delivers waiting rows with one worker thread for each channel; and the relay.

Nothing is lost: a row is stored before it comes here, tried until it is delivered, diverted to a fallback
channel or expired, and only then marked in the history. After a crash between sending and marking it is sent
again, with the same key. A relay has its own outbox, on a machine with a way out, with or without a daemon.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from watchdogd.errors import HistoryError, WatchdogError
from watchdogd.notify.channel import Sender
from watchdogd.notify.channel_state import REMEMBERED, Policy
from watchdogd.notify.channel_worker import ChannelWorker, Rows, Store
from watchdogd.notify.delivery_plan import DeliveryPlan
from watchdogd.notify.locks import ChannelLock, Locks
from watchdogd.notify.notification import Notification
from watchdogd.system import startup
from watchdogd.system.times import SteadyClock

log = logging.getLogger(__name__)

HEAD_START = 0.02
"""Seconds for which the caller leaves the processor to the workers before it goes on."""
FAREWELL = 20.0
"""Seconds for a message in progress when a relay ends: more than a server's deadline."""
LOOK = 60.0
"""Maximum seconds between two looks at the clock while a channel waits: the clock may be set."""


@dataclass(frozen=True, slots=True)
class ChannelTrouble:
    """Channel that does not deliver: since when (seconds since the epoch), why, and its waiting rows.

    `broken`: its messages go to the fallback.
    """

    channel: str
    since: float
    failure: str
    waiting: int
    broken: bool


class Outbox:
    """Deliverer of notifications. All methods are thread-safe.

    `store` writes rows to the history (see Rows). `locks`: locks against other senders;
    None where there are none. `may_act`: whether this process still acts for home. `refresh` reads what ended
    on a channel meanwhile, once its lock is taken; None where nobody else writes the history.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        policy: Policy,
        store: Store,
        *,
        clock: SteadyClock | None = None,
        locks: Locks | None = None,
        may_act: Callable[[], bool] = lambda: True,
        refresh: Callable[[str], None] | None = None,
    ) -> None:
        self._locks = locks
        self._threads: dict[str, threading.Thread] = {}
        self._stop_at: float | None = None
        self.rows = Rows(senders, policy, store, clock or SteadyClock())
        self.workers = {
            name: ChannelWorker(name, sender, self.rows, ChannelLock(locks, name), may_act, refresh)
            for name, sender in senders.items()
        }

    def succeed(self, before: Outbox) -> None:
        """Take over the rows of the stopped outbox of an earlier configuration."""
        before.rows.configure(self.rows.names, self.rows.policy, self.rows.store)
        self.rows = before.rows
        for worker in self.workers.values():
            worker.rows = self.rows

    def start(self) -> str:
        """Start or replace threads of channels without one; return why some still have none, or empty.

        Add what waits in the history before.
        """
        for worker in self.workers.values():
            worker.watch()
        self.learn()
        self._rescue()
        self.rows.save(now=True)
        living = {name for name, thread in self._threads.items() if thread.is_alive()}
        silent = [name for name in self.workers if name not in living and not self._begin(name)]
        return f"no alerts go out on {', '.join(silent)}: {startup.NO_THREAD}" if silent else ""

    def _begin(self, name: str) -> bool:
        worker = self.workers[name]
        thread = threading.Thread(target=self._run, args=(worker,), name=f"channel {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads[name] = thread
        return True

    def _run(self, worker: ChannelWorker) -> None:
        """Run a worker until told to stop and nothing more can be done in time."""
        while True:
            try:
                wait = worker.step() - self.rows.clock.now - self.rows.clock.skew
            except Exception:  # a dead thread would silence the channel for good
                log.exception("channel %s", worker.name)
                wait = 5.0
            stop_at = self._stop_at
            idle = not self.rows.channel(worker.name).rows
            if stop_at is not None and (idle or time.monotonic() + max(wait, 0.0) >= stop_at):
                worker.sender.close()
                return
            if wait > 0:
                stirred = self.rows.stirred[worker.name]
                stirred.wait(None if idle and wait == math.inf else min(wait, LOOK))

    def add(self, notifications: Iterable[Notification]) -> None:
        """Deliver stored notifications that wait, knowing those that have ended; known keys are ignored."""
        fresh = self.rows.add(notifications)
        self._rescue()
        self.rows.save()
        if fresh and self._threads:
            self.rows.wait_for(fresh, HEAD_START)

    def learn(self) -> None:
        """Let the workers mark what a relay or a test message has delivered."""
        if not (self._locks and self._locks.stores):
            return
        with contextlib.suppress(OSError, WatchdogError):  # where home hangs, the next round does it
            for name in {each.channel for each in self._locks.attempt(self._locks.delivered)}:
                if name in self.workers:
                    self.workers[name].helped = True
                    self.rows.stirred[name].set()

    @property
    def troubles(self) -> tuple[ChannelTrouble, ...]:
        """Return the channels that do not deliver."""
        clock, policy = self.rows.clock, self.rows.policy
        found = []
        for name in self.workers:
            channel, health = self.rows.channel(name), self.rows.channel(name).health
            if health.since is not None:
                since, broken = health.since + clock.skew, health.broken(clock.now, policy)
                found.append(ChannelTrouble(name, since, health.failure, len(channel.rows), broken))
        return tuple(found)

    @property
    def waiting(self) -> int:
        """Number of messages that are undelivered, or not recorded as delivered."""
        return self.rows.waiting + self.owed

    @property
    def owed(self) -> int:
        """Number of delivered messages of which home has no record, since it could not be written."""
        return sum(worker.lock.owed for worker in self.workers.values())

    def stop(self, timeout: float, *, more: bool = True) -> None:
        """Deliver what can be delivered within `timeout` seconds, store it, and end even if a server hangs.

        The rest stays `waiting` in the history. Without `more` nothing new is begun.
        """
        deadline = time.monotonic() + timeout
        self._stop_at = deadline if more else time.monotonic()
        for name in self.workers:
            self.rows.stirred[name].set()
        for thread in self._threads.values():
            thread.join(max(0.0, deadline + 0.5 - time.monotonic()))
        for worker in self.workers.values():
            worker.stopped = True
        self.rows.save(now=True)

    def _rescue(self) -> None:
        """Divert the rows of removed channels, unless another process is sending them."""
        for name, channel in [*self.rows.channels.items()]:
            if name in self.workers or not channel.rows.keys() - channel.sending.keys():
                continue
            lock = ChannelLock(self._locks, name)
            try:
                delivered = lock.take()
            except (OSError, WatchdogError):
                continue
            with self.rows.lock:
                self.rows.learn(name, delivered)
                lost = [row for row in channel.rows.values() if row.key not in channel.sending]
                found = self.rows.situation(name).orphans(lost)
                self.rows.write(DeliveryPlan(channel.health, tuple(found)), name)
            lock.release(stored=self.rows.save())


class Recorded(Protocol):
    """History as the relay uses it (see Store). HistoryError."""

    def waiting(self) -> Sequence[Notification]: ...
    def notifications(self, *, since: float = 0.0, after: int = 0) -> Sequence[Notification]: ...


class Relay:
    """Sender of waiting notifications; it acknowledges deliveries in the lock files, for the daemon.

    It expires and diverts nothing. `told` is called for each delivered notification. HistoryError where the
    history cannot be read.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        policy: Policy,
        store: Recorded,
        locks: Locks,
        told: Callable[[Notification], None],
        clock: SteadyClock | None = None,
    ) -> None:
        self._store, self._told, self._locks = store, told, locks
        clock = clock or SteadyClock()
        policy = replace(policy, fallback=(), tell=None, expire=math.inf, merges=False)
        over = {each.key: each.receipt for each in locks.delivered() if not each.partly}
        past = store.notifications(since=clock.now - REMEMBERED)
        ended = [
            replace(row, state="sent", receipt=over[row.key]) if row.key in over else row
            for row in past
            if row.key in over or row.state != "waiting"
        ]
        self._settled = dict.fromkeys(senders, _settled_until(past, 0))
        self.outbox = Outbox(senders, policy, self._settle, clock=clock, locks=locks, refresh=self._refresh)
        self.outbox.add([*ended, *self._waiting()])

    def run(self, *, every: float, patience: float | None) -> None:
        """Deliver until nothing is left, `patience` seconds at most (None: for ever)."""
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
        """Return waiting, undelivered rows of these channels; tries by others do not count."""
        over = {each.key for each in self._locks.delivered() if not each.partly}
        ours = [
            row
            for row in self._store.waiting()
            if row.channel in self._settled
            and row.key not in over
            and not self.outbox.rows.channel(row.channel).has_ended(row.key)
        ]
        return [replace(row, attempts=0, next_try=0.0) for row in ours]

    def _refresh(self, channel: str) -> None:
        """Read what ended on the channel since its lock was taken by another."""
        ids = [row.id for row in [*self.outbox.rows.channel(channel).rows.values()] if row.id is not None]
        after = min([self._settled[channel], *(number - 1 for number in ids)])
        past = [row for row in self._store.notifications(after=after) if row.channel == channel]
        self.outbox.rows.add(row for row in past if row.state != "waiting")
        self._settled[channel] = max(self._settled[channel], _settled_until(past, after))

    def _settle(self, rows: Sequence[Notification]) -> None:
        for row in rows:
            if row.state == "sent":
                self._told(row)


def _settled_until(rows: Sequence[Notification], before: int) -> int:
    """Return the id up to which no row waits (rows in stored order); an ended row never changes."""
    ids = [row.id or 0 for row in rows]
    waiting = [row.id or 0 for row in rows if row.state == "waiting"]
    return min(waiting) - 1 if waiting else max(ids, default=before)
