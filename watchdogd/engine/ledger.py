"""Records that could not be stored yet: kept in memory, in order, until the history is back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import WatchdogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.history.record import Record

KEPT = 1000
"""Rounds kept whole while nothing can be stored (16 hours of one a minute); of older ones the numbers go."""


class Ledger:
    """Stores records in order through `store`; those that it refuses wait here, and `trouble` says why."""

    def __init__(self, store: Callable[[Record], None]) -> None:
        self._store = store
        self._unstored: list[Record] = []
        self.trouble = ""

    def keep(self, record: Record) -> None:
        """Store what waits and then `record`; never raises for a history that cannot be written."""
        self._unstored.append(record)
        if len(self._unstored) > KEPT:
            self._unstored[-KEPT] = replace(self._unstored[-KEPT], observations=())
        try:
            while self._unstored:
                self._store(self._unstored[0])
                del self._unstored[0]
            self.trouble = ""
        except WatchdogError as error:
            self.trouble = str(error)
