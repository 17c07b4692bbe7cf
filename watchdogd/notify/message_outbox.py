"""The outbox: delivers the rows that wait, by a worker a channel, each in a thread of its own.

Nothing is lost: a row is stored before it comes here, tried until it is delivered, diverted to a fallback
channel or expired, and only then marked in the store. After a crash between sending and marking it is sent
once more, with the same key.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from watchdogd.errors import WatchdogError
from watchdogd.notify.channel import Sender
from watchdogd.notify.channel_worker import ChannelWorker, Rows, Store
from watchdogd.notify.delivery_plan import Delivered, DeliveryPlan, arrival, orphans
from watchdogd.notify.delivery_timing import Health, Policy
from watchdogd.notify.locks import ChannelLock, Locks
from watchdogd.notify.notification import Notification
from watchdogd.system import startup
from watchdogd.system.clock import SteadyClock

log = logging.getLogger(__name__)

HEAD_START = 0.02
"""Seconds that whoever brings messages leaves the processor to the workers: else the round, which goes on
writing, would have each message wait for its turn a dozen times."""
LOOK = 60.0
"""Seconds after which a channel that waits looks at the clock at the latest: it may have been set."""


@dataclass(frozen=True, slots=True)
class ChannelTrouble:
    """A channel that does not deliver: since when (seconds since the epoch), why, and how many wait.

    `broken`: no longer for a moment only, so that messages go another way.
    """

    channel: str
    since: float
    failure: str
    waiting: int
    permanent: bool
    broken: bool


class Outbox:
    """Delivers notifications. Every method may be called from any thread.

    store    keeps rows, by key, in the order given, new ones too. What is `sent`, `failed` or `expired` stays
             so; what was `diverted` may come back. Called from the workers' threads, one call at a time; may
             raise HistoryError: the rows are then kept and stored later.
    ended    rows of earlier lives that wait no more: threads hang on those that were sent, and ends are told
             where beginnings were.
    locks    keep others from sending what we send; None where nobody else can be at work.
    may_act  whether we (still) act for home.
    refresh  takes in what ended on a channel meanwhile, once its lock is ours; None where nobody else stores.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        policy: Policy,
        store: Store,
        ended: Iterable[Notification] = (),
        *,
        clock: SteadyClock | None = None,
        locks: Locks | None = None,
        may_act: Callable[[], bool] = lambda: True,
        refresh: Callable[[str], None] | None = None,
    ) -> None:
        self._senders, self._policy = senders, policy
        self._locks, self._may_act, self._refresh = locks, may_act, refresh
        self._threads: dict[str, threading.Thread] = {}
        self._stop_at: float | None = None
        self._employ(Rows(store, clock or SteadyClock()))
        self.rows.take_ended(ended)

    def _employ(self, rows: Rows) -> None:
        """Make a worker for each channel."""
        self.rows = rows
        self._channels = {name: rows.channel(name) for name in self._senders}
        shared = self._policy, rows, self._channels
        self.workers = {
            name: ChannelWorker(name, sender, *shared, self._lock_of(name), self._may_act, self._refresh)
            for name, sender in self._senders.items()
        }

    def succeed(self, before: Outbox) -> None:
        """Take over the rows of an outbox of an earlier configuration, which was stopped.

        What it is just sending is marked as such in them, until that try is over or hangs.
        """
        before.rows.store = self.rows.store
        for channel in [*before.rows.channels.values()]:
            channel.health = Health(reported=channel.health.reported)
        self._employ(before.rows)

    def start(self) -> str:
        """Begin to deliver, or go on where a worker's thread died or hangs; why some have none, or empty."""
        for worker in self.workers.values():
            worker.watch()
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
        """Run a worker's thread: step until told to stop and nothing more can be done in time."""
        while True:
            try:
                wait = worker.step() - self.rows.clock.now - self.rows.clock.skew
            except Exception:  # a thread that ended would be a channel that is silent for ever
                log.exception("channel %s", worker.name)
                wait = 5.0
            stop_at = self._stop_at
            idle = not self.rows.channel(worker.name).rows
            if stop_at is not None and (idle or time.monotonic() + max(wait, 0.0) >= stop_at):
                worker.sender.close()
                return
            if wait > 0:
                self.rows.wait(worker.name, None if idle and wait == math.inf else min(wait, LOOK))

    def add(self, notifications: Iterable[Notification]) -> None:
        """Deliver these, which are stored already; one whose key was here before is left alone.

        What is for a channel that is configured no more goes to the fallback, or else to all channels.
        """
        with self.rows.lock:
            fresh = self.rows.add(notifications, self._policy)
            for row in fresh:
                channel = self._channels.get(row.channel)
                if channel and (copies := arrival(self._channels, row, self._policy)):
                    self.rows.write(DeliveryPlan(channel.health, tuple(copies)), row.channel)
        self._rescue()
        self.rows.save()
        if fresh and self._threads:
            self.rows.wait_for(fresh, HEAD_START)

    def learn(self, delivered: Sequence[Delivered]) -> bool:
        """Mark what somebody else delivered. Returns whether all that is known is stored."""
        for name in self._channels:
            mine = [each for each in delivered if each.channel == name]
            if self.rows.learn(self._channels, name, mine, self._policy):
                self.rows.stir(name)
        elsewhere = {each.channel for each in delivered} - self.workers.keys()
        return self.rows.save(now=True) and not any(self.rows.channel(name).rows for name in elsewhere)

    @property
    def waiting(self) -> int:
        """Number of rows that are not delivered, or not marked as delivered."""
        return self.rows.waiting(self._channels)

    @property
    def troubles(self) -> tuple[ChannelTrouble, ...]:
        """Channels that do not deliver."""
        now, skew = self.rows.clock.now, self.rows.clock.skew
        return tuple(
            ChannelTrouble(
                name,
                health.since + skew,
                health.failure,
                len(channel.rows),
                health.permanent,
                health.broken(now, self._policy),
            )
            for name, channel in self._channels.items()
            if (health := channel.health).since is not None
        )

    def stop(self, timeout: float, *, more: bool = True) -> None:
        """Deliver what can be delivered within `timeout` seconds, mark it, and end.

        What is left stays `waiting` in the store. Returns in time also where a server hangs. Without `more`
        nothing is begun any more: what is on its way has so long.
        """
        deadline = time.monotonic() + timeout
        self._stop_at = deadline if more else time.monotonic()
        for name in self.workers:
            self.rows.stir(name)
        for thread in self._threads.values():
            thread.join(max(0.0, deadline + 0.5 - time.monotonic()))
        for worker in self.workers.values():
            worker.stopped = True
        self.rows.save(now=True)

    def _rescue(self) -> None:
        """Divert what waits for a channel that is no more, unless somebody is just sending it."""
        for name, channel in [*self.rows.channels.items()]:
            if name in self._channels or not channel.rows.keys() - channel.sending.keys():
                continue
            lock = self._lock_of(name)
            try:
                delivered = lock.take()
            except (OSError, WatchdogError):
                continue
            with self.rows.lock:
                self.rows.learn({**self._channels, name: channel}, name, delivered, self._policy)
                lost = [row for row in channel.rows.values() if row.key not in channel.sending]
                found = orphans(self._channels, lost, self.rows.clock.now, self._policy)
                self.rows.write(DeliveryPlan(channel.health, tuple(found)), name)
            lock.release(stored=self.rows.save())

    def _lock_of(self, name: str) -> ChannelLock:
        return self._locks.of(name) if self._locks else ChannelLock()
