"""Policy of delivery, quiet hours, a channel's health, and what becomes of a row after a try. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError, PartlyDeliveredError
from watchdogd.notify.notification import URGENT, Notification

if TYPE_CHECKING:
    from watchdogd.notify.channel_state import Notified


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
    took a message. `failing` are the keys that it refused since then. `reported`: it was reported as broken.
    `partly_again_at`: until then it is not reported again that some recipients never get anything.
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

    @property
    def outage(self) -> bool:
        """Return whether it refuses more than one message: the fault is not in the message."""
        return len(self.failing) > 1


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
