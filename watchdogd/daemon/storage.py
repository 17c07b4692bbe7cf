"""The history as the daemon uses it: opened when possible, with a deadline, never delaying an alert.

Records that cannot be stored yet wait in memory, in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from watchdogd.daemon.trouble import Trouble
from watchdogd.errors import HistoryError, WatchdogError
from watchdogd.history.measurements import PastOfCheck
from watchdogd.history.models import Past, Record
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.incidents.models import AlertState
from watchdogd.notify.notification import Notification
from watchdogd.system.bounded_io import BoundedIO, StuckError

Value = TypeVar("Value")
TRIES = 10
"""Rounds in which reading the earlier state is tried again while the history answers."""
CHORES = 120.0
"""Seconds for a backup or for aggregating old readings."""


class Storage:
    """Store that is opened at first use and again after a failure. Every call has a deadline.

    All methods raise HistoryError while the history cannot be used. `owner=False`: read only, nothing is
    created, migrated or repaired.
    """

    def __init__(
        self,
        url: str,
        home: Home,
        patient: BoundedIO,
        *,
        owner: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._url = url
        self._home = home
        self._patient = patient
        self._owner = owner
        self._chores = BoundedIO(str(home.path), deadline=CHORES)
        self._store: Store | None = None
        self._unread = ""
        self._awaited = 0

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return damage found and repaired, one line each; the list only grows, at its end."""
        stored = self._store.troubles if self._store else ()
        return (self._unread, *stored) if self._unread else stored

    @property
    def folder(self) -> str:
        """Return the folder of the history's file; empty where a server keeps it."""
        return self._store.folder if self._store else str(self._home.path)

    @property
    def unread(self) -> bool:
        """Return whether the earlier state could not be read."""
        return bool(self._unread)

    def past(self) -> Past:
        """Return the earlier state; where it cannot be read, a fresh one with incident ids not used yet."""
        try:
            return self._ask(Store.past)
        except HistoryError as error:
            self._unread = f"what was known before cannot be read: {error}"
            self._awaited = TRIES
            return Past(alerts=AlertState(next_id=int(self._clock())))

    def recovered(self) -> Past | None:
        """Return the earlier state once, if it could not be read at first and now can be.

        Given up where the history answers but this fails TRIES times.
        """
        if not self._awaited:
            return None
        try:
            past = self._ask(Store.past)
        except HistoryError:
            with suppress(HistoryError):
                self._ask(Store.waiting)
                self._awaited -= 1
            return None
        self._awaited = 0
        return past

    def record(self, record: Record) -> None:
        """Store one round, unless the earlier state is still unread and would be overwritten."""
        if self._awaited:
            raise HistoryError(self._unread)
        self._ask(lambda store: store.record(record))

    def settle(self, outcomes: Sequence[Notification]) -> None:
        self._ask(lambda store: store.settle(outcomes))

    def series(self, check: str, since: float) -> PastOfCheck:
        return self._ask(lambda store: store.series(check, since))

    def series_of(self, checks: Collection[str], since: float) -> Mapping[str, PastOfCheck]:
        return self._ask(lambda store: store.series_of(checks, since))

    def ended(self, seconds: float) -> list[Notification]:
        """Return sent and failed notifications of the last `seconds`, to which later ones reply."""
        found = self._ask(lambda store: store.notifications(since=self._clock() - seconds))
        return [each for each in found if each.state != "waiting"]

    def waiting(self) -> list[Notification]:
        return self._ask(Store.waiting)

    def back_up(self) -> None:
        """Make the daily backup, on a thread of its own."""
        self._ask(Store.backup, self._chores)

    def thin(self, keep: float) -> None:
        """Aggregate old readings, on a thread of its own."""
        self._ask(lambda store: store.thin(self._clock(), keep), self._chores)

    def close(self) -> None:
        if self._store is not None:
            self._ask(Store.close)
        self._chores.close()

    def _ask(self, function: Callable[[Store], Value], patient: BoundedIO | None = None) -> Value:
        try:
            return (patient or self._patient).attempt(lambda: function(self._opened()))
        except StuckError as error:
            raise HistoryError(str(error)) from error

    def _opened(self) -> Store:
        """Return the store, opened or not: it has its troubles even where opening fails."""
        if self._store is None:
            self._store = Store.at(self._url, self._home, owner=self._owner)
        return self._store


KEPT = 1000
"""Rounds kept in full while nothing can be stored (16 hours at one a minute); older ones lose readings."""


class WriteBuffer:
    """Buffer that stores records in order; refused ones are kept, and `trouble` says why."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._unstored: list[Record] = []
        self.trouble = ""

    def keep(self, record: Record) -> None:
        """Store buffered records, then `record`; never raises if the history cannot be written."""
        self._unstored.append(record)
        if len(self._unstored) > KEPT:
            self._unstored[-KEPT] = replace(self._unstored[-KEPT], observations=())
        try:
            while self._unstored:
                self._storage.record(self._unstored[0])
                del self._unstored[0]
            self.trouble = ""
        except WatchdogError as error:
            known = error.__cause__ if isinstance(error.__cause__, StuckError) else error
            self.trouble = Trouble.of(error.what, known, self._storage.folder)
