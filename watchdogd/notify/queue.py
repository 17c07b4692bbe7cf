"""The order in which one channel's notifications go out. No clock, no I/O.

What belongs to one line (an incident, or one thing that a check speaks of) goes in the order in which it
came: a later message waits until the earlier one is delivered or given up. An end that waits while the same
thing is bad again is told with that, not by itself. Among lines, what was refused least goes first, so that
one message that a channel does not like holds no other up; what was refused by all of an outage is forgiven.
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
        self._stands: dict[str, frozenset[str]] = {}
        self._lines: dict[str, deque[str]] = defaultdict(deque)
        self._ends: dict[str, dict[str, None]] = defaultdict(dict)  # by line, the keys of ends alone
        self._told_with: dict[str, dict[str, None]] = {}
        self._heirs: dict[str, str] = {}
        self._taken = ""
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
        """At the end of its lines; ends that it outdates are told with it."""
        message = notification.message
        self._put(notification, message.lines)
        if message.ends:
            for line in message.lines:
                self._ends[line][notification.key] = None
            return
        outdated = {key for line in message.lines for key in self._ends.get(line, ())}
        outdated -= {self._taken} | self._heirs.keys()
        for end in map(self._waiting.__getitem__, outdated):
            if message.begins_anew(end.message):
                self._tell_with(end, notification)

    def step_aside(self, notification: Notification) -> None:
        """It is tried again, but no later one of its lines waits for it."""
        self._leave_lines(notification)
        self._put(notification, frozenset({f"alone {notification.key}"}))
        self.again(notification)

    def refused(self, notification: Notification) -> None:
        """As `again`, after those that were refused less often."""
        self._refusals[notification.key] += 1
        self.again(notification)

    def forgive(self, now: float) -> None:
        """It was the channel's fault: all that wait may go at once, in the order in which they came."""
        self._refusals.clear()
        for waiting in list(self._waiting.values()):
            self._offer(replace(waiting, next_try=min(waiting.next_try, now)))

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

    def told_with(self, key: str) -> list[Notification]:
        """The ends that are told with the one of that key."""
        return [self._waiting[end] for end in self._told_with.get(key, ())]

    def take(self, now: float) -> Notification | None:
        """The next that may be sent at `now`; it stays in its lines until `done` or `again`."""
        self._ripen(now)
        if not self._ready:
            return None
        key = self._taken = heapq.heappop(self._ready)[3]
        del self._offers[key]
        return self._waiting[key]

    def again(self, notification: Notification) -> None:
        """It was taken, and is to be tried at its `next_try`; an end may be outdated by now."""
        self._taken = ""
        self._offer(notification)
        if notification.message.ends:
            self._outdate(notification)

    def done(self, notification: Notification) -> None:
        """It leaves the queue, wherever it stood; those behind it move up."""
        key = notification.key
        self._taken = "" if key == self._taken else self._taken
        self._leave_lines(notification)
        self._stands.pop(key)
        del self._waiting[key]
        self._refusals.pop(key, None)
        for line in notification.message.lines if notification.message.ends else ():
            self._ends[line].pop(key, None)
            if not self._ends[line]:
                del self._ends[line]
        if heir := self._heirs.pop(key, ""):
            del self._told_with[heir][key]
        for end in self._told_with.pop(key, ()):
            del self._heirs[end]
            self._put(self._waiting[end], self._waiting[end].message.lines)
            self._outdate(self._waiting[end])

    def _put(self, notification: Notification, lines: frozenset[str]) -> None:
        self._oldest = min(self._oldest, notification.created_at)
        self._stands[notification.key] = lines
        for line in lines:
            self._lines[line].append(notification.key)
        self._offer(notification)

    def _offer(self, notification: Notification) -> None:
        key = notification.key
        self._waiting[key] = notification
        lines = self._stands[key]
        if lines and all(self._lines[line][0] == key for line in lines):
            number = self._offers[key] = next(self._numbers)
            heapq.heappush(self._later, (notification.next_try, number, key))

    def _leave_lines(self, notification: Notification) -> None:
        self._offers.pop(notification.key, None)
        for name in self._stands[notification.key]:
            line = self._lines[name]
            first = line[0] == notification.key
            line.remove(notification.key)
            if not line:
                del self._lines[name]
            elif first:
                self._offer(self._waiting[line[0]])
        self._stands[notification.key] = frozenset()

    def _outdate(self, end: Notification) -> None:
        """Where something that waits outdates it, it is told with the first such."""
        lines = (self._lines.get(item.line, ()) for item in end.message.items)
        waiting = (self._waiting[key] for line in lines for key in line)
        heir = next((each for each in waiting if each.message.begins_anew(end.message)), None)
        if heir is not None:
            self._tell_with(end, heir)

    def _tell_with(self, end: Notification, heir: Notification) -> None:
        self._leave_lines(end)
        self._told_with.setdefault(heir.key, {})[end.key] = None
        self._heirs[end.key] = heir.key

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
