"""A channel that cannot be made: its secret was there when the configuration was tried, and is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Notification


class Unmade:
    """Delivers nothing: others hear of that, and messages go another way. `why` names channel and key."""

    threaded = False

    def __init__(self, why: str) -> None:
        self._why = why

    def send(self, _notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Never."""
        raise DeliveryError(self._why, permanent=True)

    def close(self) -> None:
        """Nothing is open."""
