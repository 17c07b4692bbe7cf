"""Answers to a message in the channel where it was sent: a reaction in a chat, or a reply to a mail.

Channels are read by outgoing calls only. Each answer counts once; a reaction that was withdrawn is forgotten,
so that it counts again if it is given again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator

from watchdogd.config.fields import OneLines
from watchdogd.notify.notification import Notification

EVERYBODY = ("all",)
"""Value of `answers_from` by which everybody who can read the channel may answer."""
SILENCE = 3600.0
"""Seconds of a silence whose answer names no duration."""


def _all(value: object) -> object:
    return EVERYBODY if value == "all" else value


AnswersFrom = Annotated[OneLines, BeforeValidator(_all)]
"""Configured people who may answer: members as the channel names them, or "all"."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """Answer of one person to a message. `key`: unique and permanent; `seconds`: duration of a silence."""

    key: str
    verb: Literal["ack", "silence"]
    by: str
    message: Notification
    seconds: float = SILENCE


@dataclass(frozen=True, slots=True)
class ReadAnswers:
    """Answers present in a channel now, to the messages whose receipts are in `looked`."""

    found: tuple[PersonAnswer, ...] = ()
    looked: frozenset[str] = frozenset()


class AnswerReader(Protocol):
    """Reader of one channel's answers. Used by one thread at a time; each call has a deadline."""

    def read(self, messages: Sequence[Notification], /) -> ReadAnswers:
        """Return the answers to these sent messages, given most important first. DeliveryError."""

    def confirm(self, receipt: str, /) -> None:
        """Mark an answered message as recovered. DeliveryError."""

    def close(self) -> None:
        """Close connections."""


def counts(member: str, allowed: Collection[str]) -> bool:
    """Return whether the answers of a member count."""
    return tuple(allowed) == EVERYBODY or member.lower() in {each.lower() for each in allowed}
