"""Evaluation of a round: from an alert state, results and people's requests to the next state and events."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents.confirmation import agrees, better, forgettable, harden, observed, settled_down
from watchdogd.incidents.inhibition import Inhibitions, Muting, silences_after
from watchdogd.incidents.models import AlertState, EventKind, Incident, IncidentEvent, Observation
from watchdogd.incidents.reminders import announce, event, notice
from watchdogd.plugin import Result, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from watchdogd.home.inbox import Request
    from watchdogd.incidents.models import AlertPolicy, CheckState, Incident


SubjectKey = tuple[str, str]


def evaluate(
    book: AlertState,
    observations: Sequence[Observation],
    policies: Mapping[str, AlertPolicy],
    now: float,
    *,
    orders: Sequence[Request] = (),
    silent: Callable[[str, str, float], str] | None = None,
) -> tuple[AlertState, tuple[IncidentEvent, ...]]:
    """Return the state after a round, and what happened, in the order in which it is to be reported.

    `observations` are all results of the round, `policies` how each existing check is judged, `orders` what
    people asked for since the last round. `silent(target, check, now)` says why a maintenance window keeps
    a target silent, or nothing. Without observations only time has passed: reminders, escalations, the end
    of silences, and the confirmation of slow checks. Results of checks without a policy are left out, but
    for notices. Of several results about one subject the worst counts. A subject that a check reports no
    longer, though all that it did report could be found out, is well.
    """
    silences = silences_after(book.silences, orders, now)
    sitting = _Evaluation(book, policies, now, Muting(silences, silent, now))
    sitting.note(observations)
    sitting.acknowledge(orders)
    sitting.strike()
    sitting.take_in(observations)
    sitting.turn()
    sitting.pay(book.owed)
    sitting.explain()
    sitting.tell()
    return AlertState(sitting.standings, silences, sitting.next_id, tuple(sitting.owed)), tuple(
        sitting.events
    )


class _Evaluation:
    """State of one evaluation."""

    def __init__(
        self, book: AlertState, policies: Mapping[str, AlertPolicy], now: float, hush: Muting
    ) -> None:
        self.standings = dict(book.standings)
        self.next_id = book.next_id
        self.owed: list[Incident] = []
        self.events: list[IncidentEvent] = []
        self._policies = policies
        self._now = now
        self._hush = hush
        self._changes: dict[SubjectKey, EventKind] = {}
        self._open: list[SubjectKey] = []
        self._held: set[SubjectKey] = set()
        self._followers: Mapping[int, list[Incident]] = {}

    def note(self, observations: Iterable[Observation]) -> None:
        """Report notices; they change nothing."""
        for seen in observations:
            if seen.result.notice:
                silent = bool(self._hush.reason(seen.target, seen.run, seen.check))
                self.events.append(notice(seen, self._now, quiet=silent))

    def acknowledge(self, orders: Iterable[Request]) -> None:
        """Acknowledge open incidents; the first request counts."""
        for order in (order for order in orders if order.verb == "ack"):
            for key, standing in self.standings.items():
                incident = standing.incident
                if incident is None or incident.id != order.incident or incident.acknowledged_by:
                    continue
                at = min(order.at, self._now)
                incident = replace(incident, acknowledged_by=order.by, acknowledged_at=at)
                self.standings[key] = replace(standing, incident=incident)
                text = f"acknowledged by {order.by}"
                self.events.append(
                    event(
                        EventKind.ACKNOWLEDGED,
                        incident,
                        self._now,
                        summary=text,
                        details=order.reason,
                        quiet=True,
                    )
                )

    def strike(self) -> None:
        """End the incidents of checks that no longer exist, without a message."""
        for key in [key for key in self.standings if key[0] not in self._policies]:
            standing = self.standings.pop(key)
            if standing.incident is not None:
                struck = replace(
                    standing, summary="the check is no longer configured", details="", quiet=True
                )
                self._resolve(standing.incident, struck)

    def take_in(self, observations: Iterable[Observation]) -> None:
        """Judge the results."""
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
            self.standings[key] = observed(
                self.standings.get(key), seen, self._policies[seen.check], self._now
            )
        self._miss(worst, {check for check, _ in worst} - blind)

    def _miss(self, seen: Mapping[SubjectKey, Observation], checks: Collection[str]) -> None:
        """Count subjects that checks report no longer as OK."""
        for key in [key for key in self.standings if key[0] in checks and key not in seen]:
            standing = self.standings[key]
            policy = self._policies[standing.check]
            if forgettable(standing, policy, self._now):
                del self.standings[key]
            else:
                text = f"{standing.subject} is no longer reported".lstrip()
                result = Result(Status.OK, text, subject=standing.subject)
                missing = Observation(standing.check, standing.run, standing.target, result, self._now)
                self.standings[key] = observed(standing, missing, policy, self._now)

    def pay(self, owed: Iterable[Incident]) -> None:
        """Report what ended during a silence once that is over, unless the same thing is bad anew."""
        held = []
        for incident in owed:
            standing = self.standings.get((incident.check, incident.subject))
            well = standing is None or (standing.incident is None and standing.status is Status.OK)
            if not well or self._hush.reason(incident.target, incident.run, incident.check):
                held.append(incident)
            else:
                ended = replace(incident, silent="")
                self.events.append(
                    event(EventKind.RESOLVED, ended, self._now, summary=ended.recovery, details="")
                )
        self.owed = held + self.owed

    def turn(self) -> None:
        """Open, change and end incidents as the settled statuses demand."""
        for key, standing in self.standings.items():
            if standing.status is Status.OK and standing.settled is Status.OK and standing.incident is None:
                continue
            turned = self._turned(key, standing)
            if turned is not standing:
                self.standings[key] = turned
            if turned.incident is not None:
                self._open.append(key)

    def _turned(self, key: SubjectKey, standing: CheckState) -> CheckState:
        policy = self._policies[standing.check]
        if standing.since > self._now:
            standing = replace(standing, since=self._now)
        if standing.status is not standing.settled:
            standing = harden(standing, policy, self._now)
        incident = standing.incident
        if incident is None:
            return standing if standing.settled is Status.OK else self._opened(key, standing)
        change = _change(incident, standing, policy, self._now)
        if change is None:
            return standing
        if change is EventKind.RESOLVED:
            self._resolve(incident, standing)
            return replace(standing, incident=None)
        self._changes[key] = change
        told = standing.settled if change is EventKind.EASED and incident.told is not None else incident.told
        return replace(standing, incident=replace(incident, status=standing.settled, told=told))

    def _opened(self, key: SubjectKey, standing: CheckState) -> CheckState:
        self._changes[key] = EventKind.OPENED
        incident = Incident(
            id=self.next_id,
            check=standing.check,
            run=standing.run,
            target=standing.target,
            subject=standing.subject,
            status=standing.settled,
            opened_at=self._now,
            summary=standing.summary,
            details=standing.details,
            since=standing.since,
            fault=standing.fault,
        )
        self.next_id += 1
        return replace(standing, incident=incident)

    def _resolve(self, incident: Incident, standing: CheckState) -> None:
        """End an incident: told where it was told of, and later where silence reigns."""
        silent = self._hush.reason(incident.target, incident.run, incident.check)
        resolved_at = max(self._now, incident.opened_at)
        ended = replace(incident, resolved_at=resolved_at, recovery=standing.summary, silent=silent)
        wanted = incident.told is not None and not (standing.quiet and incident.told is not Status.UNKNOWN)
        if wanted and silent:
            self.owed.append(ended)
        self.events.append(
            event(
                EventKind.RESOLVED,
                ended,
                self._now,
                summary=standing.summary,
                details=standing.details,
                quiet=not wanted or bool(silent),
            )
        )

    def explain(self) -> None:
        """Find the causes of what was not told yet, and what has to wait for a cause to be confirmed."""
        untold = [key for key in self._open if self._incident(key).told is None]
        if not untold:
            return
        causes = Inhibitions(self.standings.values(), self._policies, self._now)
        for key in untold:
            incident, follows = self._incident(key), self._policies[key[0]].follows
            leader = causes.leader(incident, follows)
            if leader != incident.explained_by:
                self._rest_on(key, leader)
                causes.explain(incident, leader)
            if leader is None and causes.brewing(incident, follows):
                self._held.add(key)
        self._followers = causes.followers(self._incident(key) for key in untold)

    def _incident(self, key: SubjectKey) -> Incident:
        incident = self.standings[key].incident
        assert incident is not None
        return incident

    def _rest_on(self, key: SubjectKey, leader: int | None) -> None:
        """Set or lift the explanation; what was explained has to be confirmed anew without its cause."""
        standing = self.standings[key]
        incident = replace(self._incident(key), explained_by=leader)
        if leader is None and agrees(standing):
            standing = replace(standing, since=self._now, streak=0, before=0)
        self.standings[key] = replace(standing, incident=incident)

    def tell(self) -> None:
        """Report of each open incident what is due now."""
        for key in self._open:
            standing, before = self.standings[key], self._incident(key)
            silent = self._hush.reason(before.target, before.run, before.check)
            after, events = announce(
                standing,
                self._policies[key[0]],
                self._now,
                silent=silent,
                held=key in self._held,
                change=self._changes.get(key),
                followers=self._followers.get(before.id, ()),
            )
            self.events += events
            if after is not before:
                self.standings[key] = replace(standing, incident=after)


def _change(incident: Incident, standing: CheckState, policy: AlertPolicy, now: float) -> EventKind | None:
    """Return how the confirmed status changes an open incident. UNKNOWN changes nothing about a known fault.

    It ends or eases only where the newest result says the same: an end is never reported in a bad one's
    words.
    """
    settled = standing.settled
    if settled is incident.status or settled is Status.UNKNOWN:
        return None
    if not better(incident.status, settled):
        return EventKind.WORSE
    if standing.status is not settled or not settled_down(standing, policy, now):
        return None
    return EventKind.RESOLVED if settled is Status.OK else EventKind.EASED


def resumed(past: AlertState, book: AlertState, now: float) -> tuple[AlertState, tuple[IncidentEvent, ...]]:
    """Return the state to go on with, and what became of incidents, quietly.

    What is open in both was told anew: it goes on under its new number, with what people did about it, and
    the old number ends. What was open and is not any more is settled, and told, by the results that come.
    """
    standings = dict(book.standings)
    events = []
    for key, before in past.standings.items():
        present = standings.get(key)
        if present is None or (present.incident is None and before.incident is not None):
            standings[key] = before
        elif present.incident is not None and before.incident is not None:
            standings[key] = replace(present, incident=_going_on(before.incident, present.incident))
            events.append(_renumbered(before.incident, present.incident.id, now))
    silences = {each.target: each for each in (*past.silences, *book.silences)}
    next_id = max(past.next_id, book.next_id)
    return AlertState(standings, tuple(silences.values()), next_id, past.owed + book.owed), tuple(events)


def _going_on(before: Incident, present: Incident) -> Incident:
    """`present`, which is `before` seen anew."""
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
    )


def _renumbered(before: Incident, number: int, now: float) -> IncidentEvent:
    words = f"it goes on as incident {number}"
    ended = replace(before, resolved_at=max(now, before.opened_at), recovery=words)
    return event(EventKind.RESOLVED, ended, now, summary=words, details="", quiet=True)
