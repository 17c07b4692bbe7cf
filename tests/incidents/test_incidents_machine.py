"""The incident function under random results, orders, clocks and restarts: what must hold whatever comes."""

from __future__ import annotations

import pickle
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from watchdogd.home.inbox import Request
from watchdogd.incidents.evaluate import evaluate
from watchdogd.incidents.models import (
    AlertPolicy,
    AlertState,
    EventKind,
    Incident,
    IncidentEvent,
    Observation,
)
from watchdogd.plugin import Result, Status

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LIVENESS, LOG, DISK, BACKUP = "glide/job_liveness", "glide/log_staleness", "fast/disk_quota", "backup"
SLURM, FILES = "watchdogd/slurm", "watchdogd/files:/fast"
POLICIES = {
    LIVENESS: AlertPolicy(escalate_after=30 * MINUTE, follows=(SLURM,)),
    LOG: AlertPolicy(confirm=3, follows=(LIVENESS, SLURM, FILES)),
    DISK: AlertPolicy(confirm=1, repeat_every=HOUR, follows=(FILES,)),
    BACKUP: AlertPolicy(every=DAY),
    SLURM: AlertPolicy(blinds=True),
    FILES: AlertPolicy(blinds=True),
}
GROUNDS = {check for check, policy in POLICIES.items() if policy.blinds}
TARGETS = {
    LIVENESS: ("glide", "glide"),
    LOG: ("glide", "glide"),
    DISK: ("", "fast"),
    BACKUP: ("", "backup"),
    SLURM: ("", "watch"),
    FILES: ("", "watch"),
}
STATUSES = st.sampled_from([Status.OK, Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN])
SILENCEABLE = st.sampled_from(["glide", "fast", "log_staleness", "backup", "watch"])
ABOUT = {EventKind.WORSE, EventKind.REMINDER, EventKind.ESCALATION}


class Incidents(RuleBasedStateMachine):
    """One book, and an account of everything that was told about it."""

    def __init__(self) -> None:
        super().__init__()
        self.alerts = AlertState()
        self.now = 1_790_000_000.0
        self.maintenance = ""
        self.opened: Counter[int] = Counter()
        self.resolved: Counter[int] = Counter()
        self.born: set[int] = set()
        self.ended: dict[int, Incident] = {}
        self.latest: dict[str, Status] = dict.fromkeys(POLICIES, Status.OK)
        self.kinds: dict[str, str] = dict.fromkeys(POLICIES, "")

    # ------------------------------------------------------------ what happens

    @initialize(statuses=st.fixed_dictionaries(dict.fromkeys(POLICIES, STATUSES)))
    def begin(self, statuses: dict[str, Status]) -> None:
        self.pass_round(statuses, MINUTE)

    @rule(
        statuses=st.fixed_dictionaries({}, optional=dict.fromkeys(POLICIES, STATUSES)),
        after=st.sampled_from([1.0, MINUTE, MINUTE, MINUTE, 10 * MINUTE, 5 * HOUR]),
    )
    def some_results(self, statuses: dict[str, Status], after: float) -> None:
        self.pass_round(statuses, after)

    @rule(check=st.sampled_from(sorted(POLICIES)), status=STATUSES, count=st.integers(2, 5))
    def one_check_insists(self, check: str, status: Status, count: int) -> None:
        for _ in range(count):
            self.pass_round({check: status}, MINUTE)

    @rule(check=st.sampled_from([LIVENESS, DISK]), turns=st.integers(2, 4))
    def one_check_flaps(self, check: str, turns: int) -> None:
        for number in range(2 * turns):
            status = Status.OK if number % 2 else Status.CRITICAL
            self.one_check_insists(check, status, 2)

    @rule(check=st.sampled_from(sorted(POLICIES)), kind=st.sampled_from(["", "held", "gone"]))
    def one_check_finds_another_fault(self, check: str, kind: str) -> None:
        self.kinds[check] = kind
        self.pass_round({check: self.latest[check]}, MINUTE)

    @rule(check=st.sampled_from(sorted(POLICIES)))
    def one_check_finds_two_faults_in_turn(self, check: str) -> None:
        """They may keep each other from being confirmed, but not from being known."""
        for number in range(2 * POLICIES[check].confirm):
            self.kinds[check] = ("held", "gone")[number % 2]
            self.pass_round({check: Status.CRITICAL}, MINUTE)
        assert self.standing(check).status is Status.CRITICAL

    @rule(whom=SILENCEABLE, length=st.sampled_from([5 * MINUTE, 2 * HOUR]))
    def silence(self, whom: str, length: float) -> None:
        self.pass_order(Request("silence", "bo", self.now, target=whom, until=self.now + length))

    @rule(whom=SILENCEABLE)
    def unsilence(self, whom: str) -> None:
        self.pass_order(Request("unsilence", "bo", self.now, target=whom))

    @precondition(lambda self: self.open())
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        incident = data.draw(st.sampled_from(self.open()))
        self.pass_order(Request("ack", "cleo", self.now, incident=incident.id))
        (after,) = [other for other in self.open() if other.id == incident.id]
        assert after.acknowledged_by == "cleo"

    @rule(whom=st.sampled_from(["", "fast"]))
    def maintenance_begins_or_ends(self, whom: str) -> None:
        self.maintenance = whom
        self.pass_round({}, 1.0)

    @rule(back=st.sampled_from([5.0, 2 * HOUR, 400 * DAY]))
    def clock_is_set_back(self, back: float) -> None:
        self.pass_round({}, -back)

    @rule()
    def daemon_is_restarted(self) -> None:
        self.alerts = pickle.loads(pickle.dumps(self.alerts))
        before = self.alerts
        assert not self.pass_round({}, 0.0), "a restart told something"
        assert self.alerts == before

    @rule(doubts=st.integers(0, 2), first=st.sets(st.sampled_from([LOG, DISK])))
    def a_file_system_falls_silent(self, doubts: int, first: set[str]) -> None:
        """Whoever notices it first, and however long it takes to be sure, it is told once."""
        self.all_is_well_for_long()
        blind = dict.fromkeys((LOG, DISK), Status.UNKNOWN)
        told = self.pass_round({FILES: Status.UNKNOWN} | dict.fromkeys(first, Status.UNKNOWN), MINUTE)
        for _ in range(doubts):
            told += self.pass_round({FILES: Status.UNKNOWN} | blind, MINUTE)
        for _ in range(3):
            told += self.pass_round({FILES: Status.CRITICAL} | blind, MINUTE)
        assert {event.check for event in told} == {FILES}
        assert all(self.standing(check).inhibited_by is not None for check in blind)

    @rule()
    def all_is_well_for_long(self) -> None:
        """Whatever was told as open is told as resolved, once."""
        self.stay(dict.fromkeys(POLICIES, Status.OK))
        assert self.open() == []
        assert self.alerts.pending_recoveries == ()
        assert self.opened == self.resolved
        assert self.born == self.ended.keys()

    @rule(statuses=st.fixed_dictionaries(dict.fromkeys(POLICIES, STATUSES)))
    def all_stays_as_it_is_for_long(self, statuses: dict[str, Status]) -> None:
        """What lasts is known, and told unless somebody took it or its cause was told."""
        self.stay(statuses)
        found = {incident.check: incident for incident in self.open()}
        for check, status in statuses.items():
            incident = found.get(check)
            if status is Status.OK:
                assert incident is None, f"{check} is well, and {incident} is open"
                continue
            assert incident is not None, f"{check} is {status.name}, and nothing is open"
            assert incident.status is status or status is Status.UNKNOWN
            self.is_known(incident, {other.id: other for other in found.values()})

    def is_known(self, incident: Incident, incidents: dict[int, Incident]) -> None:
        if incident.notified is not None:
            assert incident.notified is incident.status
        elif incident.inhibited_by is not None:
            cause = incidents[incident.inhibited_by]
            assert cause.check in GROUNDS or cause.status.severity >= incident.status.severity
            self.is_known(cause, incidents)
        else:
            assert incident.acknowledged_by, f"nobody heard of {incident}"

    # ------------------------------------------------------------ how it happens

    def stay(self, statuses: dict[str, Status]) -> None:
        """No silence, and the same results until nothing can be undecided any more."""
        self.maintenance = ""
        for whom in ("glide", "fast", "log_staleness", "backup", "watch"):
            self.unsilence(whom)
        for after in (*[MINUTE] * 4, 2 * HOUR, *[MINUTE] * 6):
            self.pass_round(statuses, after)

    def pass_order(self, order: Request) -> None:
        self.pass_round({}, 1.0, order)

    def pass_round(self, statuses: dict[str, Status], after: float, *orders: Request) -> list[IncidentEvent]:
        self.now += after
        self.latest |= statuses
        seen = [
            Observation(check, *TARGETS[check], self.result(check, status), self.now)
            for check, status in statuses.items()
        ]
        self.alerts, events = evaluate(
            self.alerts, seen, POLICIES, self.now, requests=orders, silent=self.maintenance_reason
        )
        for event in events:
            self.account(event)
        return [event for event in events if not event.quiet]

    def result(self, check: str, status: Status) -> Result:
        return Result(status, f"{check} is {status.name}").of_kind(self.kinds[check])

    def maintenance_reason(self, target: str, check: str, now: float) -> str:
        return "maintenance" if target == self.maintenance else ""

    def open(self) -> list[Incident]:
        return [standing.incident for standing in self.alerts.states.values() if standing.incident]

    def standing(self, check: str) -> Incident:
        incident = self.alerts.states[check, ""].incident
        assert incident is not None
        return incident

    def account(self, event: IncidentEvent) -> None:
        """Every event is possible at its time."""
        incident = event.incident
        if event.calm:
            return  # what people do changes no incident but by its acknowledgement
        assert incident is not None
        if event.kind is EventKind.OPENED and incident.id not in self.born:
            assert incident.id == len(self.born) + 1
            self.born.add(incident.id)
        if event.kind is EventKind.RESOLVED:
            self.ended[incident.id] = incident
            assert self.latest[event.check] is Status.OK, "an end while the newest result is bad"
            hidden = event.quiet and event.summary.startswith("known again after ")
            good = event.summary.endswith(f": {event.check} is OK")
            assert good or hidden, "an end in the words of a bad result"
        if not event.quiet:
            self.account_told(event, incident)

    def account_told(self, event: IncidentEvent, incident: Incident) -> None:
        assert event.at == self.now
        assert not self.silenced(incident), f"{event} in a silence"
        if event.kind is EventKind.OPENED:
            self.opened[incident.id] += 1
            assert not incident.acknowledged_by
        elif event.kind is EventKind.RESOLVED:
            self.resolved[incident.id] += 1
        else:
            assert event.kind in ABOUT
            assert incident.id not in self.ended
        if event.kind in (EventKind.REMINDER, EventKind.ESCALATION):
            assert not incident.acknowledged_by
            assert self.latest[incident.check] is not Status.OK
        assert self.opened[incident.id] == 1, "told of before it was opened, or opened twice"
        assert self.resolved[incident.id] <= 1

    def silenced(self, incident: Incident) -> bool:
        names = {incident.run, incident.target, incident.check, incident.check.rpartition("/")[2]}
        by_people = any(one.target in names and one.until > self.now for one in self.alerts.silences)
        return by_people or incident.target == self.maintenance

    # ------------------------------------------------------------ what always holds

    @invariant()
    def incidents_are_one_a_subject_and_have_ids_of_their_own(self) -> None:
        ids = [incident.id for incident in self.open()] + [
            incident.id for incident in self.alerts.pending_recoveries
        ]
        assert len(ids) == len(set(ids))
        assert all(number < self.alerts.next_id for number in ids)
        assert {incident.id for incident in self.open()} == self.born - self.ended.keys()

    @invariant()
    def what_is_seen_all_the_same_is_not_put_down_to_a_silent_ground(self) -> None:
        causes = {incident.id: incident for incident in self.open()}
        for incident in causes.values():
            cause = causes.get(incident.inhibited_by or 0)
            if incident.notified is None and cause is not None and cause.check in GROUNDS:
                assert incident.status is Status.UNKNOWN

    @invariant()
    def nothing_is_owed_that_was_told(self) -> None:
        for incident in self.alerts.pending_recoveries:
            assert self.opened[incident.id] == 1
            assert self.resolved[incident.id] == 0
            standing = self.alerts.states[incident.check, ""]
            bad_anew = standing.status is not Status.OK or standing.incident is not None
            assert bad_anew or self.silenced(incident)

    @invariant()
    def what_is_marked_as_told_was_told(self) -> None:
        for incident in self.open():
            assert (incident.notified is not None) == (self.opened[incident.id] == 1)


Incidents.TestCase.settings = settings(max_examples=120, stateful_step_count=25)
TestIncidents = Incidents.TestCase
