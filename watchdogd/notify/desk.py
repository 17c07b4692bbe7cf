"""What lanes and the outbox say to each other: requests, deliveries of others, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Notification


class Desk(Protocol):
    """What lanes need of the outbox."""

    def settle(self, outcomes: Sequence[Notification]) -> bool:
        """Store outcomes; False where that failed, to be tried again."""

    def ways(self, channel: str, /) -> Sequence[str]:
        """The channels by which messages may go instead."""

    def divert(self, waiting: Sequence[Notification], ways: Sequence[str]) -> None:
        """Send `waiting` those ways, where there are any, and store that."""

    def copy(self, notifications: Sequence[Notification], ways: Sequence[str]) -> None:
        """Send them those ways as well, once, and store that."""

    def tell(self, channel: str, status: str, text: str, details: str, now: float, /) -> None:
        """Say something about a channel on the others."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that somebody else delivered on a channel: when (seconds since the epoch), its receipt."""

    key: str
    channel: str
    at: float
    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A channel that does not deliver: since when (seconds since the epoch), why, and how many wait.

    `broken`: no longer for a moment only, so that messages go another way.
    """

    channel: str
    since: float
    failure: str
    waiting: int
    permanent: bool
    broken: bool
