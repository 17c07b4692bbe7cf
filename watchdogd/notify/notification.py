"""Notification: one message to one channel, from its creation to its delivery or expiry."""

from __future__ import annotations

from dataclasses import dataclass

ORDER = ("CRITICAL", "UNKNOWN", "WARNING", "REMINDER", "RESOLVED", "ACTION", "INFO", "OK")
"""Statuses in a message's brackets, most severe first."""
URGENT = "urgent"
"""Severity of an escalation in quiet hours."""


@dataclass(frozen=True, slots=True)
class Item:
    """One fact in a message. `status`: the word in brackets; a notice has no `incident`.

    `at`: when it happened; `quiet`: it is only recorded where nobody is alerted by that.
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
        """Name of the fact: the same on every channel and in every message; empty where unknown."""
        if self.ended:
            return end_of(self.incident)
        about = self.summary if self.incident is None else self.incident
        return f"{self.line} {self.status} {self.at} {about}" if self.at else ""

    @property
    def line(self) -> str:
        """Name of the subject: messages on the same subject stay in order."""
        return f"{'notice' if self.incident is None else 'subject'} {self.check}\0{self.subject}"

    @property
    def ended(self) -> bool:
        """Return whether it is the end of an incident."""
        return self.incident is not None and self.status == "RESOLVED"

    def outdates(self, end: Item) -> bool:
        """Return whether it reports the subject of the recovery `end` as bad again."""
        again = end.ended and not self.ended and self.line == end.line
        return again and (self.incident or 0) > (end.incident or 0)


@dataclass(frozen=True, slots=True)
class Message:
    """Message before a channel formats it.

    headline   `[STATUS] TARGET: summary`, cut for phones; `line` is all of it where it was cut
    body       plain lines; verbatim ones (log lines, commands) are indented by four spaces
    status     the word in brackets
    thread     the same for all messages on one incident (`incident-17`), unique for a notice
    at         when it happened
    opens      whether it is the first of its thread
    urgent     nobody acknowledged: quiet hours do not hold it back
    incidents  all incidents in it; `items` is the status of each
    runbooks   URLs in the body
    recovered  whether what has ended is good again
    fact       fact of a message without `items`
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
        """Status that decides its colour: an end without recovery is not green."""
        return "UNKNOWN" if self.status == "RESOLVED" and not self.recovered else self.status

    @property
    def ends(self) -> bool:
        """Return whether it reports nothing but ends."""
        return bool(self.incidents) and {self.status, *(item.status for item in self.items)} == {"RESOLVED"}

    @property
    def word(self) -> str:
        """Severity by which quiet hours hold it back."""
        return URGENT if self.urgent else self.status

    @property
    def threads(self) -> frozenset[str]:
        """All its threads: its own, and those of its incidents."""
        return frozenset({self.thread, *(incident_thread(number) for number in self.incidents)})

    @property
    def lines(self) -> frozenset[str]:
        """Lines in which it keeps its order: its threads, and its subjects."""
        return self.threads | {item.line for item in self.items}

    def begins_anew(self, end: Message) -> bool:
        """Return whether it reports every subject of the recovery `end` as bad again."""
        return bool(end.items) and all(
            any(mine.outdates(theirs) for mine in self.items) for theirs in end.items
        )


@dataclass(frozen=True, slots=True)
class Notification:
    """Message to one channel. `id` is None until it is stored.

    `state`: `waiting`, `sent`, `diverted` (to a fallback channel), `failed` (refused for good by a channel
    that accepts others), `superseded` (by a newer message) or `expired`. `key`: permanent name, ends with
    `@CHANNEL`; a repeat after a crash has the same. `next_try` and `sent_at`: seconds since the epoch;
    `failure`: the last error in one line. `receipt`: the channel's own record (a thread's address, the
    recipients who have it), which must survive a restart.
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
    """Return the thread of an incident; empty for None."""
    return "" if number is None else f"incident-{number}"


def end_of(number: int | None) -> str:
    """Return the fact that an incident has ended."""
    return f"end {number}"


def addressed(message: Message, channel: str, now: float, name: str) -> Notification:
    """Return the notification of a message to a channel; `name` is unique and permanent."""
    return Notification(f"{name}@{channel}", channel, message, created_at=now)
