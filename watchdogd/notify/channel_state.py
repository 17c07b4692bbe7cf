"""State of one channel: policy, health, waiting rows, and what it has notified. Pure.

A later message replies to the first one of its thread; a recovery goes where the fault was sent; a message
that comes after a newer one on the same subject, by a fallback or to a slow recipient, is dropped: a late
recovery would say that all is well while the subject is bad again.
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
"""Seconds of past rows that are read after a restart."""
THREADS = 2000
"""Number of newest threads whose first message is kept."""
KEPT = 10_000
"""Number of newest subjects, ended incidents and keys that are kept."""


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Daily quiet hours in `zone`; over midnight where `end` is the earlier time.

    `excepted`: severities that are sent all the same.
    """

    begin: time
    end: time
    zone: tzinfo
    excepted: frozenset[str] = frozenset()

    def window(self, at: float) -> tuple[float, float] | None:
        """Return the quiet hours around a time, in seconds since the epoch, or None."""
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

        Escalations never wait, nor do recoveries whose fault was of an excepted severity.
        """
        message = row.message
        words = {message.word} | (notified.words(message) if message.ends else set())
        return words.isdisjoint({URGENT, *self.excepted})


@dataclass(frozen=True, slots=True)
class Policy:
    """Delivery policy. Times in seconds.

    first, longest  bounds of the wait between two tries
    pause           rest of a channel after a permanent error
    patience        duration of failure after which a channel counts as broken
    fallback        channels for messages of a broken one
    expire          age at which a message is given up
    rates           messages a second by channel (None: unlimited)
    tell            channels for reports on channels (empty: all; None: none), under the daemon's `name`
    standing        channels that show an alert until its end is sent
    command         how the verbs are called for this home
    quiet           quiet hours by channel
    merges          whether deferred messages, and more than `digest_above` of one round, become one digest
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
    """Health of a channel: consecutive `failures`, `since` when, `rests_until` when, and the last `failure`.

    `permanent`: trying again soon is useless. `worked_at`: when it last accepted a message. `failing`: keys
    refused since then; several mean that the fault is not in a message. `reported`: it was reported as
    broken. `partly_again_at`: time before which failing recipients are not reported again.
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
        """Return whether its messages should go to the fallback."""
        return self.permanent or (self.since is not None and now - self.since >= policy.patience)


class Notified:
    """Record of the messages that a channel sent or lost, built from its ended rows in order.

    `keys`: ended rows; `facts`: facts that were sent; `begun`: first message and severities, by thread;
    `_incidents`: newest incident, by subject.
    """

    def __init__(self) -> None:
        self.keys = _Newest[None](KEPT)
        self.facts = _Newest[None](KEPT)
        self.begun = _Newest[tuple[Notification, frozenset[str]]](THREADS)
        self._lost = _Newest[None](THREADS)
        self._incidents = _Newest[int](KEPT)

    def note(self, row: Notification) -> None:
        """Record an ended row; one that some recipients have counts as sent."""
        told = row.state == "sent" or bool(row.receipt)
        if row.state not in ("waiting", "diverted"):  # a diverted one may come back
            self.keys[row.key] = None
        if row.state != "waiting" and (told or row.state != "superseded"):
            self._note_threads(row, told=told)
        if told or row.state == "superseded":
            self._note_items(row.message)

    def _note_threads(self, row: Notification, *, told: bool) -> None:
        # Only its address is needed by replies; thousands of bodies would take megabytes.
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
        """Return whether no message on an incident arrived, though one should have."""
        thread = incident_thread(incident)
        return thread in self._lost and thread not in self.begun

    def without_lost(self, message: Message) -> Message:
        """Remove updates of incidents that never arrived, since a pager would open them."""
        items = tuple(item for item in message.items if not (item.quiet and self.lost(item.incident)))
        return message if items == message.items else replace(message, items=items)

    def words(self, message: Message) -> set[str]:
        """Return all severities sent in a message's threads."""
        told = (self.begun[thread][1] for thread in message.threads if thread in self.begun)
        return set[str]().union(*told)

    def roots(self, message: Message) -> list[Notification]:
        """Return the first messages of its threads, its own thread's first, without repeats."""
        threads = [message.thread, *sorted(message.threads - {message.thread})]
        roots = [self.begun[thread][0] for thread in threads if thread in self.begun]
        return list({root.key: root for root in roots}.values())

    def overtaken(self, row: Notification, *, standing: bool) -> frozenset[Item]:
        """Return those items of a row that a newer message has overtaken.

        `standing`: the channel shows each incident until its end is sent. A row that some recipients have is
        older than all messages sent since. Quiet messages stay in their threads, where they mislead nobody.
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
    """State of one channel: waiting rows in order, the messages notified, and its health.

    `sending`: keys of rows being sent, each with its start time; `next_slot`: when the rate permits the next.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[str, Notification] = {}
        self.notified = Notified()
        self.health = Health()
        self.sending: dict[str, float] = {}
        self.next_slot = 0.0
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Keys of waiting rows in order, by thread and subject, so that a plan is quick however many wait."""

    def put(self, row: Notification) -> None:
        """Add or replace a waiting row; a new one is last. Some recipients may have it already."""
        if row.key not in self.rows:
            for line in _lines(row.message):
                self._keys[line][row.key] = None
        self.rows[row.key] = row
        self.notified.note(row)

    def end(self, row: Notification) -> None:
        """Record a row that has ended."""
        self.drop(row.key)
        self.notified.note(row)

    def drop(self, key: str) -> None:
        """Remove a waiting row."""
        row = self.rows.pop(key, None)
        for line in _lines(row.message) if row else ():
            del self._keys[line][key]
            if not self._keys[line]:
                del self._keys[line]

    def knows(self, key: str) -> bool:
        """Return whether the row with this key waits or has ended here."""
        return key in self.rows or key in self.notified.keys

    def told_of(self, incident: int | None) -> bool:
        """Return whether it has sent or will send a message on an incident."""
        thread = incident_thread(incident)
        return thread in self.notified.begun or thread in self._keys

    def missed(self, row: Notification) -> bool:
        """Return whether a recovery or update would be the first message here on incidents lost before."""
        message = row.message
        if not (message.ends or (message.quiet and message.incidents)):
            return False
        alone = all(len(self._keys.get(thread, ())) < 2 for thread in message.threads)
        lost = all(map(self.notified.lost, message.incidents))
        return alone and lost and message.thread not in self.notified.begun

    def tells(self, item: Item) -> bool:
        """Return whether it has sent or will send this fact."""
        return bool(item.fact) and (item.fact in self.notified.facts or item.fact in self._keys)

    def is_head(self, row: Notification, out: Container[str]) -> bool:
        """Return whether a row is the next in all its lines, and not told with another.

        Rows with keys in `out` do not count. A row that some recipients have is independent of all others.
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
        """Return the key of the row that carries a recovery, as all its subjects are bad again; or empty."""
        if end.receipt or not end.message.ends:
            return ""
        rows = self._with_lines_of(end, out)
        return next((row.key for row in rows if row.message.begins_anew(end.message)), "")

    def carried(self, row: Notification, out: Container[str]) -> list[Notification]:
        """Return the recoveries carried by a row."""
        return [end for end in self._with_lines_of(row, out) if self.told_with(end, out) == row.key]

    def _with_lines_of(self, row: Notification, out: Container[str]) -> Iterator[Notification]:
        """Yield the waiting rows about the same subjects, except those being sent."""
        keys = dict.fromkeys(key for item in row.message.items for key in self._keys.get(item.line, ()))
        return (self.rows[key] for key in keys if key not in out and key not in self.sending)


def _lines(message: Message) -> frozenset[str]:
    """Return the names under which a waiting row is indexed: its lines and its facts."""
    return message.lines.union(item.fact for item in message.items)


class _Newest(OrderedDict[str, Value]):
    """Dictionary of limited length that drops its oldest entries."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._length:
            self.popitem(last=False)


def after_failed_try(
    row: Notification, error: DeliveryError, now: float, policy: Policy, health: Health | None = None
) -> Notification:
    """Return the row after a failed try: its next try, or that it is given up.

    `health` is the channel's before the failure: if it fails for all rows, all wait longer; if it accepted
    others since it refused this one permanently, this row has failed.
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
    """Return a row from an earlier process with plausible times, since the clock may have been set.

    Where it would be given up, but for most of its time nobody was there to try it, that time does not count.
    """
    begun = min(row.created_at, now)
    untried = now - max(begun, row.next_try)
    if now - begun >= policy.expire and untried >= policy.expire / 2:
        begun += untried
    next_try = min(row.next_try, now if row.created_at > now else now + policy.pause)
    if (begun, next_try) == (row.created_at, row.next_try):
        return row
    return replace(row, created_at=begun, next_try=next_try)


def _wait(failed: Notification, error: DeliveryError, failures: int, policy: Policy) -> float:
    """Return seconds until the next try: doubling, between half and whole (by key, so that tests repeat)."""
    if error.permanent:
        return policy.pause
    doublings = min(max(failed.attempts - 1, failures), 30)
    wait = min(policy.first * 2.0**doublings, policy.longest)
    seed = hashlib.sha256(f"{failed.key} {failed.attempts}".encode()).digest()[0]
    return max(wait * (0.5 + seed / 510), min(error.retry_after or 0.0, policy.expire))


def after_success(health: Health, now: float) -> Health:
    """Return the health of a channel after a success."""
    return Health(worked_at=now, partly_again_at=health.partly_again_at)


def after_failure(health: Health, error: DeliveryError, step: Notification, now: float) -> Health:
    """Return the health after a failure of the row `step`, for which all rows wait.

    A channel that reaches some recipients, or refuses one message among others, works.
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
