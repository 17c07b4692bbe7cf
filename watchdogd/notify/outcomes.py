"""What became of one channel's notifications, until it is marked in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from watchdogd.notify.desk import Desk
    from watchdogd.notify.notification import Notification

BATCH = 50
"""Outcomes that are marked in one transaction while a storm goes out; else each is marked at once."""

AGAIN = 5.0
"""Seconds until outcomes that could not be stored are tried again."""


class Outcomes:
    """In the order in which they came; marked through `desk`. For one thread at a time, but for
    `len`: the lane's own, or while that hangs in a try the one that watches it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._unmarked: list[Notification] = []
        self._not_before = 0.0

    def __len__(self) -> int:
        """How many are not marked yet."""
        return len(self._unmarked)

    def add(self, outcomes: Iterable[Notification]) -> None:
        """Have these marked."""
        self._unmarked += outcomes

    def drop(self, keys: Collection[str]) -> None:
        """Somebody else has stored what became of these."""
        self._unmarked = [each for each in self._unmarked if each.key not in keys]

    def leave(self) -> list[Notification]:
        """What is not marked yet, for somebody else to mark."""
        left, self._unmarked = self._unmarked, []
        return left

    def settle(self, now: float, *, storm: bool) -> None:
        """Mark them: each at once, in a storm many together, after a failure of the store later."""
        if not self._unmarked or now < self._not_before or (storm and len(self) < BATCH):
            return
        self.flush()
        self._not_before = now + AGAIN if self._unmarked else 0.0

    def flush(self) -> None:
        """Mark what is not marked yet, storm or not."""
        if self._unmarked and self._desk.settle(self._unmarked):
            self._unmarked = []

    def shift(self, seconds: float) -> None:
        """The clock was set by so many seconds."""
        self._not_before += seconds

    @property
    def due(self) -> float | None:
        """When there is something to mark; None where there is nothing."""
        return self._not_before if self._unmarked else None
