"""One channel's worker: here a message is followed from its row to the wire.

`step` makes a plan from the rows, writes what it decides, takes the channel's lock, and sends: each message
is handed to the sender, its delivery acknowledged in the lock's file, its row written. Then the rows are
stored and the lock is released. Killed anywhere on that way, the next one who takes the lock finds either the
acknowledgement, and the row is marked; or none, and the message is sent (once more, where it was).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from watchdogd.errors import DeliveryError, HistoryError, PartlyDeliveredError, WatchdogError
from watchdogd.notify.channel import Sender
from watchdogd.notify.channel_state import ChannelState
from watchdogd.notify.delivery_plan import Delivered, DeliveryPlan, Send, after_try, plan
from watchdogd.notify.delivery_policy import Policy
from watchdogd.notify.delivery_queue import Rows
from watchdogd.notify.locks import ChannelLock, LockedError
from watchdogd.notify.notification import Notification

log = logging.getLogger(__name__)

LOCKED_AGAIN = 1.0
"""Seconds until a channel is looked at again on which somebody else is sending."""
HANGS = 120.0
"""Seconds after which a try that has not come back counts as failed: servers have their deadlines, but names
may be looked up without end."""


class ChannelWorker:
    """Worker of one channel. `step` is for one thread; all else may be called from any.

    `channels` are all that are configured. `may_act` and `refresh` are as the outbox says.
    """

    def __init__(
        self,
        name: str,
        sender: Sender,
        policy: Policy,
        rows: Rows,
        channels: Mapping[str, ChannelState],
        lock: ChannelLock,
        may_act: Callable[[], bool],
        refresh: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self.sender = sender
        self.stopped = False
        self._policy = policy
        self._rows = rows
        self._channels = channels
        self._channel = channels[name]
        self._lock = lock
        self._may_act = may_act
        self._refresh = refresh

    def step(self) -> float:
        """Do what the plan says is next. Returns when to come back, by the wall clock."""
        self._rows.calm(self.name)
        wake = self._look()
        if wake.sends:
            wake = self._deliver(wake.sends)
        until = wake.until
        if not self._rows.save():
            until = min(until, self._rows.save_at or until)
        return until + self._rows.clock.skew

    def _look(self) -> DeliveryPlan:
        """Return the plan of this moment, written and stored but for what is to be sent."""
        if self.stopped:
            return DeliveryPlan(self._channel.health)
        with self._rows.lock:
            found = plan(self._channels, self.name, self._rows.clock.now, self._policy, self._rows.clock.skew)
            self._rows.write(found, self.name)
        if found.rows:
            self._rows.save()
        return found

    def _deliver(self, sends: Sequence[Send]) -> DeliveryPlan:
        """Send under the channel's lock; returns what is to be done after that."""
        try:
            if not self._may_act():
                return self._later()
            delivered = self._lock.take()
        except LockedError:
            return self._later()
        except (OSError, WatchdogError) as error:
            self._write(sends[0], DeliveryError(f"home cannot be written, so nothing is sent: {error}"))
            return self._look()
        try:
            went_well = self._send_all(sends, delivered)
        except Exception:  # unlike a kill, it leaves the channel to others
            self._lock.release(stored=False)
            raise
        self._lock.release(stored=self._rows.save())
        if went_well:
            return DeliveryPlan(
                self._channel.health, until=max(self._rows.clock.now, self._channel.next_slot)
            )
        return self._look()

    def _send_all(self, sends: Sequence[Send], delivered: Sequence[Delivered]) -> bool:
        """Send until one fails or rows come; not what others have `delivered`. False: one failed."""
        news = self.learn(delivered)
        if self._refresh is not None:
            try:
                self._refresh(self.name)
            except HistoryError as error:
                self._write(sends[0], DeliveryError(f"whether it was sent cannot be looked up: {error}"))
                return False
            news = True
        for send in self._look().sends if news else sends:
            if not self._send(send):
                return False
            if self._rows.is_stirred(self.name) or self.stopped or not self._may_act():
                break
        return True

    def _send(self, send: Send) -> bool:
        """Hand one message to the sender, acknowledge it, and write its row; False where it failed."""
        rate = self._policy.rates.get(self.name)
        with self._rows.lock:
            left = self._rows.clock.now
            self._channel.sending |= {row.key: left for row in (send.row, *send.carried)}
            self._channel.next_slot = self._rows.clock.now + 1 / rate if rate else 0.0
            roots = self._channel.notified.roots(send.message)
        try:
            outcome = self._try(send.whole, roots)
            self._acknowledge(send, outcome)
            self._write(send, outcome)
        except Exception:  # what came of it could not be noted: it may go twice, but it goes
            self._forget(send)
            raise
        return isinstance(outcome, str)

    def _try(self, whole: Notification, roots: Sequence[Notification]) -> str | DeliveryError:
        try:
            return self.sender.send(whole, roots)
        except DeliveryError as error:
            log.warning("channel %s: %s", self.name, error)
            return error
        except Exception as error:  # a bug in one channel must not end it: it is retried and reported
            log.exception("channel %s", self.name)
            return DeliveryError(f"channel {self.name} failed within: {type(error).__name__}")

    def _acknowledge(self, send: Send, outcome: str | DeliveryError) -> None:
        at = self._rows.clock.now + self._rows.clock.skew
        if isinstance(outcome, str):
            for row in (send.row, *send.carried):
                self._lock.acknowledge(row.key, outcome, at)
        elif isinstance(outcome, PartlyDeliveredError):
            self._lock.acknowledge(send.row.key, outcome.receipt, at, partly=True)

    def _write(self, send: Send, outcome: str | DeliveryError) -> None:
        with self._rows.lock:
            after = after_try(self._channels, send, outcome, self._rows.clock.now, self._policy)
            if self.stopped:  # how it does for us says nothing of how it does for the next configuration
                rows = () if type(outcome) is DeliveryError else after.rows
                after = replace(after, rows=rows, health=self._channel.health)
            self._rows.write(after, self.name)
            self._forget(send)

    def _forget(self, send: Send) -> None:
        with self._rows.lock:
            for row in (send.row, *send.carried):
                self._channel.sending.pop(row.key, None)
            if self.stopped:
                self._rows.stir(self.name)

    def _later(self) -> DeliveryPlan:
        """Return a plan to look again soon: nothing can be sent now."""
        return replace(self._look(), until=self._rows.clock.now + LOCKED_AGAIN)

    def learn(self, delivered: Sequence[Delivered]) -> bool:
        """Mark what somebody else delivered on this channel; returns whether that is news."""
        return self._rows.learn(self._channels, self.name, delivered, self._policy)

    def watch(self) -> None:
        """Count a try that hangs as a failure, and go other ways; called from another thread."""
        with self._rows.lock:
            since = min(self._channel.sending.values(), default=None)
            hung = 0.0 if since is None else self._rows.clock.now - since
            if hung < HANGS:
                return
            now, health = self._rows.clock.now, self._channel.health
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
