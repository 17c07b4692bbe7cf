"""Inhibition and silences: which open incident explains another, and which messages must wait. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.incidents.confirmation import Deviation, deviation
from watchdogd.incidents.models import AlertPolicy, CheckState, Incident, Silence
from watchdogd.plugin import Status
from watchdogd.system.times import JUMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from watchdogd.home.inbox import Request


class Inhibitions:
    """The open incidents, and the bad results that may soon become incidents, by check."""

    def __init__(self, states: Iterable[CheckState], policies: Mapping[str, AlertPolicy], now: float) -> None:
        self._open: defaultdict[str, list[Incident]] = defaultdict(list)
        self._pending_causes: defaultdict[str, list[CheckState]] = defaultdict(list)
        self._inhibited: dict[int, int | None] = {}
        self._policies = policies
        for state in states:
            if state.incident is not None:
                self._open[state.check].append(state.incident)
                self._inhibited[state.incident.id] = state.incident.inhibited_by
            if _pending(state, policies[state.check], now):
                self._pending_causes[state.check].append(state)

    def leader(self, incident: Incident, follows: Iterable[str]) -> int | None:
        """Return the id of the incident that explains this one: the one that did before, else the worst."""
        found = [
            other
            for check in follows
            for other in self._open.get(check, ())
            if self._inhibits(check, other.status, incident.status)
            and not self._rests_on(other.id, incident.id)
        ]
        ranked = ((other.id != incident.inhibited_by, -other.status.severity, other.id) for other in found)
        return min(ranked)[2] if found else None

    def _inhibits(self, check: str, cause: Status, status: Status) -> bool:
        """Return True if `check` with status `cause` may explain a `status`."""
        if cause is Status.UNKNOWN or self._policies[check].blinds:
            return status is Status.UNKNOWN
        return cause.severity >= status.severity

    def explain(self, incident: Incident, leader: int | None) -> None:
        """Note that `leader` inhibits this incident from now on."""
        self._inhibited[incident.id] = leader

    def cause_pending(self, incident: Incident, follows: Iterable[str]) -> bool:
        """Return True if a cause of this incident is about to be confirmed."""
        return any(
            self._inhibits(check, state.status, incident.status)
            for check in follows
            for state in self._pending_causes.get(check, ())
        )

    def inhibited(self, incidents: Iterable[Incident]) -> dict[int, list[Incident]]:
        """Return the inhibited incidents, by the incident that is their root cause."""
        found: defaultdict[int, list[Incident]] = defaultdict(list)
        for incident in incidents:
            if incident.inhibited_by is not None:
                found[self._root(incident.id)].append(incident)
        return found

    def _root(self, start: int) -> int:
        while (above := self._inhibited.get(start)) is not None:
            start = above
        return start

    def _rests_on(self, start: int | None, wanted: int) -> bool:
        """Return True if the chain of causes from `start` leads to `wanted`; checks may form a circle."""
        while start is not None and start != wanted:
            start = self._inhibited.get(start)
        return start == wanted


def _pending(state: CheckState, policy: AlertPolicy, now: float) -> bool:
    """Return True if the latest result is bad and will soon be confirmed or refuted."""
    if deviation(state.hard, state.status) not in (Deviation.BAD, Deviation.LEVEL):
        return False
    return now - state.since <= policy.confirm * policy.every + policy.patience


def silences_after(
    silences: tuple[Silence, ...], requests: Iterable[Request], now: float
) -> tuple[Silence, ...]:
    """Return the silences in force after people's requests; a new one replaces one of the same target.

    A request dated in the future means that the clock was set back since: it then lasts from now.
    """
    lasting = {silence.target: silence for silence in silences}
    for request in requests:
        if request.verb == "silence":
            lasting[request.target] = Silence(
                request.target, request.until, request.by, request.reason, request.at
            )
        elif request.verb == "unsilence":
            lasting.pop(request.target, None)
    known = (_of_now(silence, now) for silence in lasting.values())
    return tuple(silence for silence in known if silence.until > now)


def _of_now(silence: Silence, now: float) -> Silence:
    ahead = silence.at - now
    return replace(silence, at=now, until=silence.until - ahead) if ahead > JUMP else silence


class Muting:
    """Reasons why messages must wait in this round; each is looked up only once."""

    def __init__(
        self,
        silences: tuple[Silence, ...],
        windows: Callable[[str, str, float], str] | None,
        now: float,
    ) -> None:
        self._silences = silences
        self._windows = windows
        self._now = now
        self._answers: dict[tuple[str, str, str], str] = {}

    def reason(self, target: str, run: str, check: str) -> str:
        """Return `silenced by bob: moving racks`, the maintenance window's words, or empty."""
        if not self._silences and self._windows is None:
            return ""
        asked = (target, run, check)
        if asked not in self._answers:
            self._answers[asked] = self._reason(*asked)
        return self._answers[asked]

    def _reason(self, target: str, run: str, check: str) -> str:
        names = {name for name in (target, run, check, check.rpartition("/")[2]) if name}
        for silence in self._silences:
            if silence.target in names:
                return f"silenced by {silence.by}" + (f": {silence.reason}" if silence.reason else "")
        return self._windows(target, check, self._now) if self._windows else ""
