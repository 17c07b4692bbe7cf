"""State of one channel: policy, health, and its rows: those that wait, and those that have ended. Pure.

A later message replies to the first one of its thread; a recovery goes where the fault was sent; a message
that comes after a newer one on the same subject, by a fallback or to a slow recipient, is dropped: a late
recovery would say that all is well while the subject is bad again.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import chain, takewhile

from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.notification import URGENT, Item, Message, Notification, end_of, incident_thread

REMEMBERED = 14 * 86400.0
"""Seconds of past rows that are read after a restart."""
KEPT = 5000
"""Number of newest ended rows that are kept."""


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

    def waits(self, row: Notification, channel: ChannelState) -> bool:
        """Return whether a row waits for the end of quiet hours.

        Escalations never wait, nor do recoveries whose fault was of an excepted severity.
        """
        message = row.message
        words = {message.word} | (channel.words(message) if message.ends else set())
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


class RowIndex:
    """Rows by key, in order, and by their lines and facts; the oldest of more than `most` are dropped."""

    def __init__(self, most: float = math.inf) -> None:
        self.by_key: dict[str, Notification] = {}
        self._most = most
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def put(self, row: Notification) -> None:
        """Add or replace a row; a new one is last."""
        if row.key not in self.by_key:
            for name in _names(row.message):
                self._keys[name][row.key] = None
        self.by_key[row.key] = row
        if len(self.by_key) > self._most:
            self.drop(next(iter(self.by_key)))

    def drop(self, key: str) -> None:
        """Remove a row, if it is there."""
        row = self.by_key.pop(key, None)
        for name in _names(row.message) if row else ():
            del self._keys[name][key]
            if not self._keys[name]:
                del self._keys[name]

    def keys(self, name: str) -> Collection[str]:
        """Return the keys of the rows with this line or fact, in order."""
        return self._keys.get(name, ())

    def about(self, name: str) -> Iterator[Notification]:
        """Yield the rows with this line or fact, in order."""
        return map(self.by_key.__getitem__, self.keys(name))


class ChannelState:
    """Rows of one channel, waiting and ended, and its health.

    `sending`: keys of rows being sent, each with its start time; `next_slot`: when the rate permits the next.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.health = Health()
        self.sending: dict[str, float] = {}
        self.next_slot = 0.0
        self._waiting = RowIndex()
        self._ended = RowIndex(KEPT)

    @property
    def rows(self) -> Mapping[str, Notification]:
        """The waiting rows by key, in order."""
        return self._waiting.by_key

    def put(self, row: Notification) -> None:
        """Add or replace a waiting row; a new one is last. Some recipients may have it already."""
        self._ended.drop(row.key)  # a diverted one may come back
        self._waiting.put(row)

    def end(self, row: Notification) -> None:
        """Record a row that has ended."""
        self._waiting.drop(row.key)
        # thousands of bodies would take megabytes
        self._ended.put(replace(row, message=replace(row.message, body="")))

    @property
    def ended(self) -> Mapping[str, Notification]:
        """The newest ended rows by key, in order, without bodies."""
        return self._ended.by_key

    def has_ended(self, key: str) -> bool:
        """Return whether the row with this key has ended here, and was not diverted."""
        return key in self.ended and self.ended[key].state != "diverted"

    def knows(self, key: str) -> bool:
        """Return whether the row with this key waits or has ended here."""
        return key in self.rows or self.has_ended(key)

    def _told(self, name: str, *, outdated: bool = False) -> list[Notification]:
        """Return the rows with a line or fact that somebody has; if `outdated`, superseded ones as well."""
        return [
            row
            for row in chain(self._ended.about(name), self._waiting.about(name))
            if row.state == "sent" or row.receipt or (outdated and row.state == "superseded")
        ]

    def has_begun(self, incident: int | None) -> bool:
        """Return whether a message on an incident arrived."""
        return bool(self._told(incident_thread(incident)))

    def told_of(self, incident: int | None) -> bool:
        """Return whether it has sent or will send a message on an incident."""
        return self.has_begun(incident) or bool(self._waiting.keys(incident_thread(incident)))

    def tells(self, item: Item) -> bool:
        """Return whether it has sent or will send this fact."""
        return bool(item.fact and (self._told(item.fact, outdated=True) or self._waiting.keys(item.fact)))

    def _lost(self, incident: int | None) -> bool:
        """Return whether no message on an incident arrived, though one should have."""
        rows = self._ended.about(incident_thread(incident))
        return any(row.state != "superseded" for row in rows) and not self.has_begun(incident)

    def without_lost(self, message: Message) -> Message:
        """Remove updates of incidents that never arrived, since a pager would open them."""
        items = tuple(item for item in message.items if not (item.quiet and self._lost(item.incident)))
        return message if items == message.items else replace(message, items=items)

    def missed(self, row: Notification) -> bool:
        """Return whether a recovery or update would be the first message here on incidents lost before."""
        message = row.message
        if not (message.ends or (message.quiet and message.incidents)):
            return False
        alone = all(len(self._waiting.keys(thread)) < 2 for thread in message.threads)
        return alone and all(map(self._lost, message.incidents)) and not self._told(message.thread)

    def words(self, message: Message) -> set[str]:
        """Return all severities sent in a message's threads."""
        return {row.message.word for thread in message.threads for row in self._told(thread)}

    def roots(self, message: Message) -> list[Notification]:
        """Return the first messages of its threads, its own thread's first, without repeats."""
        threads = [message.thread, *sorted(message.threads - {message.thread})]
        firsts = [rows[0] for rows in map(self._told, threads) if rows]
        return list({root.key: root for root in firsts}.values())

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
        if not item.ended and self._told(end_of(item.incident), outdated=True):
            return True
        if not (late or (item.ended and not standing)):
            return False
        others = (other for row in self._told(item.line, outdated=True) for other in row.message.items)
        return any(other.line == item.line and (other.incident or 0) > item.incident for other in others)

    def ends_of(self, message: Message) -> dict[int, Message]:
        """Return the waiting messages that end what this one reports, by incident."""
        begun = {item.incident for item in message.items if item.incident is not None and not item.ended}
        return {
            number: row.message for number in sorted(begun) for row in self._waiting.about(end_of(number))
        }

    def is_head(self, row: Notification, out: Container[str]) -> bool:
        """Return whether a row is the next in all its lines, and not told with another.

        Rows with keys in `out` do not count. A row that some recipients have is independent of all others.
        """
        return bool(row.receipt) or not (self._is_behind(row, out) or self.told_with(row, out))

    def _is_behind(self, row: Notification, out: Container[str]) -> bool:
        for keys in map(self._waiting.keys, row.message.lines):
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
        rows = {each.key: each for item in row.message.items for each in self._waiting.about(item.line)}
        return (each for key, each in rows.items() if key not in out and key not in self.sending)


def _names(message: Message) -> frozenset[str]:
    """Return the names under which a row is found: its lines and its facts."""
    return message.lines.union(item.fact for item in message.items)


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
