"""What one channel was notified of: the threads begun there, and the newest incident of each subject. Pure.

A later message hangs on the first of its thread; an end goes where its beginning went; and what comes after
something newer about the same subject, by a detour or to a slow recipient, is not sent any more: an end would
then say that all is well while it is bad again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from watchdogd.notify.notification import incident_thread

if TYPE_CHECKING:
    from watchdogd.notify.notification import Item, Message, Notification

REMEMBERED = 14 * 86400.0
"""Seconds for which ended rows are read again after a restart."""
THREADS = 2000
"""Threads of which the first message is remembered; the newest."""
KEPT = 10_000
"""Subjects, ended incidents and keys that are remembered; the newest."""


class Notified:
    """Folded from the rows that ended on the channel, in the order in which they did."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._roots: OrderedDict[str, Notification] = OrderedDict()
        self._lost: OrderedDict[str, None] = OrderedDict()
        self._incidents: OrderedDict[str, int] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()

    def note(self, row: Notification) -> None:
        """Take in what became of a row; one that some recipients have counts as told."""
        told = row.state == "sent" or bool(row.receipt)
        if row.state != "waiting":
            self._note_threads(row, told=told)
            if row.state != "diverted":  # what was diverted may come back
                self._keys[row.key] = None
        if told or row.state == "superseded":
            self._note_items(row.message)
        _shorten(self._keys, KEPT)
        _shorten(self._incidents, KEPT)
        _shorten(self._ended, KEPT)
        _shorten(self._roots, THREADS)
        _shorten(self._lost, THREADS)

    def _note_threads(self, row: Notification, *, told: bool) -> None:
        for thread in row.message.threads:
            if (
                told
            ):  # what later messages hang on is not what it said, of which thousands would take megabytes
                self._roots.setdefault(thread, replace(row, message=replace(row.message, body="", items=())))
            elif row.state != "superseded":
                self._lost[thread] = None

    def _note_items(self, message: Message) -> None:
        for item in message.items:
            if item.incident is None:
                continue
            self._incidents[item.line] = max(item.incident, self._incidents.get(item.line, 0))
            self._incidents.move_to_end(item.line)
            if item.ended:
                self._ended[item.incident] = None

    def know(self, key: str) -> None:
        """Remember that a row of that key was delivered, whatever became of its storing."""
        self._keys[key] = None

    def knows(self, key: str) -> bool:
        """Return whether the row of that key ended here."""
        return key in self._keys

    def begun(self, thread: str) -> bool:
        """Return whether the first message of a thread came."""
        return thread in self._roots

    def ended(self, incident: int) -> bool:
        """Return whether the end of an incident came."""
        return incident in self._ended

    def missed(self, message: Message) -> bool:
        """Return whether nothing that `message` tells of came, though all of it should have."""
        lost = all(incident_thread(number) in self._lost for number in message.incidents)
        return lost and not any(map(self.begun, message.threads))

    def roots(self, message: Message) -> list[Notification]:
        """Return the first messages of its threads, its own thread's first, each once."""
        threads = [message.thread, *sorted(message.threads - {message.thread})]
        roots = [self._roots[thread] for thread in threads if thread in self._roots]
        return list({root.key: root for root in roots}.values())

    def overtaken(self, row: Notification, *, standing: bool) -> frozenset[Item]:
        """Return those of a row's items that something newer has overtaken.

        `standing`: what was told here stands until it is told to be over, incident by incident. What some
        have already is older than all that was told since. Quiet messages stay in their threads: there they
        mislead nobody.
        """
        if row.message.quiet:
            return frozenset()
        late = bool(row.receipt) and not standing
        return frozenset(
            item for item in row.message.items if self._is_overtaken(item, late=late, standing=standing)
        )

    def _is_overtaken(self, item: Item, *, late: bool, standing: bool) -> bool:
        if item.incident is None:
            return False
        if not item.ended and item.incident in self._ended:
            return True
        newer = item.incident < self._incidents.get(item.line, 0)
        return newer and (late or (item.ended and not standing))


def _shorten(memory: OrderedDict[Any, Any], length: int) -> None:
    while len(memory) > length:
        memory.popitem(last=False)
