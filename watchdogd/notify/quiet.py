"""Quiet hours of a channel: when they are, what goes out all the same, the digest of what waited. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from watchdogd.notify.message import ORDER
from watchdogd.notify.notification import Message, Notification, addressed
from watchdogd.system.text import excerpt, one_line, verbatim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notified import Notified

LIMIT = 15_000
"""Characters of a digest's lines."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` to `end` of each day by the clocks of `zone`; over midnight where `end` is the earlier.

    `excepted` are the severities that go out all the same.
    """

    begin: time
    end: time
    zone: tzinfo
    excepted: frozenset[str] = frozenset()

    def window(self, at: float) -> tuple[float, float] | None:
        """Return the quiet hours that a time falls into, in seconds since the epoch, or None."""
        today = datetime.fromtimestamp(at, self.zone).date()
        for day in (today - timedelta(days=1), today):
            begin = self._at(day, self.begin)
            end = self._at(day + timedelta(days=self.end <= self.begin), self.end)
            if begin <= at < end:
                return begin, end
        return None

    def _at(self, day: date, clock: time) -> float:
        return datetime.combine(day, clock, self.zone).timestamp()

    def waits(self, row: Notification, notified: Notified) -> bool:
        """Return whether a row waits for the end of quiet hours.

        An end does not, where its beginning did not; nor does what nobody acknowledged.
        """
        message = row.message
        if message.urgent or message.status in self.excepted:
            return False
        roots = notified.roots(message) if message.ends else []
        return not any(root.message.urgent or root.message.status in self.excepted for root in roots)


def digest(
    rows: Sequence[Notification], now: float, wall: float, name: str, command: str
) -> list[Notification]:
    """Return rows of one channel as told in one message, and that message; one alone goes as it is.

    `now` is the time of the rows, `wall` the same by the wall clock; `name` is the daemon's.
    """
    if len(rows) == 1:
        return [replace(rows[0], created_at=now, next_try=now)]
    messages = [row.message for row in rows]
    counts = Counter(message.status for message in messages)
    told = ", ".join(f"{counts[word]} {word}" for word in ORDER if counts[word])
    worst = min(counts, key=lambda word: ORDER.index(word) if word in ORDER else len(ORDER))
    digits = hashlib.sha256(json.dumps(sorted(row.key for row in rows)).encode()).hexdigest()[:16]
    lines = [
        f"{datetime.fromtimestamp(message.at).astimezone():%H:%M} {one_line(message.headline)}"
        for message in messages
    ]
    shown = verbatim(excerpt("\n".join(lines), 100, LIMIT))
    last = {(item.line, item.incident): item for message in messages for item in message.items}
    message = Message(
        headline=f"[{worst}] {one_line(name, 100)}: {len(rows)} messages in quiet hours: {told}",
        body=f"What waited for the end of quiet hours:\n\n{shown}\n\n"
        f"All that is open:\n{verbatim(f'{command} incidents')}",
        status=worst,
        target=one_line(name, 100),
        thread=f"digest-{digits}",
        at=wall,
        incidents=tuple(sorted({number for message in messages for number in message.incidents})),
        items=tuple(last.values()),
    )
    whole = addressed(message, rows[0].channel, now, message.thread)
    merged = [replace(row, state="diverted", failure=f"told in {whole.key}") for row in rows]
    return [*merged, whole]
