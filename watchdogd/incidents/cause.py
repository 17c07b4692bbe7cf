"""One cause, one message: which open incident explains another, so that the other is noted inside it. Pure.

A check explains those that follow it, while it has an open incident that is at least as severe: a warning
(a held job) must never swallow a critical (a hung training). While it is bad and not yet confirmed, the
others wait for what becomes of it. What cannot be found out, and what `blinds` others (a file system that is
silent), explains only what cannot be found out either: who sees a fault all the same is heard.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from watchdogd.incidents.standing import Row, row
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from watchdogd.incidents.models import Incident, Policy, Standing


class Causes:
    """The open incidents, and the bad results that may become some, by check."""

    def __init__(self, standings: Iterable[Standing], policies: Mapping[str, Policy], now: float) -> None:
        self._open: defaultdict[str, list[Incident]] = defaultdict(list)
        self._brewing: defaultdict[str, list[Standing]] = defaultdict(list)
        self._explained: dict[int, int | None] = {}
        self._policies = policies
        for standing in standings:
            if standing.incident is not None:
                self._open[standing.check].append(standing.incident)
                self._explained[standing.incident.id] = standing.incident.explained_by
            if _undecided(standing, policies[standing.check], now):
                self._brewing[standing.check].append(standing)

    def leader(self, incident: Incident, follows: Iterable[str]) -> int | None:
        """The id of the incident that explains this one: the one that did before, else the worst."""
        found = [
            other
            for check in follows
            for other in self._open.get(check, ())
            if self._explains(check, other.status, incident.status)
            and not self._rests_on(other.id, incident.id)
        ]
        order = ((other.id != incident.explained_by, -other.status.severity, other.id) for other in found)
        return min(order)[2] if found else None

    def _explains(self, check: str, cause: Status, status: Status) -> bool:
        """Whether `check` being `cause` may stand for what is of `status`."""
        if cause is Status.UNKNOWN or self._policies[check].blinds:
            return status is Status.UNKNOWN
        return cause.severity >= status.severity

    def explain(self, incident: Incident, leader: int | None) -> None:
        """From now on this one rests on `leader`."""
        self._explained[incident.id] = leader

    def brewing(self, incident: Incident, follows: Iterable[str]) -> bool:
        """Whether a cause is about to be confirmed."""
        return any(
            self._explains(check, standing.status, incident.status)
            for check in follows
            for standing in self._brewing.get(check, ())
        )

    def followers(self, incidents: Iterable[Incident]) -> dict[int, list[Incident]]:
        """The explained incidents, by the one at the root of their causes."""
        found: defaultdict[int, list[Incident]] = defaultdict(list)
        for incident in incidents:
            if incident.explained_by is not None:
                found[self._root(incident.id)].append(incident)
        return found

    def _root(self, start: int) -> int:
        while (above := self._explained.get(start)) is not None:
            start = above
        return start

    def _rests_on(self, start: int | None, wanted: int) -> bool:
        """Whether the explanations that `start` rests on come to `wanted`: checks may follow each other."""
        while start is not None and start != wanted:
            start = self._explained.get(start)
        return start == wanted


def _undecided(standing: Standing, policy: Policy, now: float) -> bool:
    """Whether the latest result is bad and will soon be confirmed or refuted."""
    if row(standing.settled, standing.status) not in (Row.BAD, Row.LEVEL):
        return False
    return now - standing.since <= policy.confirm * policy.every + policy.patience
