"""A sender that asks before each message whether this daemon still acts for its home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watchdogd.notify.notification import Notification
    from watchdogd.notify.sender import Sender


class Leased:
    """Any sender; after the lease is lost it sends nothing more: the next holder does."""

    def __init__(self, sender: Sender, may_act: Callable[[], bool]) -> None:
        self._sender = sender
        self._may_act = may_act

    @property
    def threaded(self) -> bool:
        """As the sender says."""
        return self._sender.threaded

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """As the sender does it; DeliveryError where another daemon acts for this home by now."""
        if not self._may_act():
            raise DeliveryError("another daemon acts for this home now")
        return self._sender.send(notification, roots)

    def close(self) -> None:
        """As the sender does it."""
        self._sender.close()
