"""Notifications due for an open incident, from comparing it with what was reported before. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watchdogd.incidents import message_wording
from watchdogd.incidents.confirmation import FLAP_CALM, agrees, confirmed, flapping, window
from watchdogd.incidents.models import (
    LABELS,
    AlertPolicy,
    CheckState,
    EventKind,
    Incident,
    IncidentEvent,
    Observation,
)
from watchdogd.plugin import Advice, Status


def announce(
    state: CheckState,
    policy: AlertPolicy,
    now: float,
    *,
    silent: str = "",
    held: bool = False,
    change: EventKind | None = None,
    inhibited: Sequence[Incident] = (),
) -> tuple[Incident, list[IncidentEvent]]:
    """Return the open incident after this round's notifications, and the events.

    `silent`: why its target must be silent. `held`: a cause of it may be about to be confirmed. `change`:
    what happened to it in this round (recorded even if not reported). `inhibited`: the incidents that it
    explains.
    """
    before = state.incident
    assert before is not None
    after = _reanchored(before, silent, now)
    if (
        before.silent and not silent and after.notified_at is not None
    ):  # reported once it is seen to be still wrong
        after = replace(after, notified_at=min(after.notified_at, now - policy.repeat_every))
    kind = _due(state, after, policy, now, held=held)
    events = []
    if change is not None and change is not kind:
        events.append(event(change, after, now, summary=_summary(change, after, now), quiet=True))
    if kind is not None:
        after = _announced(after, now)
        events.append(_event_of(kind, after, state, policy, now, inhibited))
    if _escalates(state, after, policy, now):
        after = replace(after, escalated_at=now)
        events.append(_event_of(EventKind.ESCALATION, after, state, policy, now, inhibited))
    return after, events


def event(
    kind: EventKind,
    incident: Incident,
    now: float,
    *,
    summary: str | None = None,
    details: str | None = None,
    quiet: bool = False,
    calm: bool = False,
    notes: tuple[str, ...] = (),
) -> IncidentEvent:
    """Return an event of an incident, with the incident's own summary by default."""
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
        calm=calm,
        notes=notes,
        facts=incident.facts if details is None else (),
        advice=incident.advice if details is None else (),
    )


def notice(seen: Observation, now: float, *, quiet: bool) -> IncidentEvent:
    """Return the event of a result that is reported once and changes nothing."""
    result = seen.result
    return IncidentEvent(
        EventKind.NOTICE,
        now,
        seen.check,
        seen.run,
        seen.target,
        result.summary,
        result.details,
        quiet=quiet,
        label=result.label if result.label in LABELS else LABELS[0],  # a user's plugin may give any date
        facts=result.facts,
        advice=result.advice,
    )


def _reanchored(incident: Incident, silent: str, now: float) -> Incident:
    """Return an incident with its silence, and without notification times in the future.

    Those come from a clock that was set back.
    """
    announced, notified = incident.first_notified_at, incident.notified_at
    early = (announced is not None and announced > now) or (notified is not None and notified > now)
    if early:
        announced = None if announced is None else min(announced, now)
        notified = None if notified is None else min(notified, now)
    elif silent == incident.silent:
        return incident
    return replace(incident, silent=silent, first_notified_at=announced, notified_at=notified)


def _due(
    state: CheckState, incident: Incident, policy: AlertPolicy, now: float, *, held: bool
) -> EventKind | None:
    """Return the notification due for an open incident now, if any."""
    if incident.silent or not _wrong(state):
        return None
    if incident.notified is None:
        free = not (held or incident.acknowledged_by or incident.inhibited_by is not None)
        return EventKind.OPENED if free and confirmed(state, policy, now) else None
    if incident.notified is not incident.status or _another_fault(state, incident, policy, now):
        return EventKind.WORSE
    if incident.acknowledged_by or incident.notified_at is None:
        return None
    return EventKind.REMINDER if now - incident.notified_at >= policy.repeat_every else None


def _another_fault(state: CheckState, incident: Incident, policy: AlertPolicy, now: float) -> bool:
    """Return whether it has turned into a fault that was not reported yet, whoever works on the one before.

    Each fault is reported once, should two of them take turns.
    """
    if state.status is not incident.status or incident.fault in incident.notified_faults:
        return False
    return bool(incident.notified_faults) and confirmed(replace(state, before=0), policy, now)


def _wrong(state: CheckState) -> bool:
    """Return True if it is still bad as far as is known: the latest result does not contradict it."""
    return state.hard is not Status.OK and agrees(state)


def _announced(incident: Incident, now: float) -> Incident:
    announced = now if incident.first_notified_at is None else incident.first_notified_at
    notified_as = tuple(dict.fromkeys((*incident.notified_as, incident.status)))
    return replace(
        incident,
        notified=incident.status,
        notified_as=notified_as,
        notified_faults=tuple(dict.fromkeys((*incident.notified_faults, incident.fault))),
        notified_at=now,
        first_notified_at=announced,
    )


def _escalates(state: CheckState, incident: Incident, policy: AlertPolicy, now: float) -> bool:
    """Return True if others are to be notified: once, if it was reported, lasts, and is not acknowledged."""
    if (
        policy.escalate_after is None
        or incident.first_notified_at is None
        or incident.escalated_at is not None
    ):
        return False
    if incident.acknowledged_by or incident.silent or not _wrong(state):
        return False
    return now - incident.first_notified_at >= policy.escalate_after


def _event_of(
    kind: EventKind,
    incident: Incident,
    state: CheckState,
    policy: AlertPolicy,
    now: float,
    inhibited: Sequence[Incident],
) -> IncidentEvent:
    notes = []
    if incident.doubt:
        notes.append(f"not known now: {incident.doubt}")
    flaps, first = "", None
    if kind is not EventKind.EASED and flapping(state, policy, now):
        first = _first_turn(state, incident)
        flaps = message_wording.flapping(len(state.flips), now - first)
        notes.append(message_wording.calm(window(policy) / FLAP_CALM))
    # What only cannot be known because of it is named in its facts.
    told = [each for each in inhibited if not (policy.blinds and each.status is Status.UNKNOWN)]
    notes += map(message_wording.follower, told)
    said = event(kind, incident, now, summary=_summary(kind, incident, now, flaps), notes=tuple(notes))
    key = (not incident.subject and policy.limit) or policy.patient
    recovers = Advice(message_wording.recovers(key))
    return replace(said, flaps_since=first, advice=(recovers, *said.advice)) if flaps else said


def _first_turn(state: CheckState, incident: Incident) -> float:
    """Return when the first of the episodes counted by `flips` began."""
    return min(state.flips[0], incident.began) if incident.turns == len(state.flips) else state.flips[0]


def _summary(kind: EventKind, incident: Incident, now: float, flaps: str = "") -> str:
    """Return the fact with what is new in it, so that no message repeats the one before.

    `flaps`: that it comes and goes, if it does.
    """
    if kind is EventKind.REMINDER:
        return message_wording.reminder(incident, now, flaps)
    if kind is EventKind.ESCALATION:
        return message_wording.unacknowledged(incident, now, flaps)
    if kind is EventKind.EASED:
        return message_wording.eased(incident)
    return f"{flaps}: {incident.summary}" if flaps else incident.summary
