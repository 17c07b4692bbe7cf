"""A notification: one message to one channel, from its storing to its delivery or expiry."""

from __future__ import annotations

from dataclasses import dataclass

ORDER = ("CRITICAL", "UNKNOWN", "WARNING", "REMINDER", "RESOLVED", "ACTION", "INFO", "OK")
"""The words in brackets, worst first. OK is for a good result alone."""
URGENT = "urgent"
"""The word of what nobody acknowledged."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a message tells. `status` is its word in brackets; a notice has no `incident`.

    `at` is when it happened, `quiet` that it is only recorded where it costs nobody's attention.
    """

    status: str
    check: str
    summary: str
    subject: str = ""
    incident: int | None = None
    since: float | None = None
    at: float = 0.0
    quiet: bool = False

    @property
    def fact(self) -> str:
        """Name of what it tells: the same on every channel, in whatever company; empty where unknown."""
        if self.ended:
            return f"end {self.incident}"
        about = self.summary if self.incident is None else self.incident
        return f"{self.line} {self.status} {self.at} {about}" if self.at else ""

    @property
    def line(self) -> str:
        """Name of what it speaks of: what is said of the same comes in the order of what happened."""
        return f"{'notice' if self.incident is None else 'subject'} {self.check}\0{self.subject}"

    @property
    def ended(self) -> bool:
        """Return whether it tells the end of an incident."""
        return self.incident is not None and self.status == "RESOLVED"

    def outdates(self, end: Item) -> bool:
        """Return whether it tells that what `end` calls over is bad again, in a newer incident."""
        return (
            end.ended
            and not self.ended
            and self.line == end.line
            and (self.incident or 0) > (end.incident or 0)
        )


@dataclass(frozen=True, slots=True)
class Message:
    """Message before any channel words it its own way.

    `headline` is `[STATUS] TARGET: summary`, cut for phones; `line` is all of it where it was cut. `body` are
    plain lines; those that are verbatim (log lines, commands) are indented by four spaces. `thread` is the
    same for all messages about one incident (`incident-17`), or unique for a notice. `opens` is True for the
    first of a thread. `status` is the word in brackets. `urgent`: nobody acknowledged, so that quiet hours do
    not hold it back. `at` is when it happened. `incidents` are all that it tells of, `items` how each stands,
    `runbooks` the addresses to which the body points. `recovered`: what it tells to be over is good again.
    `fact`: what a message without `items` tells.
    """

    headline: str
    body: str
    status: str
    target: str
    thread: str
    at: float
    opens: bool = True
    quiet: bool = False
    urgent: bool = False
    incidents: tuple[int, ...] = ()
    items: tuple[Item, ...] = ()
    runbooks: tuple[str, ...] = ()
    line: str = ""
    recovered: bool = True
    fact: str = ""

    @property
    def colour(self) -> str:
        """Word by which it is coloured: an end is green only where what ended has recovered."""
        return "UNKNOWN" if self.status == "RESOLVED" and not self.recovered else self.status

    @property
    def ends(self) -> bool:
        """Return whether it tells of nothing but ends."""
        return bool(self.incidents) and {self.status, *(item.status for item in self.items)} == {"RESOLVED"}

    @property
    def word(self) -> str:
        """Word by which it waits in quiet hours, or does not."""
        return URGENT if self.urgent else self.status

    @property
    def threads(self) -> frozenset[str]:
        """Every thread that this belongs to: its own, and that of each incident."""
        return frozenset({self.thread, *(incident_thread(number) for number in self.incidents)})

    @property
    def lines(self) -> frozenset[str]:
        """Lines in which it waits: its threads, and what was said before of the same things."""
        return self.threads | {item.line for item in self.items}

    def begins_anew(self, end: Message) -> bool:
        """Return whether each thing of which `end` tells the end is bad again in it, in a newer incident."""
        return bool(end.items) and all(
            any(mine.outdates(theirs) for mine in self.items) for theirs in end.items
        )


@dataclass(frozen=True, slots=True)
class Notification:
    """One message on its way to one channel. `id` is None until stored.

    `state` is `waiting`, `sent`, `diverted` (handed to a fallback channel), `failed` (the channel takes
    others, but never this one), `superseded` (something newer was told instead) or `expired`.
    `key` names it for ever, so that a crash between sending and marking shows as a repeat of one key; it
    ends with `@CHANNEL`. `next_try` and `sent_at` in seconds since the epoch; `failure` is the last error
    in one line. `receipt` is what the channel gave for it (a thread's address, the recipients who have it):
    the channel alone understands it, and it must outlive a restart.
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
    receipt: str = ""
    id: int | None = None


def incident_thread(number: int | None) -> str:
    """Return the thread of an incident; empty where it is none."""
    return "" if number is None else f"incident-{number}"


def addressed(message: Message, channel: str, now: float, name: str) -> Notification:
    """Address `message` to one channel; `name` tells it from all other messages, for ever."""
    return Notification(f"{name}@{channel}", channel, message, created_at=now)
