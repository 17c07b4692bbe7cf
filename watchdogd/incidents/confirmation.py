"""Confirmation: the state of one check and subject after one more result. Pure.

A result has no effect until it is confirmed. Results form rows: those that agree with the confirmed status,
and those that differ from it in one way. A row is confirmed once it is `confirm` results long. A check slower
than `patience` (see AlertPolicy) need not wait for its next result: there a row is also confirmed once it has
lasted for `patience`. UNKNOWN is confirmed only if nothing worse is known: it neither ends nor softens a
known fault.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from watchdogd.incidents.models import AlertPolicy, CheckState, Incident, Observation
from watchdogd.plugin import Result, Status
from watchdogd.system.times import fresh

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN

FLAP_TURNS = 3
"""So many confirmed changes to bad within the window are flapping."""
FLAP_ROUNDS = 60
"""Length of the flapping window in rounds of the check (an hour at one a minute); at most six hours."""
FLAP_LONGEST = 6 * 3600.0
FLAP_CALM = 4
"""A flapping subject has recovered, or eased, once it stayed so for the window divided by this."""


class Deviation(enum.Enum):
    """Ways in which a result differs from the confirmed status."""

    SAME = enum.auto()
    GOOD = enum.auto()
    BAD = enum.auto()
    LEVEL = enum.auto()
    DOUBT = enum.auto()


def deviation(hard: Status, status: Status) -> Deviation:
    if status is hard:
        return Deviation.SAME
    if status is OK:
        return Deviation.GOOD
    if hard is OK or hard is UNKNOWN:
        return Deviation.BAD
    return Deviation.DOUBT if status is UNKNOWN else Deviation.LEVEL


def observed(state: CheckState | None, seen: Observation, policy: AlertPolicy, now: float) -> CheckState:
    """Return the state of a check after one more result; the result's time is at most `now`."""
    result = seen.result
    status = result.status
    at = min(seen.at, now)
    fault = "" if status is OK else status.name if status is UNKNOWN else result.kind
    hard, since, attempts, before, quiet, level_at = OK, at, 1, 0, False, at
    flips: tuple[float, ...] = ()
    incident = None
    if state is not None:
        hard, flips, incident = state.hard, state.flips, state.incident
        if status is state.status:
            level_at = at if state.level_at is None else min(state.level_at, at)
        if status is state.status or deviation(hard, status) is deviation(hard, state.status):
            quiet = state.quiet
            if fault == state.fault:
                since, attempts, before = min(state.since, at), state.attempts + 1, state.before
            else:
                before = state.before + state.attempts
        if incident is not None and status is not OK:
            incident = _latest(incident, result, fault, since)
    told = status is not OK or incident is not None
    after = CheckState(
        seen.check,
        result.subject,
        status,
        result.summary,
        at,
        since,
        attempts,
        flips,
        incident,
        hard,
        seen.run,
        seen.target,
        result.details if told else "",
        result.quiet if status is UNKNOWN else status is OK and (quiet or result.quiet),
        fault,
        before,
        result.facts if told else (),
        result.advice if told else (),
        result.recovery if told else None,
        result.since if status is not OK else None,
        level_at,
    )
    return after if status is hard else harden(after, policy, now)


def _latest(incident: Incident, result: Result, fault: str, since: float) -> Incident:
    """Return an open incident with the text of its newest bad result; UNKNOWN only adds a doubt."""
    if result.status is UNKNOWN and incident.status is not UNKNOWN:
        return incident if incident.doubt == result.summary else replace(incident, doubt=result.summary)
    if fault != incident.fault:
        began = since if result.since is None else min(since, result.since)
        incident = replace(incident, fault=fault, turned_at=began, seen_at=since, worse_at=None)
    if result.status is incident.status:
        incident = incident.seen_as(result.status, result.summary)
    said = {name: getattr(result, name) for name in ("summary", "details", "facts", "advice")}
    if not incident.doubt and all(getattr(incident, name) == value for name, value in said.items()):
        return incident
    return replace(incident, doubt="", **said)


def harden(state: CheckState, policy: AlertPolicy, now: float) -> CheckState:
    """Return the state with its latest status confirmed, if its row is long enough."""
    kind = deviation(state.hard, state.status)
    if kind is Deviation.SAME or kind is Deviation.DOUBT or not confirmed(state, policy, now):
        return state
    if state.status is UNKNOWN and state.quiet:
        return state
    flips, incident = _recent(state.flips, policy, now), state.incident
    if not better(state.hard, state.status):
        flips = (*flips, min(state.since, now))
    if state.hard is OK and incident is not None:
        incident = replace(incident, turns=incident.turns + 1)
    return replace(state, hard=state.status, flips=flips, incident=incident)


def confirmed(state: CheckState, policy: AlertPolicy, now: float) -> bool:
    """Return True if the present row is long enough, in results or (for a slow check) in time."""
    if state.attempts >= policy.confirm or state.before + state.attempts >= 2 * policy.confirm:
        return True
    return policy.every > policy.patience and now - state.since >= policy.patience


def better(before: Status, after: Status) -> bool:
    """Return True if a change is an improvement; UNKNOWN to WARNING is none: now a fault is known."""
    return after is OK or (before is CRITICAL and after is WARNING)


def pending(state: CheckState, policy: AlertPolicy, now: float) -> bool:
    """Return True if the latest result is worse than the confirmed status and not confirmed yet."""
    kind = deviation(state.hard, state.status)
    worse = kind is Deviation.BAD or (kind is Deviation.LEVEL and not better(state.hard, state.status))
    return worse and not confirmed(state, policy, now)


def agrees(state: CheckState) -> bool:
    """Return True if the latest result confirms the confirmed status, or at least does not contradict it."""
    return deviation(state.hard, state.status) in (Deviation.SAME, Deviation.DOUBT)


def settled_down(state: CheckState, policy: AlertPolicy) -> bool:
    """Return True if an improvement can be believed: at once, or if it flaps, once it was seen to last.

    What came after the last result is not known: there may have been no round for hours.
    """
    if not flapping(state, policy, state.at):
        return True
    return state.at - state.since >= window(policy) / FLAP_CALM


def flapping(state: CheckState, policy: AlertPolicy, now: float) -> bool:
    """Return True if the subject recently turned bad again and again."""
    return len(_recent(state.flips, policy, now)) >= FLAP_TURNS


def forgettable(state: CheckState, policy: AlertPolicy, now: float) -> bool:
    """Return True if the state of a subject that is no longer reported can be dropped."""
    well = state.hard is OK and state.status is OK and state.incident is None
    return well and not _recent(state.flips, policy, now)


def window(policy: AlertPolicy) -> float:
    """Return for how many seconds changes count as flapping."""
    return min(FLAP_ROUNDS * policy.every, FLAP_LONGEST)


def _recent(flips: tuple[float, ...], policy: AlertPolicy, now: float) -> tuple[float, ...]:
    return tuple(time for time in flips if fresh(time, now, window(policy))) if flips else ()
