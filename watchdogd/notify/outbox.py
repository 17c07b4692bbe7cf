"""The stored outbox: what was stored with a round is delivered, by a thread a channel, and marked.

Nothing is lost: a notification is stored before it comes here, tried until it is delivered, diverted to a
fallback channel or expired, and only then marked, through `settle`. After a crash between sending and
marking it is sent once more, with the same key.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import HistoryError
from watchdogd.notify.herald import ABOUT
from watchdogd.notify.lane import Lane
from watchdogd.notify.notification import Message, Notification, addressed
from watchdogd.system import shortage
from watchdogd.system.text import excerpt, one_line, verbatim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from watchdogd.notify.desk import Delivered, Trouble
    from watchdogd.notify.retry import Policy
    from watchdogd.notify.sender import Sender

log = logging.getLogger(__name__)

LOOK = 60.0
"""Seconds after which a channel looks at the clock at the latest: it may have been set."""
KEYS = 50_000
"""Keys that are remembered, so that none is sent twice in one process."""


class Outbox:
    """Delivers notifications. Every method may be called from any thread.

    settle   stores what became of notifications: by key, in the order given, new ones too. What is `sent`,
             `failed` or `expired` stays so; what was `diverted` may come back. Called from the channels'
             threads, one call at a time; may raise HistoryError: the outcome is then kept and stored later.
    ticks    a clock that nobody sets; without it `clock` is taken for one.
    ended    what became of notifications of earlier lives whose incidents may go on: threads hang on those
             that were sent, and ends are told where beginnings were.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        policy: Policy,
        settle: Callable[[Sequence[Notification]], None],
        ended: Iterable[Notification] = (),
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] | None = None,
    ) -> None:
        self._policy = policy
        self._store = settle
        self._clock = clock
        self._settling = threading.Lock()
        self._owed: list[Notification] = []
        self._stored = True
        self._known: OrderedDict[str, None] = OrderedDict()
        self._knowing = threading.Lock()
        self.lanes = {
            name: Lane(name, sender, policy, self, clock, ticks or clock) for name, sender in senders.items()
        }
        self._threads: dict[str, threading.Thread] = {}
        self._before: list[Outbox] = []
        self._stop_at: float | None = None
        for notification in ended:
            if notification.state != "diverted":
                self._new(notification.key)
            if notification.channel in self.lanes:
                self.lanes[notification.channel].remember(notification)

    def start(self) -> str:
        """Begin to deliver, or go on where a channel's thread died or hangs; why some have none, or empty."""
        self._watch()
        if self._owed:
            self.settle(())
        living = self._living
        silent = [name for name in self.lanes if name not in living and not self._begin(name)]
        return f"no thread for channel {', '.join(silent)}: {shortage.THREAD}" if silent else ""

    def succeed(self, before: Outbox) -> None:
        """Take over from the outbox of an earlier configuration, which was stopped.

        What it is just sending it keeps until that try is over: each `start` looks for it.
        """
        for key in list(before._known):
            self._new(key)
        for name in self.lanes.keys() & before.lanes.keys():
            self.lanes[name].succeed(before.lanes[name])
        self._before.append(before)
        self._take_over()

    def _take_over(self) -> None:
        """From those before us: what they have left, and what is not marked yet."""
        for before in list(self._before):
            ended = not before._living and not before._before
            left, outcomes = before.leave()
            with self._settling:
                self._owed += outcomes
            for each in left:
                self._new(each.key)
            self._distribute(left)
            if ended:
                self._before.remove(before)

    def leave(self) -> tuple[list[Notification], list[Notification]]:
        """What waits, and what is not marked yet, both for somebody else."""
        self._watch()
        with self._settling:
            outcomes, self._owed = self._owed, []
        left: list[Notification] = []
        for lane in self.lanes.values():
            waiting, unmarked = lane.leave()
            left += waiting
            outcomes += unmarked
        return left, outcomes

    def _watch(self) -> None:
        """Whether tries hang, here and with those before us."""
        for lane in self.lanes.values():
            lane.watch()
        self._take_over()

    @property
    def _living(self) -> set[str]:
        """The channels that have a thread."""
        return {name for name, thread in self._threads.items() if thread.is_alive()}

    def _begin(self, name: str) -> bool:
        lane = self.lanes[name]
        thread = threading.Thread(target=self._run, args=(lane,), name=f"channel {name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._threads[name] = thread
        return True

    def add(self, notifications: Iterable[Notification]) -> None:
        """Deliver these, which are stored already; a key that was here before is left alone.

        What is for a channel that is configured no more goes to the fallback, or else to all channels.
        """
        owed = {each.key for each in list(self._owed) if each.state != "waiting"}  # stored they still wait
        fresh = self._deliver(each for each in notifications if each.key not in owed)
        for each in fresh:
            if each.message.over and not each.message.quiet:
                self.copy([each], self._heard(each), "this channel told what it ends")

    def _deliver(self, notifications: Iterable[Notification]) -> list[Notification]:
        """Put those that are new into their channels' queues; returns them."""
        fresh = [each for each in notifications if self._new(each.key)]
        self._distribute(fresh)
        return fresh

    def _distribute(self, fresh: Sequence[Notification]) -> None:
        for name, lane in self.lanes.items():
            mine: list[Notification] = []
            missed: list[Notification] = []
            threads: set[str] = set()
            for each in (each for each in fresh if each.channel == name):
                message = each.message
                late = message.ends and threads.isdisjoint(message.threads) and lane.missed(message)
                (missed if late else mine).append(each)
                threads |= message.threads
            lane.add(mine)
            for each in missed:
                self._follow(each)
        self._rescue([each for each in fresh if each.channel not in self.lanes])

    def learn(self, delivered: Sequence[Delivered]) -> set[str]:
        """Somebody else delivered these. Returns the keys that waited here: they will be settled."""
        waited: set[str] = set()
        for name, lane in self.lanes.items():
            if mine := [each for each in delivered if each.channel == name]:
                waited |= lane.learn(mine)
        return waited

    @property
    def waiting(self) -> int:
        """How many are not delivered, or not marked as delivered."""
        return sum(lane.waiting for lane in self.lanes.values()) + len(self._owed)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """The channels that do not deliver."""
        found = [lane.trouble for lane in self.lanes.values()]
        return tuple(trouble for trouble in found if trouble)

    def stop(self, timeout: float, *, more: bool = True) -> None:
        """Deliver what can be delivered within `timeout` seconds, mark it, and end.

        What is left stays `waiting` in the store. Returns in time also where a server hangs. Without `more`
        nothing is begun any more: what is on its way has so long.
        """
        deadline = time.monotonic() + timeout
        self._stop_at = deadline if more else time.monotonic()
        for lane in self.lanes.values():
            lane.wake()
        for thread in self._threads.values():
            thread.join(max(0.0, deadline + 0.5 - time.monotonic()))
        if self._owed:
            self.settle(())

    def settle(self, outcomes: Sequence[Notification]) -> bool:
        """Store outcomes, after those that are still owed; False where that failed."""
        with self._settling:
            try:
                self._store([*self._owed, *outcomes])
            except HistoryError as error:
                if self._stored:
                    log.warning("what becomes of messages cannot be stored now, and is kept: %s", error)
                self._stored = False
                return False
            self._owed = []
            self._stored = True
            return True

    def ways(self, channel: str) -> Sequence[str]:
        """The fallback channels that work."""
        return [
            name
            for name in self._policy.fallback
            if name != channel and name in self.lanes and not self.lanes[name].broken
        ]

    def tell(self, channel: str, status: str, text: str, details: str, now: float) -> None:
        """Say something about a channel on the others that work."""
        text = one_line(text)
        name = f"{ABOUT}{hashlib.sha256(f'{channel} {text} {now}'.encode()).hexdigest()[:16]}"
        target = one_line(self._policy.name, 100)
        body = f"{verbatim(excerpt(details, 25, 4000))}\n\n" if details else ""
        message = Message(
            headline=f"[{status}] {target}: {text}",
            body=f"{body}Look and try with:\n{verbatim(f'{self._policy.command} outbox')}\n"
            f"{verbatim(f'{self._policy.command} notify --test {channel}')}",
            status=status,
            target=target,
            thread=name,
            at=now,
        )
        told = [addressed(message, other, now, name) for other in self._others(channel)]
        self._store_first(told)
        self._deliver(told)

    def _others(self, channel: str) -> list[str]:
        if self._policy.tell is None:
            return []
        names = [name for name in self._policy.tell if name in self.lanes] or list(self.lanes)
        return [name for name in names if name != channel and not self.lanes[name].broken]

    def divert(self, waiting: Sequence[Notification], ways: Sequence[str]) -> None:
        """`waiting` as diverted, and its copies on their way; both stored in one transaction.

        Where the same message is on its way there anyway, or was sent there, it needs no copy.
        """
        if not ways:
            return
        done = [each if each.state != "waiting" else replace(each, state="diverted") for each in waiting]
        copies = self._copies(waiting, ways)
        self._store_first([*done, *copies])
        self._forget(each.key for each in done if each.state == "diverted")
        self._deliver(copies)

    def _follow(self, end: Notification) -> None:
        """An end whose beginning did not come by its own channel goes where the beginning went."""
        if ways := self._heard(end):
            self.divert([end], ways)
        else:
            self._store_first([replace(end, state="expired", failure="what it ends was never told there")])

    def copy(self, notifications: Sequence[Notification], ways: Sequence[str], why: str = "") -> None:
        """Send them those ways as well, where they are not on their way there or were sent there."""
        copies = self._copies(notifications, ways, why)
        self._store_first(copies)
        self._deliver(copies)

    def _copies(
        self, notifications: Iterable[Notification], ways: Sequence[str], why: str = ""
    ) -> list[Notification]:
        """Those that are not on their way there, or sent there, already."""
        copies = [_copy(each, way, why) for each in notifications for way in ways]
        return [copy for copy in copies if copy.key not in self._known]

    def _heard(self, end: Notification) -> list[str]:
        """The other channels that told of what it ends, or will: its route may be another since."""
        if self._policy.tell is None:
            return []
        others = (lane for name, lane in self.lanes.items() if name != end.channel)
        return [lane.channel for lane in others if lane.waits_for_end(end.message)]

    def _rescue(self, homeless: Sequence[Notification]) -> None:
        """What waits for a channel that is no more."""
        ways = [name for name in self._policy.fallback if name in self.lanes] or self._others("")
        if not ways:  # a later configuration may have some
            self._forget(each.key for each in homeless)
        elif homeless:
            missing = [replace(each, failure=f"there is no channel {each.channel}") for each in homeless]
            self.divert(missing, ways)

    def _store_first(self, notifications: Sequence[Notification]) -> None:
        """Store before sending; where that fails, send all the same, and store later."""
        if notifications and not self.settle(notifications):
            with self._settling:
                self._owed += notifications

    def _new(self, key: str) -> bool:
        """Whether this key is here for the first time."""
        with self._knowing:
            if key in self._known:
                return False
            self._known[key] = None
            if len(self._known) > KEYS:
                self._known.popitem(last=False)
            return True

    def _forget(self, keys: Iterable[str]) -> None:
        """What went another way may come back, where the other way breaks before it is delivered."""
        with self._knowing:
            for key in keys:
                self._known.pop(key, None)

    def _run(self, lane: Lane) -> None:
        """A channel's thread: steps until it is told to stop and nothing more can be done in time."""
        while True:
            try:
                wait = lane.step() - self._clock()
            except Exception:  # a thread that ended would be a channel that is silent for ever
                log.exception("channel %s", lane.channel)
                wait = 5.0
            stop_at = self._stop_at
            if stop_at is not None and (not lane.waiting or time.monotonic() + max(wait, 0.0) >= stop_at):
                lane.flush()
                lane.sender.close()
                return
            if wait > 0:
                lane.sleep(min(wait, LOOK))


def _copy(notification: Notification, way: str, why: str = "") -> Notification:
    """The same message on another channel, saying why it comes there."""
    message, channel = notification.message, notification.channel
    failure = (
        f"does not deliver: {notification.failure}" if notification.failure else "did not deliver before"
    )
    said = f"Sent here because {why or f'channel {channel} {failure}'}"
    return addressed(
        replace(message, body=f"{said}\n\n{message.body}"),
        way,
        notification.created_at,
        notification.key.removesuffix(f"@{channel}"),
    )
