"""Answers of people to a message where it came: by a reaction in a chat, or by a reply to a mail.

It is read by calls from here alone. Each answer counts once; a reaction that was taken back is forgotten, so
that it counts again where somebody gives it again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BeforeValidator

from watchdogd.config.fields import OneLines
from watchdogd.notify.notification import Notification

EVERYBODY = ("all",)
"""Everybody who can read the channel may answer."""
SILENCE = 3600.0
"""Seconds for which an answer silences that names no duration."""


def _all(value: object) -> object:
    return EVERYBODY if value == "all" else value


AnswersFrom = Annotated[OneLines, BeforeValidator(_all)]
"""Who may answer: members as the channel names them, or "all"."""


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """Answer of one person to a message. `key` names it for ever; `seconds` is how long a silence lasts."""

    key: str
    verb: Literal["ack", "silence"]
    by: str
    message: Notification
    seconds: float = SILENCE


@dataclass(frozen=True, slots=True)
class ReadAnswers:
    """Answers that stand there now: all those to the messages whose receipts were `looked` at."""

    found: tuple[PersonAnswer, ...] = ()
    looked: frozenset[str] = frozenset()


class AnswerReader(Protocol):
    """Reader of one channel's answers. Used by one thread at a time; each call ends in bounded time."""

    def read(self, messages: Sequence[Notification], /) -> ReadAnswers:
        """Return the answers to these messages, which were sent, the most pressing first. DeliveryError."""

    def confirm(self, receipt: str, /) -> None:
        """Show at a message that was answered that all has recovered. DeliveryError."""

    def close(self) -> None:
        """Give back connections."""


def counts(member: str, allowed: Collection[str]) -> bool:
    """Return whether the answers of a member count."""
    return tuple(allowed) == EVERYBODY or member.lower() in {each.lower() for each in allowed}
