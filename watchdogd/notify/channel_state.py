"""One channel as it stands: its policy and health, the rows that wait for it, what it was told. Pure.

A later message hangs on the first of its thread; an end goes where its beginning went; and what comes after
something newer about the same subject, by a detour or to a slow recipient, is not sent any more: an end would
then say that all is well while it is bad again.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import takewhile
from typing import TypeVar

from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.notification import URGENT, Item, Message, Notification, incident_thread

REMEMBERED = 14 * 86400.0
"""Seconds for which ended rows are read again after a restart."""
THREADS = 2000
"""Threads of which the first message is remembered; the newest."""
KEPT = 10_000
"""Subjects, ended incidents and keys that are remembered; the newest."""


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Quiet hours of each day by the clocks of `zone`; over midnight where `end` is the earlier.

    `excepted` are the severities that go out all the same.
    """

    begin: time
    end: time
    zone: tzinfo
    excepted: frozenset[str] = frozenset()

    def window(self, at: float) -> tuple[float, float] | None:
        """Return the quiet hours that a time falls into, in seconds since the epoch, or None."""
        today = datetime.fromtimestamp(at, self.zone).date()
        for day in (today - timedelta(days=1), today):
            begin = self._at(day, self.begin)
            end = self._at(day + timedelta(days=self.end <= self.begin), self.end)
            if begin <= at < end:
                return begin, end
        return None

    def _at(self, day: date, clock: time) -> float:
        return datetime.combine(day, clock, self.zone).timestamp()

    def waits(self, row: Notification, notified: Notified) -> bool:
        """Return whether a row waits for the end of quiet hours.

        An end does not, where something of the same did not; nor does what nobody acknowledged.
        """
        message = row.message
        words = {message.word} | (notified.words(message) if message.ends else set())
        return words.isdisjoint({URGENT, *self.excepted})


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of delivery. Times in seconds.

    `first` and `longest` bound the wait between two tries; after a permanent error a channel is left in
    peace for `pause`. A channel that has failed for `patience` is broken: its messages go to `fallback`.
    After `expire` a message is given up. `rates` are messages a second by channel (None: as fast as it
    goes). What is reported about channels has the daemon's `name` as TARGET and goes to `tell` (empty: to
    all; None: to nobody). `standing` are the channels on which what was told stands until it is told to be
    over. `command` is how the verbs are called for this home. `quiet` are the quiet hours by channel; what
    waited for their end, and more than `digest_above` messages of one round, are told as one, unless somebody
    else `merges` them.
    """

    expire: float = 86_400.0
    fallback: tuple[str, ...] = ()
    tell: tuple[str, ...] | None = ()
    rates: Mapping[str, float | None] = field(default_factory=dict)
    standing: frozenset[str] = frozenset()
    quiet: Mapping[str, QuietHours] = field(default_factory=dict)
    merges: bool = True
    digest_above: float = math.inf
    name: str = "watchdogd"
    command: str = "watchdogd"
    first: float = 2.0
    longest: float = 300.0
    pause: float = 900.0
    patience: float = 600.0


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a channel: failures in a row since when, until when it is left in peace, and why.

    `permanent`: the last failure was such that trying again soon is of no use. `worked_at` is when it last
    took a message. `failing` are the keys that it refused since then: where there are several, the fault is
    not in the message. `reported`: it was reported as broken. `partly_again_at`: until then it is not
    reported again that some recipients never get anything.
    """

    failures: int = 0
    since: float | None = None
    rests_until: float = 0.0
    permanent: bool = False
    failure: str = ""
    worked_at: float | None = None
    failing: frozenset[str] = frozenset()
    reported: bool = False
    partly_again_at: float = 0.0

    def broken(self, now: float, policy: Policy) -> bool:
        """Return whether messages should go another way."""
        return self.permanent or (self.since is not None and now - self.since >= policy.patience)


class Notified:
    """Record of what came by the channel, or should have: folded from its rows in the order of their ends.

    `keys` are those of rows that ended, `facts` what was told, with whatever message, `begun` by thread the
    first message and all words, `_incidents` by subject the newest incident.
    """

    def __init__(self) -> None:
        self.keys = _Newest[None](KEPT)
        self.facts = _Newest[None](KEPT)
        self.begun = _Newest[tuple[Notification, frozenset[str]]](THREADS)
        self._lost = _Newest[None](THREADS)
        self._incidents = _Newest[int](KEPT)

    def note(self, row: Notification) -> None:
        """Take in what became of a row; one that some recipients have counts as told."""
        told = row.state == "sent" or bool(row.receipt)
        if row.state not in ("waiting", "diverted"):  # what was diverted may come back
            self.keys[row.key] = None
        if row.state != "waiting" and (told or row.state != "superseded"):
            self._note_threads(row, told=told)
        if told or row.state == "superseded":
            self._note_items(row.message)

    def _note_threads(self, row: Notification, *, told: bool) -> None:
        # Later messages hang on it, not on what it said, of which thousands would take megabytes.
        bare = replace(row, message=replace(row.message, body="", items=()))
        for thread in row.message.threads:
            if told:
                root, words = self.begun.get(thread, (bare, frozenset()))
                self.begun[thread] = root, words | {row.message.word}
            else:
                self._lost[thread] = None

    def _note_items(self, message: Message) -> None:
        for item in message.items:
            self.facts[item.fact] = None
            if item.incident is not None:
                self._incidents[item.line] = max(item.incident, self._incidents.get(item.line, 0))
                self._incidents.move_to_end(item.line)

    def lost(self, incident: int | None) -> bool:
        """Return whether nothing of an incident came, though it should have."""
        thread = incident_thread(incident)
        return thread in self._lost and thread not in self.begun

    def without_lost(self, message: Message) -> Message:
        """Return a message without updates of what never came: at a pager they would open it."""
        items = tuple(item for item in message.items if not (item.quiet and self.lost(item.incident)))
        return message if items == message.items else replace(message, items=items)

    def words(self, message: Message) -> set[str]:
        """Return the words of all that was told in its threads."""
        told = (self.begun[thread][1] for thread in message.threads if thread in self.begun)
        return set[str]().union(*told)

    def roots(self, message: Message) -> list[Notification]:
        """Return the first messages of its threads, its own thread's first, each once."""
        threads = [message.thread, *sorted(message.threads - {message.thread})]
        roots = [self.begun[thread][0] for thread in threads if thread in self.begun]
        return list({root.key: root for root in roots}.values())

    def overtaken(self, row: Notification, *, standing: bool) -> frozenset[Item]:
        """Return those of a row's items that something newer has overtaken.

        `standing`: what was told here stands until it is told to be over, incident by incident. What some
        have already is older than all that was told since. Quiet messages stay in their threads: there they
        mislead nobody.
        """
        if row.message.quiet:
            return frozenset()
        late = bool(row.receipt) and not standing
        return frozenset(
            item for item in row.message.items if self._is_overtaken(item, late=late, standing=standing)
        )

    def _is_overtaken(self, item: Item, *, late: bool, standing: bool) -> bool:
        if item.incident is None:
            return False
        if not item.ended and f"end {item.incident}" in self.facts:
            return True
        newer = item.incident < self._incidents.get(item.line, 0)
        return newer and (late or (item.ended and not standing))


class ChannelState:
    """One channel as it stands: the rows that wait for it, in order; what it was notified of; its health.

    `sending` are the keys that are on their way, with the time at which they left; `next_slot` is when its
    rate lets the next one go.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[str, Notification] = {}
        self.notified = Notified()
        self.health = Health()
        self.sending: dict[str, float] = {}
        self.next_slot = 0.0
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """By thread and subject, the keys of the rows that wait, in order: a plan looks at what comes next
        alone, however many wait."""

    def put(self, row: Notification) -> None:
        """Take in a row that waits: a new one comes last. Some may have it already."""
        if row.key not in self.rows:
            for line in _lines(row.message):
                self._keys[line][row.key] = None
        self.rows[row.key] = row
        self.notified.note(row)

    def end(self, row: Notification) -> None:
        """Take in what became of a row that waits no more."""
        self.drop(row.key)
        self.notified.note(row)

    def drop(self, key: str) -> None:
        """Remove a row that waits no more."""
        row = self.rows.pop(key, None)
        for line in _lines(row.message) if row else ():
            del self._keys[line][key]
            if not self._keys[line]:
                del self._keys[line]

    def knows(self, key: str) -> bool:
        """Return whether the row of that key waits, or ended here."""
        return key in self.rows or key in self.notified.keys

    def told_of(self, incident: int | None) -> bool:
        """Return whether it was told of an incident, or will be."""
        thread = incident_thread(incident)
        return thread in self.notified.begun or thread in self._keys

    def missed(self, row: Notification) -> bool:
        """Return whether an end, or an update, that waits is the first word here, since others were lost."""
        message = row.message
        if not (message.ends or (message.quiet and message.incidents)):
            return False
        alone = all(len(self._keys.get(thread, ())) < 2 for thread in message.threads)
        lost = all(map(self.notified.lost, message.incidents))
        return alone and lost and message.thread not in self.notified.begun

    def tells(self, item: Item) -> bool:
        """Return whether it told the same, or will."""
        return bool(item.fact) and (item.fact in self.notified.facts or item.fact in self._keys)

    def is_head(self, row: Notification, out: Container[str]) -> bool:
        """Return whether a row that waits is next in each of its lines, and is told by itself.

        `out` are the keys of rows that do not count. What some recipients have already waits for no other,
        and no other for it.
        """
        return bool(row.receipt) or not (self._is_behind(row, out) or self.told_with(row, out))

    def _is_behind(self, row: Notification, out: Container[str]) -> bool:
        for keys in (self._keys[line] for line in row.message.lines):
            if not self.sending.keys().isdisjoint(keys):
                return True
            for before in (self.rows[key] for key in takewhile(row.key.__ne__, keys) if key not in out):
                if not before.receipt and not self.told_with(before, out):
                    return True
        return False

    def told_with(self, end: Notification, out: Container[str]) -> str:
        """Return the key of the row with which an end is told, since each thing is bad again; or nothing."""
        if end.receipt or not end.message.ends:
            return ""
        rows = self._with_lines_of(end, out)
        return next((row.key for row in rows if row.message.begins_anew(end.message)), "")

    def carried(self, row: Notification, out: Container[str]) -> list[Notification]:
        """Return the ends that are told with a row."""
        return [end for end in self._with_lines_of(row, out) if self.told_with(end, out) == row.key]

    def _with_lines_of(self, row: Notification, out: Container[str]) -> Iterator[Notification]:
        """Yield the rows that tell of the same things as one, but what is on its way."""
        keys = dict.fromkeys(key for item in row.message.items for key in self._keys.get(item.line, ()))
        return (self.rows[key] for key in keys if key not in out and key not in self.sending)


def _lines(message: Message) -> frozenset[str]:
    """Return by what a row that waits is found: where it stands in line, and what it tells."""
    return message.lines.union(item.fact for item in message.items)


class _Newest(OrderedDict[str, Value]):
    """The newest of what was put in, up to a number."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._length:
            self.popitem(last=False)


# ---------------------------------------------------------------- after a try


def after_failed_try(
    row: Notification, error: DeliveryError, now: float, policy: Policy, health: Health | None = None
) -> Notification:
    """Return the row after a failed try: when it is tried again, or that it is given up.

    `health` is the channel's before the failure: where it fails for all, all wait longer; where it took
    others since this one was refused for good, the fault is in this one.
    """
    health = health or Health()
    failed = replace(row, attempts=row.attempts + 1, failure=str(error))
    if isinstance(error, PartlyDeliveredError):
        failed = replace(failed, receipt=error.receipt)
        if error.permanent:
            return replace(failed, state="sent", sent_at=now)
    if now - row.created_at >= policy.expire:
        return replace(failed, state="expired")
    took_others = health.worked_at is not None and health.worked_at >= row.next_try
    if error.permanent and row.attempts > 0 and took_others:
        return replace(failed, state="failed")
    return replace(failed, next_try=now + _wait(failed, error, health.failures, policy))


def timely(row: Notification, now: float, policy: Policy) -> Notification:
    """Return a row of an earlier life, tried again no later than a pause from now, and none of the future.

    The clock may have been set back since.
    """
    begun = min(row.created_at, now)
    next_try = min(row.next_try, now if row.created_at > now else now + policy.pause)
    if (begun, next_try) == (row.created_at, row.next_try):
        return row
    return replace(row, created_at=begun, next_try=next_try)


def _wait(failed: Notification, error: DeliveryError, failures: int, policy: Policy) -> float:
    """Return the seconds until the next try, doubling: between half and whole (by key, so tests repeat)."""
    if error.permanent:
        return policy.pause
    doublings = min(max(failed.attempts - 1, failures), 30)
    wait = min(policy.first * 2.0**doublings, policy.longest)
    seed = hashlib.sha256(f"{failed.key} {failed.attempts}".encode()).digest()[0]
    return max(wait * (0.5 + seed / 510), min(error.retry_after or 0.0, policy.expire))


def after_success(health: Health, now: float) -> Health:
    """Return the health of a channel that took a message."""
    return Health(worked_at=now, partly_again_at=health.partly_again_at)


def after_failure(health: Health, error: DeliveryError, step: Notification, now: float) -> Health:
    """Return the health after a failure of which after_failed_try made `step`: all wait as long as that one.

    A channel that reaches some, or that refuses one message among others, works.
    """
    failing = health.failing | {step.key}
    if isinstance(error, PartlyDeliveredError):
        return replace(after_success(health, now), failing=failing, reported=health.reported)
    if step.state == "failed":
        return replace(health, failing=failing)
    return replace(
        health,
        failures=health.failures + 1,
        since=now if health.since is None else health.since,
        rests_until=step.next_try,
        permanent=error.permanent,
        failure=str(error),
        failing=failing,
    )
