"""Records of a round, and of what is found again: values between the history and everybody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.incidents.models import AlertState, IncidentEvent, Observation
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.notify.notification import Notification


STALLED = "stalled"
"""The number that is recorded of a result's progress: 1 where the run has none, 0 where it gets on."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time during which nobody watched, and why."""

    begin: float
    end: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One round, stored in one transaction: all of it or nothing.

    `alerts` is the whole alert state after the round; the store writes what differs from what it wrote last.
    `memories` are the plugin memories that changed, by check, as JSON text; `started` the times at which
    checks were last started; `touches` who pressed what (switches, acks, silences), one line of text each.
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
    """State of the past that a starting daemon finds in the history. `last_round` is None in a new home."""

    alerts: AlertState = field(default_factory=AlertState)
    memories: Mapping[str, str] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    last_round: float | None = None
    waiting: tuple[Notification, ...] = ()


class Change(NamedTuple):
    """Change of a check's subject to another status."""

    at: float
    run: str
    check: str
    subject: str
    status: Status
    summary: str


class Reading(NamedTuple):
    """One number that a check measured, with the status and summary that its subject had taken on by then.

    Of a time that is thinned out, `value` is the mean and `low` and `high` are the extremes of five minutes
    or of an hour. A value that was not a number is `nan`. A turn to another status is a reading too, without
    metric and value: so that checks that measure nothing have their lines.
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
    """Sum of all numbers of one metric in a span of time: how many, the extremes, and their mean."""

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
    """An event as it was recorded: what became of an incident (None: a notice), or who pressed what."""

    at: float
    kind: str
    run: str
    check: str
    incident: int | None
    summary: str
    quiet: bool


class UserAction(NamedTuple):
    """Line on a switch that somebody pressed, or an ack or silence that somebody asked for."""

    at: float
    line: str
