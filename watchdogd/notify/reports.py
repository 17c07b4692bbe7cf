"""Notifications made by delivery itself: reports on a channel's health, and digests. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from watchdogd.incidents.message_wording import first_line, fits
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.notification import ORDER, Message, Notification, addressed
from watchdogd.system.text import excerpt, one_line, verbatim
from watchdogd.units import format_duration, local_time

ABOUT = "outbox-"
"""Prefix of the threads of reports."""
_NAMED = 20
"""Maximum number of messages listed in a report."""


@dataclass(frozen=True)
class Reports:
    """Reports on one channel at one time; `to`: the channels that get them; `skew`: see Situation."""

    channel: str
    to: Sequence[str]
    now: float
    policy: Policy
    skew: float = 0.0

    def broken(self, failure: str, waiting: Sequence[Notification]) -> list[Notification]:
        """Return the report that the channel does not deliver."""
        return self._say("WARNING", f"channel {self.channel} does not deliver: {failure}", waiting)

    def works(self) -> list[Notification]:
        """Return the report that the channel delivers again."""
        return self._say("OK", f"channel {self.channel} delivers again", ())

    def partly(self, failure: str) -> list[Notification]:
        """Return the report that some recipients get nothing."""
        return self._say("WARNING", f"channel {self.channel} delivers to some only: {failure}", ())

    def refused(self, row: Notification) -> list[Notification]:
        """Return the report that the channel refused this message for good."""
        return self._say(
            "WARNING", f"channel {self.channel} refused a message: {row.failure}", (row,), lost=True
        )

    def expired(self, gone: Sequence[Notification]) -> list[Notification]:
        """Return the report that messages were given up; there is none on reports, which would never end."""
        lost = [row for row in gone if not row.message.thread.startswith(ABOUT)]
        if not lost:
            return []
        within = format_duration(self.policy.expire)
        count = "a message" if len(lost) == 1 else f"{len(lost)} messages"
        text = f"channel {self.channel} did not deliver {count} within {within}; given up"
        return self._say("WARNING", text, lost, lost=True)

    def _say(
        self, status: str, text: str, about: Sequence[Notification], *, lost: bool = False
    ) -> list[Notification]:
        command, text = self.policy.command, one_line(text)
        lines = [row.message.headline for row in about[:_NAMED]]
        if len(about) > len(lines):
            lines.append(f"… and {len(about) - len(lines)} more: {command} outbox")
        listed = verbatim(excerpt("\n".join(lines), 25, 4000))
        so_far = "Never delivered:" if lost else "Not delivered so far:"
        details = f"\n\n{so_far}\n{listed}" if lines else ""
        waits = "" if lost else f"To see what waits, and why:\n{verbatim(f'{command} outbox')}\n"
        look = f"{waits}To try it:\n{verbatim(f'{command} notify --test {self.channel}')}"
        digits = hashlib.sha256(f"{self.channel} {text} {self.now}".encode()).hexdigest()[:16]
        headline = first_line(status, self.policy.name, text)
        whole = "" if fits(status, self.policy.name, text) else f"{text}\n\n"
        message = Message(
            headline=headline,
            body=f"{whole}{'No action needed.' if status == 'OK' else look}{details}",
            status=status,
            target=one_line(self.policy.name, 100),
            thread=f"{ABOUT}{digits}",
            at=self.now + self.skew,
            fact=text,
        )
        return [addressed(message, name, self.now, message.thread) for name in self.to]


LIMIT = 15_000
"""Maximum characters of a digest's lines."""
DIGEST = "digest-"
"""Prefix of the keys of digests."""


def _of_heaviest(message: Message, word: str, others: int) -> str:
    """Return a digest's first line: its most severe fact, and the number of other messages."""
    fact = message.items[0].summary if message.items else message.fact or message.headline
    more = f"{others} more message{'s' * (others > 1)}"
    return first_line(word, message.target, fact, more)


def _rank(word: str) -> int:
    return ORDER.index(word) if word in ORDER else len(ORDER)


def digest(
    rows: Sequence[Notification], now: float, wall: float, policy: Policy, occasion: str
) -> list[Notification]:
    """Return rows of one channel as told in a digest, and the digest; a single row stays as it is.

    `now`: time of the digest among rows; `wall`: the same by the wall clock.
    """
    if len(rows) < 2:
        return [replace(row, created_at=now, next_try=now) for row in rows]
    messages = [row.message for row in rows]
    counts = Counter(message.status for message in messages)
    told = ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word])
    last = {(item.line, item.incident): item for message in messages for item in message.items}

    def stands(message: Message) -> str:
        """Return the most severe status that is still true of a message."""
        words = [last[item.line, item.incident].status for item in message.items] or [message.status]
        return min(words, key=_rank)

    # of messages on the same subject, first the one whose status is still true
    heaviest = sorted(messages, key=lambda each: (_rank(stands(each)), each.status != stands(each)))
    worst = stands(heaviest[0])
    if worst == "RESOLVED" and len(counts) > 1:  # faults of the same time are over too: not a mere recovery
        worst = "INFO"
    digits = hashlib.sha256(json.dumps(sorted(row.key for row in rows)).encode()).hexdigest()[:16]
    lines = [
        f"{datetime.fromtimestamp(message.at).astimezone():%H:%M} {one_line(message.headline)}"
        for message in messages
    ]
    shown = verbatim(excerpt("\n".join(lines), 100, LIMIT))
    message = Message(
        headline=_of_heaviest(heaviest[0], worst, len(rows) - 1),
        body=f"All that is open:\n{verbatim(f'{policy.command} incidents')}\n\n"
        f"What came {occasion} ({told}), times in {local_time(wall).rpartition(' ')[2]}:\n\n{shown}",
        status=worst,
        target=heaviest[0].target,
        thread=f"{DIGEST}{digits}",
        at=wall,
        quiet=all(message.quiet for message in messages),
        urgent=any(message.urgent for message in messages),
        incidents=tuple(sorted({number for message in messages for number in message.incidents})),
        items=tuple(last.values()),
    )
    whole = addressed(message, rows[0].channel, now, message.thread)
    merged = [replace(row, state="diverted", failure=f"told in {whole.key}") for row in rows]
    return [*merged, whole]
