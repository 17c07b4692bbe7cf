"""Rows of all channels, and the worker of one channel, which takes a message from its row to the sender.

A new row is in the history already. Changes are written to `Rows` and stored at once, or later where the
history cannot be written. `ChannelWorker.step` makes a plan from the rows, writes what it decides, takes the
channel's lock, and sends: each message goes to the sender, its delivery is noted in the channel's log, its
row is written. Then the rows are stored, the log is cleared and the lock is released. If the process is
killed on the way, the next one to take the lock finds the delivery in the log and marks the row, or finds
none and sends the message (again).
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from watchdogd.errors import DeliveryError, HistoryError, PartlyDeliveredError, WatchdogError
from watchdogd.notify.channel import Sender
from watchdogd.notify.channel_state import ChannelState, Health, Policy, timely
from watchdogd.notify.delivery_plan import Delivered, DeliveryPlan, Send, Situation
from watchdogd.notify.locks import ChannelLock, LockedError
from watchdogd.notify.notification import Message, Notification
from watchdogd.system.times import SteadyClock

Store = Callable[[Sequence[Notification]], None]

log = logging.getLogger(__name__)

AGAIN = 5.0
"""Seconds until a failed write to home is tried again."""
LOCKED_AGAIN = 1.0
"""Seconds until a channel on which another process sends is tried again."""
HANGS = 120.0
"""Seconds after which a hanging try counts as failed: a name lookup may have no deadline."""


class Rows:
    """Waiting messages in memory, and those not stored yet. Thread-safe.

    `lock` is held while a plan is made from the rows and written to them. `store` writes rows to the history,
    one call at a time; where it raises HistoryError they are stored later. Times are by `clock`, which is
    steady; rows are converted when they come and when they are stored. `names`: configured channels;
    `channels`: all known ones; `stirred`: set for a channel when rows came for it.
    """

    def __init__(self, names: Iterable[str], policy: Policy, store: Store, clock: SteadyClock) -> None:
        self.lock = threading.Condition(threading.RLock())
        self.clock = clock
        self.channels: dict[str, ChannelState] = {}
        self.stirred: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self.save_at = 0.0
        """Time at which unstored rows are stored again; 0 where all are stored."""
        self._unsaved: dict[str, Notification] = {}
        self._saving = threading.Lock()
        self.configure(names, policy, store)

    def configure(self, names: Iterable[str], policy: Policy, store: Store) -> None:
        """Use these channels from now on; the health of earlier ones is reset."""
        with self.lock:
            self.names, self.policy, self.store = tuple(names), policy, store
            for channel in self.channels.values():
                channel.health = Health(reported=channel.health.reported)

    def channel(self, name: str) -> ChannelState:
        """Return the state of a channel, created if necessary."""
        found = self.channels.get(name)
        return self.channels.setdefault(name, ChannelState(name)) if found is None else found

    def situation(self, name: str) -> Situation:
        """Return the situation from which a channel's plan is made."""
        channels = {each: self.channel(each) for each in dict.fromkeys((*self.names, name))}
        return Situation(channels, name, self.clock.now, self.policy, self.clock.skew)

    def add(self, rows: Iterable[Notification]) -> list[Notification]:
        """Add stored rows, oldest first; return those that wait and were not known before.

        A row that was delivered already is marked.
        """
        with self.lock:
            now, skew = self.clock.now, self.clock.skew
            fresh = []
            for each in rows:
                channel, row = self.channel(each.channel), _shifted(each, -skew)
                known = channel.ended[row.key] if channel.has_ended(row.key) else None
                if row.state != "waiting":
                    channel.end(known or row)
                elif known and row.key not in self._unsaved:
                    end = replace(row, state=known.state, sent_at=known.sent_at, receipt=known.receipt)
                    self._unsaved[row.key] = end
                elif not (known or row.key in channel.rows or row.key in self._unsaved):
                    fresh.append(timely(row, now, self.policy))
                    self._put(fresh[-1])
            for row in fresh:
                if row.channel in self.names and (copies := self.situation(row.channel).arrival(row)):
                    self.write(DeliveryPlan(self.channel(row.channel).health, tuple(copies)), row.channel)
        return fresh

    def write(self, plan: DeliveryPlan, name: str) -> None:
        """Write a plan's rows and the channel's health."""
        with self.lock:
            self.channel(name).health = plan.health
            for row in plan.rows:
                if row.state == "waiting":
                    self._put(row)
                else:
                    self.channel(row.channel).end(row)
                self._unsaved[row.key] = row
            if plan.rows:
                self.lock.notify_all()

    def learn(self, name: str, delivered: Iterable[Delivered]) -> bool:
        """Mark rows delivered by others; return whether there was something new."""
        with self.lock:
            channel = self.channel(name)
            mine = [
                replace(each, at=each.at - self.clock.skew)
                for each in delivered
                if not _is_known(each, channel)
            ]
            for each in mine:
                if not each.partly and each.key not in channel.rows:  # a test, or not read yet
                    old = channel.ended.get(each.key) or _unread(each)
                    channel.end(replace(old, state="sent", sent_at=each.at, receipt=each.receipt))
            if mine:
                self.write(self.situation(name).after_others(mine), name)
            return bool(mine)

    @property
    def waiting(self) -> int:
        """Number of rows of configured channels that are undelivered or unstored."""
        with self.lock:
            return len({key for name in self.names for key in self.channel(name).rows} | self._unsaved.keys())

    def _put(self, row: Notification) -> None:
        channel = self.channel(row.channel)
        if row.key not in channel.rows:
            self.stirred[row.channel].set()
        channel.put(row)

    def wait_for(self, rows: Sequence[Notification], seconds: float) -> None:
        """Wait until none of these rows waits, or the time has passed."""
        with self.lock:
            self.lock.wait_for(
                lambda: not any(row.key in self.channel(row.channel).rows for row in rows), seconds
            )

    def save(self, *, now: bool = False) -> bool:
        """Store unstored rows; False where some are left.

        Soon after a failure it is tried only with `now`.
        """
        with self._saving:
            with self.lock:
                rows, skew = list(self._unsaved.values()), self.clock.skew
            if not rows:
                return True
            if not now and self.clock.now < self.save_at:
                return False
            try:
                self.store([_shifted(row, skew) for row in rows])
            except HistoryError as error:
                if not self.save_at:
                    log.warning("what becomes of messages cannot be stored now, and is kept: %s", error)
                self.save_at = self.clock.now + AGAIN
                return False
            with self.lock:
                for row in rows:
                    if self._unsaved.get(row.key) is row:
                        del self._unsaved[row.key]
            self.save_at = 0.0
            return True


def _is_known(each: Delivered, channel: ChannelState) -> bool:
    if not each.partly:
        return channel.has_ended(each.key)
    row = channel.rows.get(each.key)
    return row is None or row.receipt == each.receipt


def _unread(each: Delivered) -> Notification:
    """Return a row for a delivery of which only the key is known."""
    message = Message("", "", "", "", thread=each.key, at=each.at)
    return Notification(each.key, each.channel, message, each.at)


def _shifted(row: Notification, seconds: float) -> Notification:
    """Return a row with its times shifted by so many seconds."""
    if not seconds:
        return row
    sent_at = None if row.sent_at is None else row.sent_at + seconds
    next_try = row.next_try and row.next_try + seconds
    return replace(row, created_at=row.created_at + seconds, next_try=next_try, sent_at=sent_at)


@dataclass
class ChannelWorker:
    """Worker of one channel. `step` is called by one thread; `stopped`: another outbox has taken over."""

    name: str
    sender: Sender
    rows: Rows
    lock: ChannelLock
    may_act: Callable[[], bool]
    refresh: Callable[[str], None] | None
    stopped: bool = False
    helped: bool = False
    """Whether others have delivered, which is in the channel's log."""

    @property
    def _channel(self) -> ChannelState:
        return self.rows.channel(self.name)

    def step(self) -> float:
        """Do the next steps of the plan; return when to call again, by the wall clock."""
        self.rows.stirred[self.name].clear()
        wake = self._look()
        if wake.sends or self.helped or self.lock.owed:
            wake = self._deliver(wake.sends)
        until = wake.until
        if not self.rows.save():
            until = min(until, self.rows.save_at)
        if self.lock.owed:
            until = min(until, self.rows.clock.now + AGAIN)
        return until + self.rows.clock.skew

    def _look(self) -> DeliveryPlan:
        """Write and store the present plan, except what is to be sent; return it."""
        if self.stopped:
            return DeliveryPlan(self._channel.health)
        with self.rows.lock:
            found = self.rows.situation(self.name).plan()
            self.rows.write(found, self.name)
        if found.rows:
            self.rows.save()
        return found

    def _deliver(self, sends: Sequence[Send]) -> DeliveryPlan:
        """Send under the channel's lock; return the plan afterwards."""
        try:
            if not self.may_act():
                return self._later()
            delivered = self.lock.take()
        except LockedError:
            return self._later()
        except (OSError, WatchdogError) as error:
            if sends:
                self._write(sends[0], DeliveryError(f"home cannot be written, so nothing is sent: {error}"))
            return self._look()
        self.helped = False
        try:
            went_well = self._send_all(sends, delivered)
        except Exception:  # unlike a kill, leave the channel to others
            self.lock.release(stored=False)
            raise
        self.lock.release(stored=self.rows.save())
        if went_well:
            until = max(self.rows.clock.now, self._channel.next_slot)
            return DeliveryPlan(self._channel.health, until=until)
        return self._look()

    def _later(self) -> DeliveryPlan:
        """Return a plan that sends nothing and looks again soon."""
        return replace(self._look(), until=self.rows.clock.now + LOCKED_AGAIN)

    def _send_all(self, sends: Sequence[Send], delivered: Sequence[Delivered]) -> bool:
        """Send until one fails or new rows come, skipping those others `delivered`. False: one failed."""
        news = self.rows.learn(self.name, delivered)
        if sends and self.refresh is not None:
            try:
                self.refresh(self.name)
            except HistoryError as error:
                self._write(sends[0], DeliveryError(f"whether it was sent cannot be looked up: {error}"))
                return False
            news = True
        for send in self._look().sends if news else sends:
            if not self._send(send):
                return False
            if self.rows.stirred[self.name].is_set() or self.stopped or not self.may_act():
                break
            if self.lock.owed:  # what follows could not be recorded either
                break
        return True

    def _send(self, send: Send) -> bool:
        """Send one message, acknowledge it, and write its row; False where it failed."""
        rate = self.rows.policy.rates.get(self.name)
        with self.rows.lock:
            left = self.rows.clock.now
            self._channel.sending |= {row.key: left for row in (send.row, *send.carried)}
            self._channel.next_slot = left + 1 / rate if rate else 0.0
            roots = self._channel.roots(send.message)
        try:
            outcome = self._try(replace(send.row, message=send.message), roots)
            self._acknowledge(send, outcome)
            self._write(send, outcome)
        finally:  # without a record it may be sent twice, but it is sent
            with self.rows.lock:
                for row in (send.row, *send.carried):
                    self._channel.sending.pop(row.key, None)
                if self.stopped:
                    self.rows.stirred[self.name].set()
        return isinstance(outcome, str)

    def _try(self, whole: Notification, roots: Sequence[Notification]) -> str | DeliveryError:
        try:
            return self.sender.send(whole, roots)
        except DeliveryError as error:
            log.warning("channel %s: %s", self.name, error)
            return error
        except Exception as error:  # a bug in one channel must not stop it: it is retried and reported
            log.exception("channel %s", self.name)
            return DeliveryError(f"channel {self.name} failed within: {type(error).__name__}")

    def _acknowledge(self, send: Send, outcome: str | DeliveryError) -> None:
        at = self.rows.clock.now + self.rows.clock.skew
        if isinstance(outcome, str):
            for row in (send.row, *send.carried):
                self.lock.acknowledge(Delivered(row.key, self.name, at, outcome))
        elif isinstance(outcome, PartlyDeliveredError):
            self.lock.acknowledge(Delivered(send.row.key, self.name, at, outcome.receipt, partly=True))

    def _write(self, send: Send, outcome: str | DeliveryError) -> None:
        with self.rows.lock:
            after = self.rows.situation(self.name).after_try(send, outcome)
            if self.stopped:  # the new configuration's channel may do better or worse
                rows = () if type(outcome) is DeliveryError else after.rows
                after = replace(after, rows=rows, health=self._channel.health)
            self.rows.write(after, self.name)

    def watch(self) -> None:
        """Count a hanging try as a failure, so that rows are diverted; called from another thread."""
        with self.rows.lock:
            now, health = self.rows.clock.now, self._channel.health
            hung = now - min(self._channel.sending.values(), default=now)
            if hung < HANGS:
                return
            self._channel.sending.clear()
            self._channel.health = replace(
                health,
                since=now - hung if health.since is None else health.since,
                rests_until=now + LOCKED_AGAIN,
                permanent=True,
                failure=f"a try has not come back for {HANGS:.0f} s: "
                "is its server's name looked up without end?",
            )
        self._look()
