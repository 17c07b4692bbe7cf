"""One channel's way out: takes from its queue, sends, and notes what came of it, one step at a time."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError
from watchdogd.notify.desk import Trouble
from watchdogd.notify.herald import Herald
from watchdogd.notify.newest import Newest, joined, superseded
from watchdogd.notify.notification import incident_thread
from watchdogd.notify.outcomes import Outcomes
from watchdogd.notify.queue import Queue
from watchdogd.notify.retry import Health, after_failure, after_success, next_step, timely
from watchdogd.notify.sender import TakenError
from watchdogd.notify.threads import Threads
from watchdogd.system.clock import Moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from watchdogd.notify.desk import Delivered, Desk
    from watchdogd.notify.notification import Item, Message, Notification
    from watchdogd.notify.retry import Policy
    from watchdogd.notify.sender import Sender

log = logging.getLogger(__name__)

STORM = 20
"""Messages ready to go from which on it is a storm."""

TAKEN_AGAIN = 1.0
"""Seconds until it is looked at again what somebody else is just sending."""

HANGS = 120.0
"""Seconds after which a try that has not come back counts as failed: servers have their deadlines, but names
may be looked up without end."""


class Lane:
    """One channel. `step` is for one thread; all else may be called from any.

    `ticks` is a clock that nobody sets.
    """

    def __init__(
        self,
        channel: str,
        sender: Sender,
        policy: Policy,
        desk: Desk,
        clock: Callable[[], float],
        ticks: Callable[[], float],
    ) -> None:
        self.channel = channel
        self.sender = sender
        self._lock = threading.Condition()
        self._wakened = False
        self._policy = policy
        self._desk = desk
        self._clock = clock
        self._ticks = ticks
        self._looked = Moment(clock(), ticks())
        self._rate = policy.rates.get(channel)
        self._queue = Queue()
        self._health = Health()
        self._herald = Herald(channel, desk, policy)
        self._next_slot = 0.0
        self._threads = Threads()
        self._newest = Newest(standing=channel in policy.standing)
        self._failing: set[str] = set()
        self._learned: list[Delivered] = []
        self._outcomes = Outcomes(desk)
        self._trying: str | None = None
        self._trying_since: float | None = None

    def add(self, notifications: Iterable[Notification]) -> None:
        """Take these on."""
        with self._lock:
            now = self._now()
            for notification in notifications:
                self._note_some(notification)
                self._queue.add(timely(notification, now, self._policy))
        self.wake()

    def wake(self) -> None:
        """End its sleep, or let it not begin one."""
        with self._lock:
            self._wakened = True
            self._lock.notify()

    def sleep(self, seconds: float) -> None:
        """Until that time has passed (infinity: for ever) or something was added since the last step."""
        with self._lock:
            self._lock.wait_for(lambda: self._wakened, min(seconds, threading.TIMEOUT_MAX))

    def remember(self, outcome: Notification) -> None:
        """What became of it, in an earlier life or just now: what follows on its incidents hangs on that."""
        self._threads.note(outcome)
        if outcome.state in ("sent", "superseded") or outcome.receipt:
            self._newest.note(outcome.message)

    def _old(self, notification: Notification) -> frozenset[Item]:
        """What of it something newer has overtaken here."""
        return self._newest.overtaken(notification.message, late=bool(notification.receipt))

    def _note_some(self, notification: Notification) -> None:
        """Where some have it, nothing older may come to them."""
        if notification.receipt:
            self._newest.note(notification.message)

    def learn(self, delivered: Iterable[Delivered]) -> set[str]:
        """Somebody else delivered these on this channel: it works. Returns the keys that waited here."""
        delivered = list(delivered)
        with self._lock:
            self._learned += delivered
            waited = {each.key for each in delivered if self._queue.get(each.key)}
        self.wake()
        return waited

    def heard(self, message: Message) -> bool:
        """Whether this channel was told, or will be, of something that `message` tells of."""
        return self._is_told(message.threads)

    def waits_for_end(self, message: Message) -> bool:
        """Whether it tells the end of something of which this channel was told, or will be."""
        return self._is_told(incident_thread(number) for number in message.over)

    def _is_told(self, threads: Iterable[str]) -> bool:
        with self._lock:
            return any(self._threads.begun(each) or self._queue.awaits(each) for each in threads)

    def missed(self, message: Message) -> bool:
        """Whether nothing that `message` tells of came by this channel, though it should have."""
        return self._threads.lost(message) and not self.heard(message)

    @property
    def waiting(self) -> int:
        """How many are not delivered, or not yet marked as delivered."""
        with self._lock:
            return len(self._queue) + len(self._outcomes)

    @property
    def broken(self) -> bool:
        """Whether messages should go another way."""
        return self._health.broken(self._clock(), self._policy)

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong, or None."""
        health = self._health
        if health.since is None:
            return None
        return Trouble(
            self.channel, health.since, health.failure, len(self._queue), health.permanent, self.broken
        )

    def step(self) -> float:
        """Do what is due: at most one try. Returns when to come back; infinity: when something is added."""
        self._wakened = False
        now = self._now()
        self._take_in_learned(now)
        self._give_up_old(now)
        if self._opens_at <= now:
            self._try_one(now)
        now = self._now()
        if self._health.broken(now, self._policy):
            self._tell_broken(now)
            self._divert(now)
        self._outcomes.settle(now, storm=self._opens_at <= now and self._queue.ready() >= STORM)
        return self._next_time(now)

    def watch(self) -> None:
        """From another thread: a try that hangs is a failure, which is told, and other ways are gone."""
        hung = self._hung
        if not hung:
            return
        now = self._clock()
        self._health = replace(
            self._health,
            since=now - hung if self._health.since is None else self._health.since,
            rests_until=now + TAKEN_AGAIN,
            permanent=True,
            failure=f"a try has not come back for {HANGS:.0f} s: is its server's name looked up without end?",
        )
        self._tell_broken(now)
        self._divert(now)

    def flush(self) -> None:
        """Mark what is not marked yet, storm or not."""
        self._outcomes.flush()

    def succeed(self, before: Lane) -> None:
        """Go on as the channel of the same name did: with what was told there, and when the next may go."""
        self._threads, self._newest = before._threads, before._newest
        self._next_slot, self._looked = before._next_slot, before._looked
        self._herald.said_broken = before._herald.said_broken

    def leave(self) -> tuple[list[Notification], list[Notification]]:
        """What waits and what is not marked yet, both for somebody else; but not what is just being tried,
        unless that hangs."""
        with self._lock:
            kept = set() if self._hung else self._on_its_way
            left = [each for each in self._queue if each.key not in kept]
            for each in left:
                self._queue.done(each)
            return left, self._outcomes.leave()

    @property
    def _on_its_way(self) -> set[str | None]:
        """The keys of what is just being tried: one, and the ends that are told with it."""
        return {self._trying, *(end.key for end in self._queue.told_with(self._trying or ""))}

    @property
    def _hung(self) -> float:
        """Seconds for which the present try hangs; 0 where it may still come back."""
        since = self._trying_since
        took = 0.0 if since is None else self._ticks() - since
        return took if took >= HANGS else 0.0

    def _now(self) -> float:
        """The time. Where the clock was set, all that is remembered is moved with it: what has waited for a
        second has not waited for a day, and what waits for a second does not wait for hours."""
        with self._lock:
            before, self._looked = self._looked, Moment(self._clock(), self._ticks())
            if jump := self._looked.jump(before):
                log.info("channel %s: the clock was set by %.0f s", self.channel, jump)
                self._queue.shift(jump)
                self._health = self._health.shifted(jump)
                self._next_slot += jump
                self._outcomes.shift(jump)
                self._herald.shift(jump)
            return self._looked.wall

    @property
    def _opens_at(self) -> float:
        """From when on the next may be sent, as far as the channel goes."""
        return max(self._next_slot, self._health.rests_until)

    def _try_one(self, now: float) -> None:
        with self._lock:
            notification = self._queue.take(now)
            if notification is None:
                return
            self._trying, self._trying_since = notification.key, self._ticks()
            ends = [end for end in self._queue.told_with(notification.key) if not self._old(end)]
        overtaken = self._old(notification)
        if overtaken and len(overtaken) == len({*notification.message.items}):
            self._trying = self._trying_since = None
            self._finish([superseded(notification, "newer messages about the same came first")])
            return
        self._next_slot = now + 1 / self._rate if self._rate else 0.0
        whole = replace(
            notification,
            message=joined(notification.message, ends, overtaken),
            instead_of=tuple(end.key for end in ends),
        )
        try:
            self._try(notification, whole, now)
        except MemoryError:  # what came of it could not be noted: it may go twice, but it goes
            self._look_again(notification, now)
            raise
        finally:
            self._trying = self._trying_since = None

    def _try(self, notification: Notification, whole: Notification, now: float) -> None:
        """Send it `whole`, and note what came of it."""
        try:
            receipt = self.sender.send(whole, self._threads.roots(whole.message))
        except TakenError:
            self._look_again(notification, now)
        except DeliveryError as error:
            self._failed(notification, error, self._now())
        except Exception as error:  # a bug in one channel must not end it: it is retried and told
            log.exception("channel %s", self.channel)
            failure = DeliveryError(f"channel {self.channel} failed within: {type(error).__name__}")
            self._failed(notification, failure, self._now())
        else:
            self._sent(notification, receipt, self._now())

    def _look_again(self, notification: Notification, now: float) -> None:
        with self._lock:
            if self._queue.get(notification.key):  # else it went another way while it hung
                self._queue.again(replace(notification, next_try=now + TAKEN_AGAIN))

    def _sent(self, notification: Notification, receipt: str, now: float) -> None:
        sent = replace(
            notification,
            state="sent",
            attempts=notification.attempts + 1,
            sent_at=now,
            failure="",
            receipt=receipt,
        )
        self._finish([sent])
        self._works(now, outage=len(self._failing) > 1)

    def _works(self, now: float, *, outage: bool) -> None:
        """The channel took something; after an outage nothing is held against what it refused."""
        self._health = after_success(now)
        self._failing.clear()
        if outage:
            with self._lock:
                self._queue.forgive(now)
        self._herald.works(now)

    def _take_in_learned(self, now: float) -> None:
        with self._lock:
            learned, self._learned = self._learned, []
            once = {said.key: said for said in learned}  # while we hung in a try, it was heard in every round
            waiting = [(each, said) for said in once.values() if (each := self._queue.get(said.key))]
        self._finish(
            [
                replace(each, state="sent", sent_at=said.at, failure="", receipt=said.receipt)
                for each, said in waiting
            ]
        )
        if learned:
            self._works(now, outage=True)

    def _failed(self, notification: Notification, error: DeliveryError, now: float) -> None:
        with self._lock:
            waiting = self._queue.get(notification.key)  # its times were moved where the clock was set
        step = next_step(waiting or notification, error, now, self._policy, self._health)
        self._health = after_failure(self._health, error, step, now)
        log.warning("channel %s: %s", self.channel, error)
        if waiting is None:  # it went another way while it hung
            return
        self._failing.add(notification.key)
        if step.state == "waiting":
            with self._lock:
                if step.receipt:  # some have it: the others' later messages need not wait for the rest
                    self._note_some(step)
                    self._queue.step_aside(step)
                else:
                    self._queue.refused(step)
                self._outcomes.add([step])
            return
        self._finish([step])
        if step.state == "sent":
            self._herald.partly(step.failure, now)
        elif step.state == "failed":
            self._desk.divert([step], self._desk.ways(self.channel))
            self._herald.refused(step, now)
        elif step.state == "expired":
            self._herald.expired([step], now)

    def _finish(self, outcomes: Sequence[Notification]) -> None:
        """These leave the queue, and with them the ends that they outdated."""
        with self._lock:
            ends = {
                end.key: superseded(end, each.message.headline)
                for each in outcomes
                for end in self._queue.told_with(each.key)
            }
            for each in outcomes:
                ends.pop(each.key, None)
            outcomes = [*ends.values(), *outcomes]
            for outcome in outcomes:
                if self._queue.get(outcome.key):
                    self._queue.done(outcome)
            self._outcomes.add(outcomes)
        for outcome in outcomes:
            self.remember(outcome)

    def _give_up_old(self, now: float) -> None:
        with self._lock:
            old = self._queue.created_before(now - self._policy.expire)
        if old:
            expired = [replace(each, state="expired") for each in old]
            self._finish(expired)
            self._herald.expired(expired, now)

    def _tell_broken(self, now: float) -> None:
        if self._herald.said_broken:
            return
        with self._lock:
            waiting = list(self._queue)
        self._herald.broken(self._health.failure, waiting, now)

    def _divert(self, now: float) -> None:
        """While the channel is left in peace, messages go another way where there is one.

        They leave the queue first: the channel's own thread may just come back from a try that hung. What
        tells an end where the beginning came by this channel goes there as well, and by this one later; so
        does what is newer about the same, or that end would be the channel's last word.
        """
        if self._health.rests_until <= now or not (ways := self._desk.ways(self.channel)):
            return
        with self._lock:
            loud = [each for each in self._queue if not each.message.quiet]
            ends = self._ends(loud)
            gone = [each for each in loud if each.key not in ends]
            self._outcomes.drop({each.key for each in gone})
            for each in gone:
                self._queue.done(each)
                self.remember(replace(each, state="diverted"))
        try:
            self._desk.divert(gone, ways)
        except MemoryError:
            self.add(gone)
            raise
        self._desk.copy(list(ends.values()), ways)

    def _ends(self, waiting: Iterable[Notification]) -> dict[str, Notification]:
        """Those, by key, that tell an end where the beginning came by this channel, or stays for it, and
        those that are newer and speak of the same."""
        ends: dict[str, Notification] = {}
        kept: set[str] = set()
        for each in waiting:
            begun = any(self._threads.begun(incident_thread(one)) for one in each.message.over)
            if begun or not kept.isdisjoint(each.message.lines):
                ends[each.key] = each
                kept |= each.message.lines
        return ends

    def _next_time(self, now: float) -> float:
        health, policy = self._health, self._policy
        with self._lock:
            turn = self._queue.next_time(now)
            times = [self._queue.oldest + policy.expire]
        if turn is not None:
            times.append(max(turn, self._opens_at))
        if health.since is not None and now < health.since + policy.patience:
            times.append(health.since + policy.patience)
        if (due := self._outcomes.due) is not None:
            times.append(due)
        return min(times)
