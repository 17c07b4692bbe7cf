"""Base class of channel types: keys in config.toml, sender, and connectivity test, in one class.

Each file of `watchdogd/notify/channels/` holds one type; another package adds one by an entry point of the
group `watchdogd.channels`. All that such a class needs can be imported from here (docs/channels.md shows
one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from watchdogd.config.channels import ChannelSection
from watchdogd.config.fields import OneLine, OneLines, PathText, SecretField, SendingRate, WebSecretField
from watchdogd.errors import ConfigError, DeliveryError, PartlyDeliveredError
from watchdogd.home.layout import Home
from watchdogd.notify.answers import AnswerReader, AnswersFrom
from watchdogd.notify.notification import Item, Message, Notification

__all__ = [
    "CONNECT_TIMEOUT",
    "TIMEOUT",
    "AnswerReader",
    "AnswersFrom",
    "Channel",
    "ConfigError",
    "DeliveryError",
    "Item",
    "Message",
    "Notification",
    "OneLine",
    "OneLines",
    "PartlyDeliveredError",
    "PathText",
    "SecretField",
    "Sender",
    "SendingRate",
    "WebSecretField",
]

TIMEOUT = 15.0
"""Seconds after which any exchange with a server is cut off."""
CONNECT_TIMEOUT = 6.0
"""Seconds for a server to answer a connectivity test."""


class Sender(Protocol):
    """Sender of one channel. Used by one thread at a time."""

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Send a notification; return a receipt, which is kept in the notification (may be empty).

        `roots`: the delivered notifications, with receipts and without bodies, that opened its threads.
        Raises DeliveryError, or PartlyDeliveredError where only some recipients have it.
        """

    def close(self) -> None:
        """Close connections."""


class Channel(ChannelSection):
    """Channel type. Its fields are the keys of its table in config.toml.

    Modules needed only for sending (an HTTP client) are imported where the sender is made, since verbs that
    send nothing read config.toml too.
    """

    def make_sender(self, home: Home) -> Sender:
        """Return the sender, without connecting. ConfigError where the keys cannot be used."""
        raise NotImplementedError

    def make_answers(self, _home: Home) -> AnswerReader | None:
        """Return a reader of answers; None where this type has none. ConfigError."""
        return None

    def try_connection(self, home: Home) -> str:
        """Test the connection without sending anything; return the result: `hooks.slack.com answers`.

        DeliveryError, with a fix where one is known, where the server cannot be reached; ConfigError where
        the keys cannot be used. Secrets have been checked before.
        """
        self.make_sender(home).close()
        return f"{self.type} takes what is configured"
