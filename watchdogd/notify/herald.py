"""What is to be said of one channel on the others: that it does not deliver, what was lost, that it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.desk import Desk
    from watchdogd.notify.notification import Notification
    from watchdogd.notify.retry import Policy

ABOUT = "outbox-"
"""How threads begin in which the outbox tells of its own channels."""
_NAMED = 20
"""Messages that are named by their first lines."""


class Herald:
    """Of one channel; what lasts is said once."""

    def __init__(self, channel: str, desk: Desk, policy: Policy) -> None:
        self._channel = channel
        self._desk = desk
        self._policy = policy
        self.said_broken = False
        self._partly_again_at = 0.0

    def broken(self, failure: str, waiting: Sequence[Notification], now: float) -> None:
        """It does not deliver; said until `works`."""
        if not self.said_broken:
            self.said_broken = True
            self._say(f"channel {self._channel} does not deliver: {failure}", waiting, now)

    def works(self, now: float) -> None:
        """It delivered: said where it was said that it does not."""
        if self.said_broken:
            self.said_broken = False
            self._desk.tell(self._channel, "OK", f"channel {self._channel} delivers again", "", now)

    def partly(self, failure: str, now: float) -> None:
        """Some recipients never get it; said once in the time that a message lives."""
        if now >= self._partly_again_at:
            self._partly_again_at = now + self._policy.expire
            self._say(f"channel {self._channel} delivers to some only: {failure}", [], now)

    def refused(self, one: Notification, now: float) -> None:
        """It takes others, but never this one."""
        self._say(f"channel {self._channel} refused a message: {one.failure}", [one], now)

    def expired(self, gone: Sequence[Notification], now: float) -> None:
        """Given up is told, but not of what was itself told about channels: that would never end."""
        lost = [each for each in gone if not each.message.thread.startswith(ABOUT)]
        if lost:
            within = format_duration(self._policy.expire)
            count = "a message" if len(lost) == 1 else f"{len(lost)} messages"
            text = f"channel {self._channel} did not deliver {count} within {within}; given up"
            self._say(text, lost, now)

    def shift(self, seconds: float) -> None:
        """The clock was set by so many seconds."""
        self._partly_again_at += seconds

    def _say(self, text: str, about: Sequence[Notification], now: float) -> None:
        lines = [each.message.headline for each in about[:_NAMED]]
        if len(about) > len(lines):
            lines.append(f"… and {len(about) - len(lines)} more: {self._policy.command} outbox")
        self._desk.tell(self._channel, "WARNING", text, "\n".join(lines), now)
