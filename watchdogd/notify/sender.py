"""What every channel is: something that takes a notification and says whether it has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from watchdogd.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Notification

TIMEOUT = 15.0
"""Seconds after which a conversation with a server is cut off, however it goes on."""


class Sender(Protocol):
    """One channel. Used by one thread at a time.

    `threaded`: it can take what is quiet without waking anybody.
    """

    @property
    def threaded(self) -> bool:
        """Whether quiet messages are welcome."""

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Hand it over; returns a receipt (kept in the notification; may be empty).

        `roots` are the delivered notifications, with their receipts and without their bodies, that opened
        the threads it belongs to. Raises DeliveryError, or PartlyDeliveredError where some recipients have
        it and some do not.
        """

    def close(self) -> None:
        """Give back connections."""


class PartlyDeliveredError(DeliveryError):
    """Some have it. `receipt` says who, so that another try goes to the rest alone.

    `permanent`: the rest will never take it, so that nothing is left to try.
    """

    def __init__(
        self, text: str, *, receipt: str, permanent: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(text, permanent=permanent, retry_after=retry_after)
        self.receipt = receipt


RELAY_LOOK = 60.0
"""Seconds between two looks at what a relay shall deliver: that it did is heard of without one, and a tick
waits for none."""


class Undeliverable:
    """A channel by which nothing goes from here: others hear of that, and messages go another way."""

    threaded = False

    def __init__(self, why: DeliveryError) -> None:
        self._why = why

    def send(self, _notification: Notification, _roots: Sequence[Notification], /) -> str:
        """Never."""
        raise DeliveryError(str(self._why), permanent=self._why.permanent, retry_after=self._why.retry_after)

    def close(self) -> None:
        """Nothing is open."""


class RelayOnly(Undeliverable):
    """`relay = true`, in the daemon. What no relay takes in time goes the way of every channel that fails."""

    def __init__(self) -> None:
        why = "it is left to 'watchdogd relay', which has not taken it yet"
        super().__init__(DeliveryError(why, retry_after=RELAY_LOOK))


class Misconfigured(Undeliverable):
    """A channel that cannot be made: its secret was there when the configuration was tried, and is gone.

    `why` names channel and key.
    """

    def __init__(self, why: str) -> None:
        super().__init__(DeliveryError(why, permanent=True))
