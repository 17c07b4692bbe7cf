"""Values in an incident's life: observations, states, events. No decisions here.

`incidents/` makes the decisions, `history/` stores the values, `notify/` words them.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

from watchdogd.incidents import message_wording
from watchdogd.plugin import Advice, Recovery, Result, Status

SELF = "watchdogd"
"""The check under which the daemon reports about itself."""
HOME_SILENT = "home does not answer"
HOME_CLOSED = "home cannot be used"
"""The kinds of fault of the daemon during which nothing that people answer is taken in."""
DELIVERY = f"{SELF}/delivery"
"""The check under which it reports broken channels: in `status`, since the outbox notifies by the others."""


_GRAVITY = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)
"""Statuses by how bad they are known to be; of UNKNOWN nothing is known."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """Rules by which one check's results are judged. Times in seconds.

    `confirm`: how many bad (good) results in a row open (close) an incident. `every`: the check's cadence.
    `patience`: a slower check is also confirmed once its results have said the same for this long, so that
        a daily check is not reported a day late, should it not answer when it is looked at again.
    `follows`: full names of checks whose open incident explains this check's.
    `blinds`: its incident only explains why others are UNKNOWN. `escalate_after`: None for never.
    `patient`: the key of config.toml that makes it wait longer, as `confirm under [checks.NAME]`; `limit`:
        that of its result without a subject, if that has one: `stale_after under [runs.NAME]`.
    """

    confirm: int = 2
    every: float = 60.0
    repeat_every: float = 4 * 3600.0
    escalate_after: float | None = None
    follows: tuple[str, ...] = ()
    patience: float = 120.0
    blinds: bool = False
    patient: str = ""
    limit: str = ""


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

    `summary`, `facts`, `advice`, `details`: of the latest bad result. `doubt`: summary of a later UNKNOWN.
    `recovery`: how it ended. `recovered`: it is good again, not just closed.
    `worst`: the heaviest status that it had, with the last summary then (`worst_summary`).
    `since`: when the fault that opened it began. `seen_at`: when the first result found it.
    `fault`: the fault that it reports now (see CheckState); `turned_at`: when that began, if it reported
        another one before.
    `worse_at`: when it got as severe as it is now, if that was later and the check does not date it itself.
    `turns`: how many times it turned bad, while it came and went.
    `notified`: the status last announced (None: none was); `notified_as`: all that were announced;
        `notified_faults`: the faults that were.
    `first_notified_at`: the first announcement; `notified_at`: the last announcement or reminder;
        `escalated_at`: when others were notified.

    Three things hold its messages back: `acknowledged_by` (somebody works on it, until it ends), `silent` (a
    reason such as `silenced by bob`), and `inhibited_by` (the id of the incident that explains it).
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
    notified_faults: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    seen_at: float | None = None
    recovered: bool = True
    worst: Status | None = None
    worst_summary: str = ""
    turns: int = 1
    worse_at: float | None = None

    @property
    def peak(self) -> tuple[Status, str]:
        """The heaviest status that was confirmed, and the last summary then."""
        return (self.status, self.summary) if self.worst is None else (self.worst, self.worst_summary)

    def seen_as(self, status: Status, summary: str) -> Incident:
        """Return it after a result that confirms its status, with this summary."""
        if self.worst is not None and _GRAVITY.index(status) < _GRAVITY.index(self.worst):
            return self
        known = (self.worst, self.worst_summary) == (status, summary)
        return self if known else replace(self, worst=status, worst_summary=summary)

    @property
    def fault_began(self) -> float:
        """Time at which the fault that it reports now began."""
        return self.began if self.turned_at is None else self.turned_at

    @property
    def status_began(self) -> float:
        """Time since which the fault that it reports now is as severe as it is."""
        return self.fault_began if self.worse_at is None else max(self.worse_at, self.fault_began)

    @property
    def began(self) -> float:
        """Since when it is bad: before its confirmation, so before `opened_at`."""
        return self.opened_at if self.since is None else self.since

    @property
    def weight(self) -> tuple[bool, bool, bool, bool, bool, float]:
        """Sort key: heaviest incidents first."""
        return self.weight_among(())

    def weight_among(
        self, standing: Container[tuple[str, str]]
    ) -> tuple[bool, bool, bool, bool, bool, float]:
        """Return the sort key, given the (check, subject) pairs for which a run stands still.

        First critical ones, unknown ones last; then those that nobody acknowledged, those for which a run
        stands still, those about a run, the oldest.
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
    """State of one check and subject: its last result, and how many in a row said the same.

    `hard`: the confirmed status (Nagios's hard state). Results form rows: those that agree with `hard`, and
        those that differ from it in one way (good, bad, more or less severe, unknown).
    `attempts`: how many results in a row, since `since`, found the same; `before`: the others of that row.
    `fault`: what the last result found: its kind, UNKNOWN, or empty if all is well.
    `flips`: when recent changes to bad, confirmed since, were first seen, to detect flapping.
    `level_at`: since when its results have had the present status.
    `quiet`: a result of the present row asked for no message; if UNKNOWN, the last one.
    `dated`: when it began according to the last result.

    `run`, `target`, `details`, `facts`, `advice` and `recovery` are those of the last result.
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
    level_at: float | None = None

    @property
    def began(self) -> float:
        """Since when it is so, according to the check or else by observation."""
        return self.since if self.dated is None else min(self.since, self.dated)


@dataclass(frozen=True, slots=True)
class Silence:
    """A person's request, made `at` a time, to hold a target's messages back; seconds since the epoch.

    `target` is a run, a disk, a plugin's name (`log_staleness`) or a check's full name.
    """

    target: str
    until: float
    by: str
    reason: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AlertState:
    """Everything kept between rounds: states by (check, subject), silences, the next incident id.

    `pending_recoveries`: reported incidents that ended during a silence; their end is reported after it.
    """

    states: Mapping[tuple[str, str], CheckState] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    next_id: int = 1
    pending_recoveries: tuple[Incident, ...] = ()


class EventKind(enum.StrEnum):
    """Kinds of events of an incident; a NOTICE may come without one."""

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
    """An action that watchdogd is about to take: its `kind` (`requeue`), in `words` (`requeue its job`).

    `when`: when it comes, if a limit delays it. `refused`: why it will not be done.
    """

    kind: str
    words: str
    when: str = ""
    refused: str = ""

    @property
    def limited(self) -> bool:
        """True if it does not come at once."""
        return bool(self.when or self.refused)

    def __str__(self) -> str:
        return f"{self.words} {self.when}" if self.when else self.words


LABELS = ("INFO", "ACTION", "WARNING")
"""Labels of notices: what people or jobs did, what watchdogd did, what people must know."""


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """An event to report (or, if `quiet`, only to record). `incident` is its state after the event.

    A notice has an incident only if it is about what people or watchdogd did about one.
    `summary`: the fact in the first line, made by `message_wording`. `facts`, `advice`: those of the result.
    `notes`: further lines: incidents with the same cause that are not reported by themselves, that it cannot
        be checked now, for how long nobody acknowledged it.
    `done`: what watchdogd did about it, one line for each record; `upcoming`: what it will do.
    `polled`: a Guard polls the run's kill switch. `label`: a notice's, one of LABELS.
    `calm`: it goes to everybody but wakes nobody. `suspect`: who is suspected of causing a stall.
    `flaps_since`: when it first turned bad, if it comes and goes; else None.
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
    flaps_since: float | None = None

    @property
    def told(self) -> str:
        """The fact, and who is suspected."""
        return message_wording.joined(self.summary, self.suspect)

    @property
    def flaps(self) -> bool:
        """Whether it comes and goes."""
        return self.flaps_since is not None
