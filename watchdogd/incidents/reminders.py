"""Notifications that are due for an open incident, found by comparing it with what was reported. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents.confirmation import FLAP_CALM, agrees, confirmed, flapping, window
from watchdogd.incidents.models import LABELS, EventKind, IncidentEvent
from watchdogd.plugin import Status
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.incidents.models import AlertPolicy, CheckState, Incident, Observation


def announce(
    standing: CheckState,
    policy: AlertPolicy,
    now: float,
    *,
    silent: str = "",
    held: bool = False,
    change: EventKind | None = None,
    followers: Sequence[Incident] = (),
) -> tuple[Incident, list[IncidentEvent]]:
    """Return the open incident after this round's notifications, and the events.

    `silent` is why its target has to be silent, `held` that a cause may be about to show, `change` what
    became of it in this round (recorded where it is not told), `followers` what it explains.
    """
    before = standing.incident
    assert before is not None
    after = _reanchored(before, silent, now)
    if before.silent and not silent and after.told_at is not None:  # told, once it is seen to be wrong still
        after = replace(after, told_at=min(after.told_at, now - policy.repeat_every))
    kind = _due(standing, after, policy, now, held=held)
    events = []
    if change is not None and change is not kind:
        events.append(event(change, after, now, quiet=True))
    if kind is not None:
        after = _announced(after, now)
        events.append(_event_of(kind, after, standing, policy, now, followers))
    if _escalates(standing, after, policy, now):
        after = replace(after, escalated_at=now)
        events.append(_event_of(EventKind.ESCALATION, after, standing, policy, now, followers))
    return after, events


def event(
    kind: EventKind,
    incident: Incident,
    now: float,
    *,
    summary: str | None = None,
    details: str | None = None,
    quiet: bool = False,
    notes: tuple[str, ...] = (),
) -> IncidentEvent:
    """Return what happened to an incident, in its own words where no others are given."""
    return IncidentEvent(
        kind=kind,
        at=now,
        check=incident.check,
        run=incident.run,
        target=incident.target,
        summary=incident.summary if summary is None else summary,
        details=incident.details if details is None else details,
        incident=incident,
        quiet=quiet,
        notes=notes,
    )


def notice(seen: Observation, now: float, *, quiet: bool) -> IncidentEvent:
    """Return the event of a result that is reported once and changes nothing."""
    result = seen.result
    words = (result.summary, result.details)
    label = result.label if result.label in LABELS else LABELS[0]  # a plugin of somebody's may name any
    return IncidentEvent(
        EventKind.NOTICE, now, seen.check, seen.run, seen.target, *words, quiet=quiet, label=label
    )


def _reanchored(incident: Incident, silent: str, now: float) -> Incident:
    """Return an incident with its silence, and with no notification in the future.

    The clock may have been set back.
    """
    announced, told = incident.announced_at, incident.told_at
    early = (announced is not None and announced > now) or (told is not None and told > now)
    if early:
        announced = None if announced is None else min(announced, now)
        told = None if told is None else min(told, now)
    elif silent == incident.silent:
        return incident
    return replace(incident, silent=silent, announced_at=announced, told_at=told)


def _due(
    standing: CheckState, incident: Incident, policy: AlertPolicy, now: float, *, held: bool
) -> EventKind | None:
    """Return the notification that is due for an open incident now, if any."""
    if incident.silent or not _wrong(standing):
        return None
    if incident.told is None:
        free = not (held or incident.acknowledged_by or incident.explained_by is not None)
        return EventKind.OPENED if free and confirmed(standing, policy, now) else None
    if incident.told is not incident.status:
        return EventKind.WORSE
    if incident.acknowledged_by or incident.told_at is None:
        return None
    return EventKind.REMINDER if now - incident.told_at >= policy.repeat_every else None


def _wrong(standing: CheckState) -> bool:
    """Return whether it is still wrong as far as is known: the latest result does not speak against it."""
    return standing.settled is not Status.OK and agrees(standing)


def _announced(incident: Incident, now: float) -> Incident:
    announced = now if incident.announced_at is None else incident.announced_at
    told_as = tuple(dict.fromkeys((*incident.told_as, incident.status)))
    return replace(incident, told=incident.status, told_as=told_as, told_at=now, announced_at=announced)


def _escalates(standing: CheckState, incident: Incident, policy: AlertPolicy, now: float) -> bool:
    """Return whether others are to be called: once, for what was reported, stands, and nobody took."""
    if policy.escalate_after is None or incident.announced_at is None or incident.escalated_at is not None:
        return False
    if incident.acknowledged_by or incident.silent or not _wrong(standing):
        return False
    return now - incident.announced_at >= policy.escalate_after


def _event_of(
    kind: EventKind,
    incident: Incident,
    standing: CheckState,
    policy: AlertPolicy,
    now: float,
    followers: Sequence[Incident],
) -> IncidentEvent:
    """Return an event to be reported, with its notes."""
    notes = []
    if kind is EventKind.ESCALATION:
        notes.append(f"nobody acknowledged it for {_span(now - (incident.announced_at or now))}")
    if incident.doubt:
        notes.append(f"cannot be found out now: {incident.doubt}")
    if kind in (EventKind.OPENED, EventKind.WORSE) and flapping(standing, policy, now):
        notes.append(_flapping_note(standing, policy))
    notes += [_line(follower) for follower in followers]
    still = f"still, for {_span(now - incident.fault_began)}: " if kind is EventKind.REMINDER else ""
    return event(kind, incident, now, summary=still + incident.summary, notes=tuple(notes))


def _line(incident: Incident) -> str:
    """Return an inhibited incident as one line inside its cause's message."""
    subject = f" {incident.subject}" if incident.subject else ""
    return f"[{incident.status.name}] {incident.check}{subject}: {incident.summary}"


def _flapping_note(standing: CheckState, policy: AlertPolicy) -> str:
    span = window(policy)
    return (
        f"it comes and goes: {len(standing.flips)} times within {format_duration(span)}; "
        f"its end is told when it has lasted for {format_duration(span / FLAP_CALM)}"
    )


def _span(seconds: float) -> str:
    """Return a length of time as people write it: `30 s`, `40 min`, `3 h`, `1.5 h`, `2 d`."""
    for length, unit, digits in ((86400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= length:
            return f"{seconds / length:.{digits}f}".removesuffix(".0") + f" {unit}"
    return f"{max(0.0, seconds):.0f} s"
