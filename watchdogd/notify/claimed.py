"""A sender that claims each message in home before it sends, so that nobody else sends it as well."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from watchdogd.errors import DeliveryError, WatchdogError
from watchdogd.notify.sender import PartlyDeliveredError, TakenError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watchdogd.notify.claims import Claim, Claims
    from watchdogd.notify.notification import Notification
    from watchdogd.notify.sender import Sender

Value = TypeVar("Value")
log = logging.getLogger(__name__)


class Attempt(Protocol):
    """Runs a function that touches home, with a deadline of its own."""

    def __call__(self, function: Callable[[], Value], /) -> Value:
        """What the function returns or raises; WatchdogError where it does not come back."""


class Claimed:
    """Any sender. Where nothing can be claimed since home is full or hangs, `anyway` it is sent all the same.

    `settled` says, after the claim, what became of a message by now (None: it waits still): what a claim of
    long ago was about may be stored and forgotten.
    """

    def __init__(
        self,
        sender: Sender,
        claims: Claims,
        attempt: Attempt,
        *,
        anyway: bool,
        settled: Callable[[str], Notification | None] = lambda _key: None,
    ) -> None:
        self._sender = sender
        self._claims = claims
        self._attempt = attempt
        self._anyway = anyway
        self._settled = settled

    @property
    def threaded(self) -> bool:
        """As the sender says."""
        return self._sender.threaded

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """As the sender does it; the receipt alone where somebody else delivered it.

        What is told with it is claimed first, so that nobody sends that later by itself.
        """
        ends: list[Claim] = []
        try:
            for key in notification.instead_of:
                claim = self._claim(key, notification.channel)
                ends += [claim] if claim is not None and not claim.sent else []
            receipt = self._send(notification, roots)
        except DeliveryError:
            for each in ends:
                self._note(partial(self._claims.give_back, each))
            raise
        for each in ends:
            self._note(partial(self._claims.delivered, each, receipt, time.time()))
        return receipt

    def _send(self, notification: Notification, roots: Sequence[Notification]) -> str:
        claim = self._claim(notification.key, notification.channel)
        if claim is None:
            return self._sender.send(notification, roots)
        if claim.sent:
            return claim.receipt
        settled = self._settled(notification.key)
        if settled is not None:
            self._note(lambda: self._claims.give_back(claim))
            return settled.receipt
        try:
            receipt = self._sender.send(_with_parts(notification, claim), roots)
        except PartlyDeliveredError as error:
            parts = error.receipt
            self._note(lambda: self._claims.give_back(claim, parts))
            raise
        except DeliveryError:
            self._note(lambda: self._claims.give_back(claim))
            raise
        self._note(lambda: self._claims.delivered(claim, receipt, time.time()))
        return receipt

    def _claim(self, key: str, channel: str) -> Claim | None:
        try:
            return self._attempt(lambda: self._claims.take(key, channel))
        except TakenError:
            raise
        except (OSError, WatchdogError) as error:
            if self._anyway:
                return None
            raise DeliveryError(f"home cannot be written, so nothing is sent: {error}") from None

    def _note(self, function: Callable[[], None]) -> None:
        """What cannot be noted now may be sent once more; that it was sent is not undone by it."""
        try:
            self._attempt(function)
        except (OSError, WatchdogError) as error:
            log.warning("how a message was sent cannot be noted in home: %s", error)

    def close(self) -> None:
        """As the sender does it."""
        self._sender.close()


def _with_parts(notification: Notification, claim: Claim) -> Notification:
    """Who has it already, by what the last one who tried left behind."""
    if not claim.receipt or claim.receipt == notification.receipt:
        return notification
    have = dict.fromkeys((*notification.receipt.split(), *claim.receipt.split()))
    return replace(notification, receipt=" ".join(have))
