"""One channel as it stands: the rows that wait for it, what it was notified of, its health. Pure.

A later message hangs on the first of its thread; an end goes where its beginning went; and what comes after
something newer about the same subject, by a detour or to a slow recipient, is not sent any more: an end would
then say that all is well while it is bad again.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Container
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

from watchdogd.notify.delivery_timing import Health
from watchdogd.notify.notification import Item, Message, Notification, incident_thread

REMEMBERED = 14 * 86400.0
"""Seconds for which ended rows are read again after a restart."""
THREADS = 2000
"""Threads of which the first message is remembered; the newest."""
KEPT = 10_000
"""Subjects, ended incidents and keys that are remembered; the newest."""


Value = TypeVar("Value")


class Notified:
    """Folded from the rows that ended on the channel, in the order in which they did."""

    def __init__(self) -> None:
        self._keys = _Newest[None](KEPT)
        self._roots = _Newest[Notification](THREADS)
        self._words = _Newest[frozenset[str]](THREADS)
        self._lost = _Newest[None](THREADS)
        self._incidents = _Newest[int](KEPT)
        self._facts = _Newest[None](KEPT)

    def note(self, row: Notification) -> None:
        """Take in what became of a row; one that some recipients have counts as told."""
        told = row.state == "sent" or bool(row.receipt)
        if row.state != "waiting":
            self._note_threads(row, told=told)
            if row.state != "diverted":  # what was diverted may come back
                self._keys[row.key] = None
        if told or row.state == "superseded":
            self._note_items(row.message)

    def _note_threads(self, row: Notification, *, told: bool) -> None:
        for thread in row.message.threads:
            if (
                told
            ):  # later messages hang on it, not on what it said, of which thousands would take megabytes
                self._roots.setdefault(thread, replace(row, message=replace(row.message, body="", items=())))
                self._words[thread] = self._words.get(thread, frozenset()) | {row.message.word}
            elif row.state != "superseded":
                self._lost[thread] = None

    def _note_items(self, message: Message) -> None:
        for item in message.items:
            self._facts[item.fact] = None
            if item.incident is not None:
                self._incidents[item.line] = max(item.incident, self._incidents.get(item.line, 0))
                self._incidents.move_to_end(item.line)

    def know(self, key: str) -> None:
        """Remember that a row of that key was delivered, whatever became of its storing."""
        self._keys[key] = None

    def knows(self, key: str) -> bool:
        """Return whether the row of that key ended here."""
        return key in self._keys

    def begun(self, thread: str) -> bool:
        """Return whether the first message of a thread came."""
        return thread in self._roots

    def tells(self, fact: str) -> bool:
        """Return whether a fact came: with whatever message."""
        return fact in self._facts

    def lost(self, incident: int | None) -> bool:
        """Return whether nothing of an incident came, though it should have."""
        thread = "" if incident is None else incident_thread(incident)
        return thread in self._lost and not self.begun(thread)

    def missed(self, message: Message) -> bool:
        """Return whether nothing that `message` tells of came, though all of it should have."""
        return all(map(self.lost, message.incidents)) and not self.begun(message.thread)

    def without_lost(self, message: Message) -> Message:
        """Return a message without updates of what never came: at a pager they would open it."""
        items = tuple(item for item in message.items if not (item.quiet and self.lost(item.incident)))
        return message if items == message.items else replace(message, items=items)

    def words(self, message: Message) -> set[str]:
        """Return the words of all that was told in its threads."""
        return {word for thread in message.threads for word in self._words.get(thread, ())}

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
        if not item.ended and self.tells(f"end {item.incident}"):
            return True
        newer = item.incident < self._incidents.get(item.line, 0)
        return newer and (late or (item.ended and not standing))


class ChannelState:
    """One channel as it stands: the rows that wait for it, in order; what it was notified of; its health.

    `sending` are the keys that are on their way, with the time at which they left; `next_slot` is when its
    rate lets the next one go.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[str, Notification] = {}
        self.notified = Notified()
        self.health = Health()
        self.sending: dict[str, float] = {}
        self.next_slot = 0.0
        self._keys: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """By thread and subject, the keys of the rows that wait, in order: a plan looks at what comes next
        alone, however many wait."""

    def put(self, row: Notification) -> None:
        """Take in a row that waits: a new one comes last."""
        if row.key not in self.rows:
            for line in _lines(row.message):
                self._keys[line][row.key] = None
        self.rows[row.key] = row

    def drop(self, key: str) -> None:
        """Remove a row that waits no more."""
        row = self.rows.pop(key, None)
        for line in _lines(row.message) if row else ():
            del self._keys[line][key]
            if not self._keys[line]:
                del self._keys[line]

    def knows(self, key: str) -> bool:
        """Return whether the row of that key waits, or ended here."""
        return key in self.rows or self.notified.knows(key)

    def told_of(self, incident: int | None) -> bool:
        """Return whether it was told of an incident, or will be."""
        thread = "" if incident is None else incident_thread(incident)
        return self.notified.begun(thread) or thread in self._keys

    def missed(self, row: Notification) -> bool:
        """Return whether an end, or an update, that waits is the first word here, since others were lost."""
        message = row.message
        if not (message.ends or (message.quiet and message.incidents)):
            return False
        alone = all(len(self._keys.get(thread, ())) < 2 for thread in message.threads)
        return alone and self.notified.missed(message)

    def tells(self, item: Item) -> bool:
        """Return whether it told the same, or will."""
        return bool(item.fact) and (self.notified.tells(item.fact) or item.fact in self._keys)

    def is_head(self, row: Notification, out: Container[str]) -> bool:
        """Return whether a row that waits is next in each of its lines, and is told by itself.

        `out` are the keys of rows that do not count. What some recipients have already waits for no other,
        and no other for it.
        """
        return bool(row.receipt) or not (self._is_behind(row, out) or self.told_with(row, out))

    def _is_behind(self, row: Notification, out: Container[str]) -> bool:
        for keys in (self._keys[line] for line in row.message.lines):
            if not self.sending.keys().isdisjoint(keys):
                return True
            for before in (self.rows[key] for key in takewhile(row.key.__ne__, keys) if key not in out):
                if not before.receipt and not self.told_with(before, out):
                    return True
        return False

    def told_with(self, end: Notification, out: Container[str]) -> str:
        """Return the key of the row with which an end is told, since each thing is bad again; or nothing."""
        if end.receipt or not end.message.ends:
            return ""
        keys = (key for item in end.message.items for key in self._keys.get(item.line, ()) if key not in out)
        rows = (self.rows[key] for key in keys if key not in self.sending)
        return next((row.key for row in rows if row.message.begins_anew(end.message)), "")

    def carried(self, row: Notification, out: Container[str]) -> list[Notification]:
        """Return the ends that are told with a row."""
        lines = (item.line for item in row.message.items if not item.ended)
        keys = dict.fromkeys(key for line in lines for key in self._keys.get(line, ()) if key not in out)
        ends = (self.rows[key] for key in keys if key not in self.sending)
        return [end for end in ends if self.told_with(end, out) == row.key]


def _lines(message: Message) -> frozenset[str]:
    """Return by what a row that waits is found: where it stands in line, and what it tells."""
    return message.lines.union(item.fact for item in message.items)


class _Newest(OrderedDict[str, Value]):
    """The newest of what was put in, up to a number."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __setitem__(self, key: str, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self._length:
            self.popitem(last=False)
