"""How far one channel was told of each thing: what comes later than something newer is told no more. Pure.

A message that was diverted, or that some recipients refused, may come back when newer ones of the same thing
have been told: an end would then say that all is well while it is bad again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.system.text import one_line
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.notify.notification import Item, Message, Notification

KEPT = 10_000
"""Things and ended incidents that are remembered, the newest."""


class Newest:
    """By what a check speaks of, the newest incident that was told; and the incidents whose end was told.

    `standing`: what was told there stands until it is told to be over, incident by incident.
    """

    def __init__(self, *, standing: bool = False) -> None:
        self._standing = standing
        self._incidents: OrderedDict[str, int] = OrderedDict()
        self._ended: OrderedDict[int, None] = OrderedDict()

    def note(self, told: Message) -> None:
        """It was told, to some at least."""
        for item in told.items:
            if item.incident is None:
                continue
            self._incidents[item.line] = max(item.incident, self._incidents.get(item.line, 0))
            self._incidents.move_to_end(item.line)
            if item.ended:
                self._ended[item.incident] = None
        for memory in (self._incidents, self._ended):
            while len(memory) > KEPT:
                memory.popitem(last=False)

    def overtaken(self, message: Message, *, late: bool = False) -> frozenset[Item]:
        """Of what it tells, that which something newer has overtaken. `late`: some have it already, so that
        it is older than all that was told since. Quiet messages stay in their threads: there they mislead
        nobody."""
        if message.quiet:
            return frozenset()
        return frozenset(item for item in message.items if self._is_overtaken(item, late=late))

    def _is_overtaken(self, item: Item, *, late: bool) -> bool:
        if item.incident is None:
            return False
        if not item.ended and item.incident in self._ended:
            return True
        return (
            (item.ended or late) and not self._standing and item.incident < self._incidents.get(item.line, 0)
        )


def joined(message: Message, ends: Sequence[Notification], overtaken: frozenset[Item]) -> Message:
    """The message as it is sent: with the ends that are told with it, and what newer ones said since."""
    notes = [f"Before this, at {iso(end.message.at)}: {one_line(end.message.headline)}" for end in ends]
    notes += [
        f"No longer so, as was told since: [{item.status}] {one_line(item.summary)}" for item in overtaken
    ]
    if not notes:
        return message
    items = [item for item in message.items if item not in overtaken]
    items += [item for end in ends for item in end.message.items]
    incidents = {*message.incidents, *(number for end in ends for number in end.message.incidents)}
    body = "\n".join((message.body, "", *notes))
    return replace(message, body=body, items=tuple(items), incidents=tuple(sorted(incidents)))


def superseded(old: Notification, by: str) -> Notification:
    """`old` is told no more, since `by` says what is newer."""
    return replace(old, state="superseded", failure=f"told no more: {one_line(by)}")
