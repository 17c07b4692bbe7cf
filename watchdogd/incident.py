"""The values of an incident's life: what was observed, what stands, what happened. No decisions here.

`incidents.py` decides on them, `history/` keeps them, `notify/` words them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.plugin import Result


@dataclass(frozen=True, slots=True)
class Policy:
    """How one check's results are judged. Times in seconds.

    `confirm` bad (or good) results in a row open (or close) an incident; `every` is the check's cadence:
    a bad state that has lasted (confirm - 1) * every is confirmed too, so that slow checks do not wait
    for ever. `follows` are the full names of checks whose open incident explains this check's.
    """

    confirm: int = 2
    every: float = 60.0
    repeat_every: float = 4 * 3600.0
    escalate_after: float | None = None
    follows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """One result of one check, with whom it speaks of. `target` is the TARGET of messages."""

    check: str
    run: str
    target: str
    result: Result
    at: float


@dataclass(frozen=True, slots=True)
class Incident:
    """The time during which one check and subject is not OK.

    `summary` and `details` are the latest. `acknowledged_by` and `silent` (a reason such as
    `silenced by bob`) hold messages back; `explained_by` is the id of the incident that it was noted in.
    `told` is the status last announced (None: nothing was), `told_at` when something about it was last sent.
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
    explained_by: int | None = None
    told: Status | None = None
    told_at: float | None = None
    escalated_at: float | None = None

    @property
    def state(self) -> str:
        """`open`, `acknowledged` or `resolved`."""
        if self.resolved_at is not None:
            return "resolved"
        return "acknowledged" if self.acknowledged_by else "open"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one check and subject: its last result, and how many in a row were good or bad.

    `since` is when the present row of good or bad results began, `streak` its length. `flips` are the
    times of recent turns, for flapping.
    """

    check: str
    subject: str
    status: Status
    summary: str
    at: float
    since: float
    streak: int
    flips: tuple[float, ...] = ()
    incident: Incident | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """Somebody's word that a target's messages shall wait; `until` in seconds since the epoch."""

    target: str
    until: float
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Book:
    """All that the judge remembers between rounds: standings by (check, subject), silences, next id."""

    standings: Mapping[tuple[str, str], Standing] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()
    next_id: int = 1


class Kind(enum.StrEnum):
    """What can happen to an incident; NOTICE happens beside any."""

    OPENED = "opened"
    WORSE = "worse"
    EASED = "eased"
    RESOLVED = "resolved"
    REMINDER = "reminder"
    ESCALATION = "escalation"
    ACKNOWLEDGED = "acknowledged"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to be told (or, `quiet`, only recorded). `incident` is as it stands after it.

    A notice has none. `notes` are lines about what follows from the same cause and is not told by itself.
    """

    kind: Kind
    at: float
    check: str
    run: str
    target: str
    summary: str
    details: str = ""
    incident: Incident | None = None
    quiet: bool = False
    notes: tuple[str, ...] = ()
