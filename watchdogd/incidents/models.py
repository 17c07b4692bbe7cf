"""Values of an incident's life: observations, states, events. No decisions here.

`incidents/` decides on them, `history/` keeps them, `notify/` words them.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from watchdogd.incidents import message_wording
from watchdogd.plugin import Advice, Recovery, Result, Status

SELF = "watchdogd"
"""The check under which the daemon speaks of itself."""
DELIVERY = f"{SELF}/delivery"
"""The check under which it reports broken channels: for `status`; the outbox notifies the others."""


_GRAVITY = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)
"""Statuses by what is known to be wrong: of what is not known nothing is."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """Rules by which one check's results are judged. Times in seconds.

    `confirm` bad (or good) results in a row open (or close) an incident; `every` is the check's cadence.
    A check that is slower than `patience` is confirmed by time too: once its newest results have said the
    same for `patience` seconds, so that a daily check is not heard a day late. `patience` is meant to be
    `confirm` times the daemon's interval. `follows` are the full names of checks whose open incident
    explains this check's; `blinds`: all that it explains is that others cannot be found out.
    `escalate_after`: None for never.
    """

    confirm: int = 2
    every: float = 60.0
    repeat_every: float = 4 * 3600.0
    escalate_after: float | None = None
    follows: tuple[str, ...] = ()
    patience: float = 120.0
    blinds: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """A result of a check, with its run and target. `target` is the TARGET of messages."""

    check: str
    run: str
    target: str
    result: Result
    at: float


@dataclass(frozen=True, slots=True)
class Incident:
    """The time during which one check and subject is not OK, from its confirmation to its resolution.

    `summary`, `facts`, `advice` and `details` are those of the latest bad result; `doubt` is the summary of
    an UNKNOWN one that came since: the thing cannot be found out now. `recovery` says how it ended, and
    `recovered` whether it is good again, or only closed. `worst` is the heaviest status that it had, and
    `worst_summary` what was said then, last of all.

    Three things hold its messages back: `acknowledged_by` (somebody works on it; ends with the incident),
    `silent` (a reason such as `silenced by bob`), and `inhibited_by` (the id of the incident that it was
    noted in). `notified` is the status last announced (None: nothing was), `notified_as` are all that were.
    `first_notified_at` is when it was first announced, `notified_at` when it was last announced or reminded
    of, `escalated_at` when others were called. `since` is when what opened it began. `fault` is which fault
    it reports now (see CheckState), `turned_at` when that one began, where it reported another one before,
    `seen_at` when the first result found it.
    """

    id: int
    check: str
    run: str
    target: str
    subject: str
    status: Status
    opened_at: float
    summary: str
    details: str = ""
    resolved_at: float | None = None
    acknowledged_by: str = ""
    acknowledged_at: float | None = None
    inhibited_by: int | None = None
    notified: Status | None = None
    first_notified_at: float | None = None
    notified_at: float | None = None
    escalated_at: float | None = None
    silent: str = ""
    doubt: str = ""
    recovery: str = ""
    since: float | None = None
    fault: str = ""
    turned_at: float | None = None
    notified_as: tuple[Status, ...] = ()
    facts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    seen_at: float | None = None
    recovered: bool = True
    worst: Status | None = None
    worst_summary: str = ""

    @property
    def peak(self) -> tuple[Status, str]:
        """The heaviest status that was confirmed of it, and what was said then, last of all."""
        return (self.status, self.summary) if self.worst is None else (self.worst, self.worst_summary)

    def seen_as(self, status: Status, summary: str) -> Incident:
        """Return it after a result that bears its confirmed status out in these words."""
        if self.worst is not None and _GRAVITY.index(status) < _GRAVITY.index(self.worst):
            return self
        known = (self.worst, self.worst_summary) == (status, summary)
        return self if known else replace(self, worst=status, worst_summary=summary)

    @property
    def fault_began(self) -> float:
        """Time at which the fault that it reports now began."""
        return self.began if self.turned_at is None else self.turned_at

    @property
    def began(self) -> float:
        """Time since which it is bad: before its confirmation, so before `opened_at`."""
        return self.opened_at if self.since is None else self.since

    @property
    def weight(self) -> tuple[bool, bool, bool, bool, bool, float]:
        """Order of incidents, the heaviest first."""
        return self.weight_among(())

    def weight_among(
        self, standing: Container[tuple[str, str]]
    ) -> tuple[bool, bool, bool, bool, bool, float]:
        """Return its order where check and subject of what runs stand still for are known.

        What is critical and then what is known to be wrong, what nobody looks after, what a run stands still
        for, what is about a run; the oldest.
        """
        mild, unknown = self.status is not Status.CRITICAL, self.status is Status.UNKNOWN
        moves = (self.check, self.subject) not in standing
        return mild, unknown, bool(self.acknowledged_by), moves, not self.run, self.opened_at

    @property
    def state(self) -> str:
        """`open`, `acknowledged` or `resolved`."""
        if self.resolved_at is not None:
            return "resolved"
        return "acknowledged" if self.acknowledged_by else "open"


@dataclass(frozen=True, slots=True)
class CheckState:
    """State of one check and subject: its last result, and how many said the same in a row.

    `hard` is the confirmed status (Nagios's hard state), `attempts` how many results found the same in a row
    since `since`; `before` counts the others of that row. Results form rows: those that agree with `hard`,
    and those that differ from it in one way (good, bad, more or less severe, unknown). `fault` is what the
    last result found: the kind that it names, UNKNOWN where it could not be found out, empty where all is
    well. `flips` are the times of recent confirmed changes to the bad, for flapping. `run`, `target`,
    `details`, `facts`, `advice`, `recovery` and `dated` (its `since`) are of the last result; `quiet` is True
    where one of the present row asked for no message.
    """

    check: str
    subject: str
    status: Status
    summary: str
    at: float
    since: float
    attempts: int
    flips: tuple[float, ...] = ()
    incident: Incident | None = None
    hard: Status = Status.OK
    run: str = ""
    target: str = ""
    details: str = ""
    quiet: bool = False
    fault: str = ""
    before: int = 0
    facts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    recovery: Recovery | None = None
    dated: float | None = None

    @property
    def began(self) -> float:
        """Time since which it is so, as the check says, or since which it was seen."""
        return self.since if self.dated is None else min(self.since, self.dated)


@dataclass(frozen=True, slots=True)
class Silence:
    """A person's request, made at `at`, that a target's messages wait; times in seconds since the epoch.

    `target` is a run, a disk, a plugin's name (`log_staleness`) or a check's full name.
    """

    target: str
    until: float
    by: str
    reason: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AlertState:
    """Everything that is remembered between rounds: states by (check, subject), silences, the next id.

    `pending_recoveries` are incidents that were reported, and ended during a silence: their end is reported
    when it is over.
    """

    states: Mapping[tuple[str, str], CheckState] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    next_id: int = 1
    pending_recoveries: tuple[Incident, ...] = ()


class EventKind(enum.StrEnum):
    """Kinds of what can happen to an incident; NOTICE happens beside any."""

    OPENED = "opened"
    WORSE = "worse"
    EASED = "eased"
    RESOLVED = "resolved"
    REMINDER = "reminder"
    ESCALATION = "escalation"
    ACKNOWLEDGED = "acknowledged"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class NextAction:
    """An action that watchdogd is about to take: its `kind` (`requeue`), in `words` (`requeue its job`)."""

    kind: str
    words: str


LABELS = ("INFO", "ACTION", "WARNING")
"""The words of notices: what people or jobs did, what watchdogd did, and what people must know."""


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """An event to be reported (or, `quiet`, only recorded). `incident` is as it is after it.

    A notice has none, but for what people or watchdogd did about one. `summary` goes into the first line, as
    `message_wording` made it. `facts` and `advice` are those of the result; `notes` are further lines: what
    follows from the same cause and is not reported by itself, that it cannot be found out now, how long
    it was not acknowledged. `done` is what watchdogd did about it, a line a record, `upcoming` what it will
    do. `polled`: a Guard polls the run's kill switch. `label` is the word of a notice, one of LABELS. `calm`:
    it goes to everybody, but wakes nobody. `suspect` says whom the evidence accuses of a stall.
    """

    kind: EventKind
    at: float
    check: str
    run: str
    target: str
    summary: str
    details: str = ""
    incident: Incident | None = None
    quiet: bool = False
    notes: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    label: str = "INFO"
    facts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    upcoming: tuple[NextAction, ...] = ()
    polled: bool = False
    calm: bool = False
    suspect: str = ""

    @property
    def told(self) -> str:
        """Return the fact, and who is suspected."""
        return message_wording.joined(self.summary, self.suspect)
