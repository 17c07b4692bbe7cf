"""In the daemon, a channel that only a relay on another machine can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Notification

LOOK = 60.0
"""Seconds between two looks: what a relay delivers is heard of without one, and a tick waits for none."""


class LeftToRelay:
    """`relay = true`. What no relay takes in time goes the way of every channel that fails: told, then on to
    the fallback."""

    threaded = False

    def send(self, _notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Never from here."""
        raise DeliveryError("it is left to 'watchdogd relay', which has not taken it yet", retry_after=LOOK)

    def close(self) -> None:
        """Nothing is open."""
