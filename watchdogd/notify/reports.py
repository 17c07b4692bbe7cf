"""The report on a channel's health, as rows for the others: it does not deliver, or it works again. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from watchdogd.notify.notification import Message, Notification, addressed
from watchdogd.system.text import excerpt, one_line, verbatim
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from watchdogd.notify.retry import Health, Policy

ABOUT = "outbox-"
"""How the threads of reports begin."""
_NAMED = 20
"""Messages that are named by their first lines."""


def hearers(healths: Mapping[str, Health], channel: str, now: float, policy: Policy) -> tuple[str, ...]:
    """Return the channels on which something is said of `channel`."""
    if policy.tell is None:
        return ()
    names = [name for name in policy.tell if name in healths] or list(healths)
    return tuple(name for name in names if name != channel and not healths[name].broken(now, policy))


class Reports:
    """What is said of one channel at one moment; `to` are the channels that hear it."""

    def __init__(self, channel: str, to: Sequence[str], now: float, policy: Policy) -> None:
        self._channel, self._to, self._now, self._policy = channel, to, now, policy

    def broken(self, failure: str, waiting: Sequence[Notification]) -> list[Notification]:
        """It does not deliver."""
        return self._say("WARNING", f"channel {self._channel} does not deliver: {failure}", waiting)

    def works(self) -> list[Notification]:
        """It delivers again."""
        return self._say("OK", f"channel {self._channel} delivers again", ())

    def partly(self, failure: str) -> list[Notification]:
        """Some recipients never get it."""
        return self._say("WARNING", f"channel {self._channel} delivers to some only: {failure}", ())

    def refused(self, row: Notification) -> list[Notification]:
        """It takes others, but never this one."""
        return self._say("WARNING", f"channel {self._channel} refused a message: {row.failure}", (row,))

    def expired(self, gone: Sequence[Notification]) -> list[Notification]:
        """These were given up; reports themselves are not reported on: that would never end."""
        lost = [row for row in gone if not row.message.thread.startswith(ABOUT)]
        if not lost:
            return []
        within = format_duration(self._policy.expire)
        count = "a message" if len(lost) == 1 else f"{len(lost)} messages"
        text = f"channel {self._channel} did not deliver {count} within {within}; given up"
        return self._say("WARNING", text, lost)

    def _say(self, status: str, text: str, about: Sequence[Notification]) -> list[Notification]:
        command, text = self._policy.command, one_line(text)
        lines = [row.message.headline for row in about[:_NAMED]]
        if len(about) > len(lines):
            lines.append(f"… and {len(about) - len(lines)} more: {command} outbox")
        details = f"{verbatim(excerpt(chr(10).join(lines), 25, 4000))}\n\n" if lines else ""
        digits = hashlib.sha256(f"{self._channel} {text} {self._now}".encode()).hexdigest()[:16]
        message = Message(
            headline=f"[{status}] {one_line(self._policy.name, 100)}: {text}",
            body=f"{details}Look and try with:\n{verbatim(f'{command} outbox')}\n"
            f"{verbatim(f'{command} notify --test {self._channel}')}",
            status=status,
            target=one_line(self._policy.name, 100),
            thread=f"{ABOUT}{digits}",
            at=self._now,
        )
        return [addressed(message, name, self._now, message.thread) for name in self._to]
