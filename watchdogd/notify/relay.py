"""The relay: delivers what waits in a shared home from a machine that has a way out, daemon or none."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from watchdogd.errors import DeliveryError, HistoryError
from watchdogd.notify import channels
from watchdogd.notify.claimed import Claimed
from watchdogd.notify.outbox import Outbox
from watchdogd.notify.threads import REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from watchdogd.config.sections import Config
    from watchdogd.notify.claims import Claims
    from watchdogd.notify.desk import Trouble
    from watchdogd.notify.notification import Notification
    from watchdogd.notify.sender import Sender

Value = TypeVar("Value")
log = logging.getLogger(__name__)

FAREWELL = 20.0
"""Seconds for a message that is on its way at the end: a server's deadline and more."""


class Recorded(Protocol):
    """The history's notifications, as the relay needs them. HistoryError where they cannot be read."""

    def waiting(self) -> Sequence[Notification]:
        """Those that are not delivered yet."""

    def notifications(self, *, since: float) -> Sequence[Notification]:
        """All from that time on."""

    def notification(self, key: str) -> Notification | None:
        """The one of this key."""


class Relay:
    """Sends; what came of it stands in the claims, which the daemon takes in. It expires and diverts nothing.

    `told` is called with each notification that was delivered. HistoryError where the history cannot be read.
    """

    def __init__(
        self,
        senders: Mapping[str, Sender],
        config: Config,
        store: Recorded,
        claims: Claims,
        told: Callable[[Notification], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._names = frozenset(senders)
        self._store = store
        self._claims = claims
        self._told = told
        claimed = {
            name: Claimed(sender, claims, _at_once, anyway=False, settled=self._settled)
            for name, sender in senders.items()
        }
        policy = replace(channels.policy(config), fallback=(), tell=None, expire=math.inf)
        waiting, past = self._waiting(), store.notifications(since=clock() - REMEMBERED)
        taken = {each.key for each in waiting}
        delivered = {each.key: each for each in claims.outcomes()}
        known = [
            replace(each, state="sent", receipt=delivered[each.key].receipt)
            if each.key in delivered
            else each
            for each in past
            if each.key not in taken
        ]
        ended = [each for each in known if each.state != "waiting"]
        ticks = time.monotonic if clock is time.time else clock
        self._outbox = Outbox(claimed, policy, self._settle, ended, clock, ticks)
        self._outbox.add(waiting)

    def run(self, *, every: float, patience: float | None) -> None:
        """Until nothing is left, `patience` seconds at most; where that is None, for ever.

        What is new is looked for each `every` seconds.
        """
        try:
            end = time.monotonic() + (patience or 0.0)
            while patience is None or (self._outbox.waiting and time.monotonic() < end):
                self._outbox.start()
                self._rest(every, follow=patience is None)
                self._fetch()
        finally:
            self._outbox.stop(FAREWELL, more=False)

    @property
    def left(self) -> int:
        """How many are not delivered."""
        return self._outbox.waiting

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """The channels that do not deliver from here either."""
        return self._outbox.troubles

    def _rest(self, seconds: float, *, follow: bool) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and (follow or self._outbox.waiting):
            time.sleep(0.05)

    def _fetch(self) -> None:
        try:
            self._outbox.add(self._waiting())
        except (HistoryError, OSError) as error:
            log.warning("what waits cannot be looked up now: %s", error)

    def _waiting(self) -> list[Notification]:
        """What waits for our channels, and was delivered by nobody; the tries of others do not count here."""
        delivered = {each.key for each in self._claims.outcomes()}
        return [
            replace(each, attempts=0, next_try=0.0)
            for each in self._store.waiting()
            if each.channel in self._names and each.key not in delivered
        ]

    def _settled(self, key: str) -> Notification | None:
        try:
            row = self._store.notification(key)
        except HistoryError as error:
            raise DeliveryError(f"whether it was sent cannot be looked up: {error}") from None
        return row if row is not None and row.state != "waiting" else None

    def _settle(self, outcomes: Sequence[Notification]) -> None:
        for outcome in outcomes:
            if outcome.state == "sent":
                self._told(outcome)


def _at_once(function: Callable[[], Value]) -> Value:
    return function()
