"""The order in which one channel's notifications go out. No clock, no I/O.

What belongs to one thread (an incident) goes in the order in which it came: a later message waits until
the earlier one is delivered or given up. Among threads, what was refused least goes first, so that one
message that a channel does not like holds no other up; what was refused by all of an outage is forgiven.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.notify.notification import Notification


class Queue:
    """The waiting notifications of one channel."""

    def __init__(self) -> None:
        self._waiting: dict[str, Notification] = {}
        self._oldest = math.inf  # none that waits was created before this
        self._threads: dict[str, frozenset[str]] = {}
        self._lines: dict[str, deque[str]] = defaultdict(deque)
        # Heaps of offers; an offer holds as long as its number is the last given to its key.
        self._later: list[tuple[float, int, str]] = []
        self._ready: list[tuple[int, float, int, str]] = []
        self._offers: dict[str, int] = {}
        self._refusals: Counter[str] = Counter()
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Notification]:
        """All that wait, in the order in which they came."""
        return iter(list(self._waiting.values()))

    def add(self, notification: Notification) -> None:
        """At the end of its threads."""
        self._put(notification, notification.message.threads)

    def step_aside(self, notification: Notification) -> None:
        """It is tried again, but no later one of its threads waits for it."""
        self.done(notification)
        self._put(notification, frozenset({f"alone {notification.key}"}))

    def refused(self, notification: Notification) -> None:
        """As `again`, after those that were refused less often."""
        self._refusals[notification.key] += 1
        self.again(notification)

    def forgive(self, now: float) -> None:
        """It was the channel's fault: all that wait may go at once, in the order in which they came."""
        self._refusals.clear()
        for waiting in list(self._waiting.values()):
            self.again(replace(waiting, next_try=min(waiting.next_try, now)))

    def shift(self, seconds: float) -> None:
        """The clock was set by so much: all that waits has waited, and has to wait, as long as before."""
        self._waiting = {
            key: replace(each, created_at=each.created_at + seconds, next_try=each.next_try + seconds)
            for key, each in self._waiting.items()
        }
        self._oldest += seconds
        self._later = [(at + seconds, number, key) for at, number, key in self._later]
        self._ready = [(refused, at + seconds, number, key) for refused, at, number, key in self._ready]

    def get(self, key: str) -> Notification | None:
        """The one of that key, where it waits."""
        return self._waiting.get(key)

    def awaits(self, thread: str) -> bool:
        """Whether one of that thread waits."""
        return thread in self._lines

    def _put(self, notification: Notification, threads: frozenset[str]) -> None:
        self._oldest = min(self._oldest, notification.created_at)
        self._threads[notification.key] = threads
        for thread in threads:
            self._lines[thread].append(notification.key)
        self.again(notification)

    def take(self, now: float) -> Notification | None:
        """The next that may be sent at `now`; it stays in its threads until `done` or `again`."""
        self._ripen(now)
        if not self._ready:
            return None
        key = heapq.heappop(self._ready)[3]
        del self._offers[key]
        return self._waiting[key]

    def again(self, notification: Notification) -> None:
        """It is to be tried at its `next_try`."""
        self._waiting[notification.key] = notification
        if all(self._lines[thread][0] == notification.key for thread in self._threads[notification.key]):
            number = self._offers[notification.key] = next(self._numbers)
            heapq.heappush(self._later, (notification.next_try, number, notification.key))

    def done(self, notification: Notification) -> None:
        """It leaves the queue, wherever it stood; those behind it move up."""
        del self._waiting[notification.key]
        self._offers.pop(notification.key, None)
        self._refusals.pop(notification.key, None)
        for thread in self._threads.pop(notification.key):
            line = self._lines[thread]
            first = line[0] == notification.key
            line.remove(notification.key)
            if not line:
                del self._lines[thread]
            elif first:
                self.again(self._waiting[line[0]])

    def created_before(self, time: float) -> list[Notification]:
        """Those that were created at `time` or earlier."""
        if self._oldest > time:
            return []
        self._oldest = min((each.created_at for each in self if each.created_at > time), default=math.inf)
        return [each for each in self if each.created_at <= time]

    @property
    def oldest(self) -> float:
        """Before this none that waits was created; infinite where none waits."""
        return self._oldest if self._waiting else math.inf

    def next_time(self, now: float) -> float | None:
        """When one can be taken, `now` at the earliest; None where all wait for others that were taken."""
        self._ripen(now)
        if self._ready:
            return now
        return self._later[0][0] if self._later else None

    def ready(self) -> int:
        """About how many could go at once."""
        return len(self._ready)

    def _ripen(self, now: float) -> None:
        """Bring what may be sent to `_ready`, and drop offers that no longer hold from both tops."""
        while self._later and (self._later[0][0] <= now or not self._holds(*self._later[0][1:])):
            _, number, key = heapq.heappop(self._later)
            if self._holds(number, key):
                waiting = self._waiting[key]
                heapq.heappush(self._ready, (self._refusals[key], waiting.created_at, number, key))
        while self._ready and not self._holds(*self._ready[0][2:]):
            heapq.heappop(self._ready)

    def _holds(self, number: int, key: str) -> bool:
        return self._offers.get(key) == number
