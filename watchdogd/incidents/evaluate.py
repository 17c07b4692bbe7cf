"""Evaluation of a round: from alert state, results and people's requests to the next state and events."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents import message_wording
from watchdogd.incidents.confirmation import agrees, better, forgettable, harden, observed, settled_down
from watchdogd.incidents.inhibition import Inhibitions, Muting, silences_after
from watchdogd.incidents.models import AlertState, EventKind, Incident, IncidentEvent, Observation, Silence
from watchdogd.incidents.reminders import announce, event, notice
from watchdogd.plugin import Advice, Recovery, Result, Status
from watchdogd.units import local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from watchdogd.home.inbox import Request
    from watchdogd.incidents.models import AlertPolicy, CheckState, Incident


SubjectKey = tuple[str, str]


def evaluate(
    alerts: AlertState,
    observations: Sequence[Observation],
    policies: Mapping[str, AlertPolicy],
    now: float,
    *,
    requests: Sequence[Request] = (),
    silent: Callable[[str, str, float], str] | None = None,
) -> tuple[AlertState, tuple[IncidentEvent, ...]]:
    """Return the state after a round, and the events in the order in which they are to be reported.

    `observations`: all results of the round. `policies`: how each existing check is judged.
    `requests`: people's requests since the last round.
    `silent(target, check, now)`: why a maintenance window keeps a target silent, or empty.

    Without observations, only time has passed: reminders, escalations, ends of silences, and confirmations of
    slow checks. Results of checks without a policy are ignored, except notices. Of several results about one
    subject the worst counts. A subject that a check no longer reports is OK, provided that no result of the
    check was UNKNOWN.
    """
    silences = silences_after(alerts.silences, requests, now)
    evaluation = _Evaluation(alerts, policies, now, Muting(silences, silent, now))
    evaluation.report_notices(observations)
    evaluation.acknowledge(requests)
    evaluation.report_silences(requests, alerts.silences, silences)
    evaluation.end_removed()
    evaluation.observe(observations)
    evaluation.update_incidents()
    evaluation.report_recoveries(alerts.pending_recoveries)
    evaluation.explain()
    evaluation.notify()
    after = AlertState(evaluation.states, silences, evaluation.next_id, tuple(evaluation.pending_recoveries))
    return after, tuple(evaluation.events)


class _Evaluation:
    def __init__(
        self, alerts: AlertState, policies: Mapping[str, AlertPolicy], now: float, muting: Muting
    ) -> None:
        self.states = dict(alerts.states)
        self.next_id = alerts.next_id
        self.pending_recoveries: list[Incident] = []
        self.events: list[IncidentEvent] = []
        self._policies = policies
        self._now = now
        self._muting = muting
        self._changes: dict[SubjectKey, EventKind] = {}
        self._open: list[SubjectKey] = []
        self._held: set[SubjectKey] = set()
        self._followers: Mapping[int, list[Incident]] = {}

    def report_notices(self, observations: Iterable[Observation]) -> None:
        """Report notices; they change nothing."""
        for seen in observations:
            if seen.result.notice:
                silent = bool(self._muting.reason(seen.target, seen.run, seen.check))
                self.events.append(notice(seen, self._now, quiet=silent))

    def acknowledge(self, requests: Iterable[Request]) -> None:
        """Acknowledge open incidents; the first request counts."""
        for request in (request for request in requests if request.verb == "ack"):
            for key, state in self.states.items():
                incident = state.incident
                if incident is None or incident.id != request.incident or incident.acknowledged_by:
                    continue
                at = min(request.at, self._now)
                incident = replace(incident, acknowledged_by=request.by, acknowledged_at=at)
                self.states[key] = replace(state, incident=incident)
                text = message_wording.acknowledged(incident, request.by, request.reason)
                said = event(EventKind.ACKNOWLEDGED, incident, self._now, summary=text, details="", calm=True)
                fact = (
                    f"incident {incident.id}: no reminder and no call to others until it ends or gets worse"
                )
                self.events.append(replace(said, facts=(fact,)))

    def report_silences(
        self, requests: Iterable[Request], before: Iterable[Silence], after: Iterable[Silence]
    ) -> None:
        """Report who asked for a silence, or ended one, in the threads of the target's open incidents.

        `after`: the silences that are in force then.
        """
        lasting = {(silence.target, silence.by, silence.until) for silence in after}
        silent = {silence.target for silence in before}
        for request in (request for request in requests if request.verb in ("silence", "unsilence")):
            if request.verb == "silence":
                silent.add(request.target)
            elif request.target not in silent:
                continue
            about = [
                state
                for state in self.states.values()
                if request.target in (state.target, state.run, state.check, state.check.rpartition("/")[2])
            ]
            known = next((state for state in about if state.incident), about[0] if about else None)
            facts: tuple[str, ...] = ()
            advice: tuple[Advice, ...] = ()
            if request.verb == "silence":
                text = message_wording.silenced(request.by, request.until - request.at, request.reason)
                facts = (f"until {local_time(request.until)}",)
                if (request.target, request.by, request.until) in lasting:
                    command = f"watchdogd unsilence {shlex.quote(request.target)}"
                    advice = (Advice("To end the silence now:", command),)
            else:
                facts = tuple(message_wording.follower(each.incident) for each in about if each.incident)
                text = message_wording.unsilenced(request.by, wrong=bool(facts))
            self.events.append(
                IncidentEvent(
                    EventKind.NOTICE,
                    self._now,
                    known.check if known else request.target,
                    known.run if known else "",
                    request.target,
                    text,
                    incident=known.incident if known else None,
                    facts=facts,
                    advice=advice,
                    calm=True,
                )
            )

    def end_removed(self) -> None:
        """End the incidents of checks that no longer exist, without a message."""
        for key in [key for key in self.states if key[0] not in self._policies]:
            state = self.states.pop(key)
            if state.incident is not None:
                gone = Recovery("its check was removed", recovered=False)
                struck = replace(state, recovery=gone, details="", quiet=True)
                self._resolve(state.incident, struck)

    def observe(self, observations: Iterable[Observation]) -> None:
        worst: dict[SubjectKey, Observation] = {}
        blind: set[str] = set()
        for seen in observations:
            result = seen.result
            if result.notice or seen.check not in self._policies:
                continue
            key = (seen.check, result.subject)
            other = worst.get(key)
            if other is None or other.result.status.severity < result.status.severity:
                worst[key] = seen
            if result.status is Status.UNKNOWN or result.unanswered:
                blind.add(seen.check)
        for key, seen in worst.items():
            self.states[key] = observed(self.states.get(key), seen, self._policies[seen.check], self._now)
        self._miss(worst, {check for check, _ in worst} - blind)

    def _miss(self, seen: Mapping[SubjectKey, Observation], checks: Collection[str]) -> None:
        """Treat subjects that their checks no longer mention as OK."""
        for key in [key for key in self.states if key[0] in checks and key not in seen]:
            state = self.states[key]
            policy = self._policies[state.check]
            if forgettable(state, policy, self._now):
                del self.states[key]
            else:
                text = f"{state.subject} is no longer reported".lstrip()
                result = Result(Status.OK, text, subject=state.subject).ending(text, timed=False)
                missing = Observation(state.check, state.run, state.target, result, self._now)
                self.states[key] = observed(state, missing, policy, self._now)

    def report_recoveries(self, pending_recoveries: Iterable[Incident]) -> None:
        """Report what ended during a silence once that is over, unless the same has become bad again."""
        held = []
        for incident in pending_recoveries:
            state = self.states.get((incident.check, incident.subject))
            well = state is None or (state.incident is None and state.status is Status.OK)
            if not well or self._muting.reason(incident.target, incident.run, incident.check):
                held.append(incident)
            else:
                ended = replace(incident, silent="")
                self.events.append(
                    event(EventKind.RESOLVED, ended, self._now, summary=ended.recovery, details="")
                )
        self.pending_recoveries = held + self.pending_recoveries

    def update_incidents(self) -> None:
        """Open, change and end incidents according to the confirmed statuses."""
        for key, state in self.states.items():
            if state.status is Status.OK and state.hard is Status.OK and state.incident is None:
                continue
            turned = self._turned(key, state)
            if turned is not state:
                self.states[key] = turned
            if turned.incident is not None:
                self._open.append(key)

    def _turned(self, key: SubjectKey, state: CheckState) -> CheckState:
        policy = self._policies[state.check]
        if state.since > self._now:
            state = replace(state, since=self._now)
        if state.status is not state.hard:
            state = harden(state, policy, self._now)
        incident = state.incident
        if incident is None:
            return state if state.hard is Status.OK else self._opened(key, state)
        change = _change(incident, state, policy)
        if change is None:
            return state
        if change is EventKind.RESOLVED:
            self._resolve(incident, state)
            return replace(state, incident=None)
        self._changes[key] = change
        notified = (
            state.hard if change is EventKind.EASED and incident.notified is not None else incident.notified
        )
        worse = change is EventKind.WORSE and incident.status is not Status.UNKNOWN and state.dated is None
        worse_at = state.level_at if worse else None
        after = replace(incident, status=state.hard, notified=notified, worse_at=worse_at)
        return replace(state, incident=after.seen_as(state.hard, state.summary))

    def _opened(self, key: SubjectKey, state: CheckState) -> CheckState:
        self._changes[key] = EventKind.OPENED
        incident = Incident(
            id=self.next_id,
            check=state.check,
            run=state.run,
            target=state.target,
            subject=state.subject,
            status=state.hard,
            opened_at=self._now,
            summary=state.summary,
            details=state.details,
            since=state.began,
            seen_at=state.since,
            fault=state.fault,
            facts=state.facts,
            advice=state.advice,
            worst=state.hard,
            worst_summary=state.summary,
        )
        self.next_id += 1
        return replace(state, incident=incident)

    def _resolve(self, incident: Incident, state: CheckState) -> None:
        """End an incident; report that if the incident was reported, after a silence if there is one."""
        silent = self._muting.reason(incident.target, incident.run, incident.check)
        resolved_at = max(self._now, incident.opened_at)
        words = message_wording.ended(incident, state, resolved_at)
        if incident.inhibited_by is not None and incident.peak[0] is Status.UNKNOWN:
            words = message_wording.known_again(incident, resolved_at)
        recovered = message_wording.recovered(state)
        ended = replace(incident, resolved_at=resolved_at, recovery=words, recovered=recovered, silent=silent)
        wanted = incident.notified is not None and not (
            state.quiet and incident.notified is not Status.UNKNOWN
        )
        if wanted and silent:
            self.pending_recoveries.append(ended)
        self.events.append(
            event(
                EventKind.RESOLVED,
                ended,
                self._now,
                summary=words,
                details=state.details,
                quiet=not wanted or bool(silent),
            )
        )

    def explain(self) -> None:
        """Find the causes of unreported incidents, and those that must wait until a cause is confirmed."""
        unannounced = [key for key in self._open if self._incident(key).notified is None]
        if not unannounced:
            return
        causes = Inhibitions(self.states.values(), self._policies, self._now)
        for key in unannounced:
            incident, follows = self._incident(key), self._policies[key[0]].follows
            leader = causes.leader(incident, follows)
            if leader != incident.inhibited_by:
                self._rest_on(key, leader)
                causes.explain(incident, leader)
            if leader is None and causes.cause_pending(incident, follows):
                self._held.add(key)
        self._followers = causes.inhibited(self._incident(key) for key in unannounced)

    def _incident(self, key: SubjectKey) -> Incident:
        incident = self.states[key].incident
        assert incident is not None
        return incident

    def _rest_on(self, key: SubjectKey, leader: int | None) -> None:
        """Set or clear the cause; an incident whose cause is gone must be confirmed anew."""
        state = self.states[key]
        incident = replace(self._incident(key), inhibited_by=leader)
        if leader is None and agrees(state):
            state = replace(state, since=self._now, attempts=0, before=0)
        self.states[key] = replace(state, incident=incident)

    def notify(self) -> None:
        """Report what is due now for each open incident."""
        for key in self._open:
            state, before = self.states[key], self._incident(key)
            silent = self._muting.reason(before.target, before.run, before.check)
            after, events = announce(
                state,
                self._policies[key[0]],
                self._now,
                silent=silent,
                held=key in self._held,
                change=self._changes.get(key),
                inhibited=self._followers.get(before.id, ()),
            )
            self.events += events
            if after is not before:
                self.states[key] = replace(state, incident=after)


def _change(incident: Incident, state: CheckState, policy: AlertPolicy) -> EventKind | None:
    """Return how the confirmed status changes an open incident.

    UNKNOWN changes nothing about a known fault. An incident ends or eases only if the newest result agrees:
    an end is never reported in the words of a bad result.
    """
    hard = state.hard
    if hard is incident.status or hard is Status.UNKNOWN:
        return None
    if not better(incident.status, hard):
        return EventKind.WORSE
    if state.status is not hard or not settled_down(state, policy):
        return None
    return EventKind.RESOLVED if hard is Status.OK else EventKind.EASED


def resumed(past: AlertState, alerts: AlertState, now: float) -> tuple[AlertState, tuple[IncidentEvent, ...]]:
    """Return the state to continue with, and what became of incidents, to be recorded only.

    An incident that is open in both states continues under its new number, with its acknowledgement, and the
    old number ends. One that is not open any more is confirmed, and reported, by the results to come.
    """
    states = dict(alerts.states)
    events = []
    for key, before in past.states.items():
        present = states.get(key)
        if present is None or (present.incident is None and before.incident is not None):
            states[key] = before
        elif present.incident is not None and before.incident is not None:
            states[key] = replace(present, incident=_going_on(before.incident, present.incident))
            events.append(_renumbered(before.incident, present.incident.id, now))
    silences = {each.target: each for each in (*past.silences, *alerts.silences)}
    next_id = max(past.next_id, alerts.next_id)
    owed = past.pending_recoveries + alerts.pending_recoveries
    return AlertState(states, tuple(silences.values()), next_id, owed), tuple(events)


def _going_on(before: Incident, present: Incident) -> Incident:
    """Return `present`, which is `before` found anew, with what people did about it."""
    taken = present if present.acknowledged_by else before
    turned = before.turned_at if before.fault == present.fault else present.fault_began
    return replace(
        present,
        opened_at=min(before.opened_at, present.opened_at),
        since=min(before.began, present.began),
        turned_at=turned,
        acknowledged_by=taken.acknowledged_by,
        acknowledged_at=taken.acknowledged_at,
        escalated_at=before.escalated_at or present.escalated_at,
    ).seen_as(*before.peak)


def _renumbered(before: Incident, number: int, now: float) -> IncidentEvent:
    words = f"it goes on as incident {number}"
    ended = replace(before, resolved_at=max(now, before.opened_at), recovery=words, recovered=False)
    return event(EventKind.RESOLVED, ended, now, summary=words, details="", quiet=True)
