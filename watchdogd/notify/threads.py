"""What one channel was told, thread by thread: what comes later is sent as an answer, or not at all."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.notify.notification import incident_thread

if TYPE_CHECKING:
    from watchdogd.notify.notification import Message, Notification

REMEMBERED = 14 * 86400.0
"""Seconds for which delivered messages are looked up again, so that later ones hang on their threads."""

KEPT = 2000
"""Threads of which a channel remembers the first message."""


def _short(root: Notification) -> Notification:
    """What later messages hang on: not what it said, of which thousands would take megabytes."""
    return replace(root, message=replace(root.message, body="", items=()))


class Threads:
    """The first message of each thread, and those of which one was lost; the newest KEPT of each."""

    def __init__(self) -> None:
        self._roots: OrderedDict[str, Notification] = OrderedDict()
        self._lost: OrderedDict[str, None] = OrderedDict()

    def note(self, outcome: Notification) -> None:
        """What became of a message."""
        for thread in outcome.message.threads:
            if outcome.state == "sent" or outcome.receipt:  # given up, but some have it
                self._roots.setdefault(thread, _short(outcome))
            elif outcome.state != "superseded":
                self._lost[thread] = None
        for memory in (self._roots, self._lost):
            while len(memory) > KEPT:
                memory.popitem(last=False)

    def begun(self, thread: str) -> bool:
        """Whether its first message came."""
        return thread in self._roots

    def lost(self, message: Message) -> bool:
        """Whether something of each of its incidents should have come, and did not."""
        return all(incident_thread(number) in self._lost for number in message.incidents)

    def roots(self, message: Message) -> list[Notification]:
        """The first messages of its threads, its own thread's first, each once."""
        threads = [message.thread, *sorted(message.threads - {message.thread})]
        roots = [self._roots[thread] for thread in threads if thread in self._roots]
        return list({root.key: root for root in roots}.values())
