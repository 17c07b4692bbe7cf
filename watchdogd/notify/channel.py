"""Base of all types of channels: keys in config.toml, sender, and connectivity test, in one class.

A file of `watchdogd/notify/channels/` holds one; another package brings one by an entry point of the group
`watchdogd.channels`. All that such a class needs can be imported from here (docs/channels.md shows one).
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
"""Seconds after which a conversation with a server is cut off, however it goes on."""
CONNECT_TIMEOUT = 6.0
"""Seconds that a server has to answer a connectivity test."""


class Sender(Protocol):
    """One channel's way out. Used by one thread at a time."""

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """Hand it over; returns a receipt (kept in the notification; may be empty).

        `roots` are the delivered notifications, with their receipts and without their bodies, that opened
        the threads it belongs to. Raises DeliveryError, or PartlyDeliveredError where some recipients have
        it and some do not.
        """

    def close(self) -> None:
        """Give back connections."""


class Channel(ChannelSection):
    """A type of channel. Its fields are the keys of its table in config.toml.

    What is imported to send alone (an HTTP client) is imported where the sender is made: config.toml is read
    by verbs that send nothing.
    """

    def make_sender(self, home: Home) -> Sender:
        """Return its sender; connects to nothing. ConfigError where its keys cannot be used."""
        raise NotImplementedError

    def make_answers(self, _home: Home) -> AnswerReader | None:
        """Return what reads people's answers to its messages; None where it has none. ConfigError."""
        return None

    def try_connection(self, home: Home) -> str:
        """Return what its server said to a greeting: `hooks.slack.com answers`. Sends nothing to anybody.

        DeliveryError, with a fix where one is known, where it cannot be reached; ConfigError where its keys
        cannot be used. Its secrets are there.
        """
        self.make_sender(home).close()
        return f"{self.type} takes what is configured"
