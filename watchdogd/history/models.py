"""Records of a round and of its history, exchanged between the history and the rest of the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.incidents.models import AlertState, IncidentEvent, Observation
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.notify.notification import Notification


STALLED = "stalled"
"""Metric recorded for a result's progress: 1 where the run is stalled, else 0."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Time without rounds, and why."""

    begin: float
    end: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One round, stored in one transaction.

    `alerts`: the whole alert state after the round; the store writes the differences from the last one.
    `memories`: changed plugin memories by check, as JSON; `started`: times of the last starts of checks;
    `touches`: actions of users (switches, acks, silences), one line each.
    """

    at: float
    observations: tuple[Observation, ...] = ()
    alerts: AlertState = field(default_factory=AlertState)
    events: tuple[IncidentEvent, ...] = ()
    notifications: tuple[Notification, ...] = ()
    memories: Mapping[str, str] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    touches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Past:
    """State that a starting daemon reads from the history. `last_round` is None in a new home."""

    alerts: AlertState = field(default_factory=AlertState)
    memories: Mapping[str, str] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    last_round: float | None = None
    waiting: tuple[Notification, ...] = ()


class Change(NamedTuple):
    """Change of a subject's status."""

    at: float
    run: str
    check: str
    subject: str
    status: Status
    summary: str


class Reading(NamedTuple):
    """Measurement, with the subject's status and summary at that time.

    Of aggregated ones `value` is the mean, `low` and `high` the extremes of five minutes or of an hour. An
    invalid value is `nan`. A change of status is a reading too, without metric and value, so that checks
    without metrics are included.
    """

    at: float
    run: str
    check: str
    subject: str
    status: Status
    metric: str
    value: float | None
    unit: str
    summary: str
    low: float | None
    high: float | None


class Measure(NamedTuple):
    """Aggregate of one metric over a span of time: number, extremes and mean."""

    run: str
    check: str
    subject: str
    metric: str
    unit: str
    readings: int
    low: float
    mean: float
    high: float


class Happening(NamedTuple):
    """Recorded event of an incident (None: a notice), or of a user's action."""

    at: float
    kind: str
    run: str
    check: str
    incident: int | None
    summary: str
    quiet: bool


class UserAction(NamedTuple):
    """Line on a user's action: a switch, an ack or a silence."""

    at: float
    line: str
