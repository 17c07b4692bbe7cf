"""A notification: one message to one channel, from its storing to its delivery or expiry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be said, before anybody words it for a channel.

    `headline` is `[STATUS] TARGET: summary`. `body` are plain lines. `thread` is the same for all messages
    about one incident (`incident-17`), or unique for a notice. `opens` is True for the first of a thread.
    `status` is the word in brackets. `at` is when it happened.
    """

    headline: str
    body: str
    status: str
    target: str
    thread: str
    at: float
    opens: bool = True
    quiet: bool = False
    incidents: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Notification:
    """One message on its way to one channel. `id` is None until stored.

    `key` names it for ever, so that a crash between sending and marking shows as a repeat of one key.
    `next_try` and `sent_at` in seconds since the epoch; `failure` is the last error in one line.
    """

    key: str
    channel: str
    message: Message
    created_at: float
    state: str = "waiting"
    attempts: int = 0
    next_try: float = 0.0
    sent_at: float | None = None
    failure: str = ""
    id: int | None = None
