"""The outbox under random failures, clocks, full disks and crashes: nothing lost, in order, nothing twice."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.notify.values import NOON, Ledger, Script, letter
from watchdogd.errors import DeliveryError
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Item, Notification
from watchdogd.system.times import SteadyClock

POLICY = Policy(
    expire=3000,
    fallback=("mail",),
    rates={"slack": 1.0, "mail": 0.5},
    first=2,
    longest=60,
    pause=150,
    patience=100,
)
FAULTS = (
    None,
    DeliveryError("answered 500"),
    DeliveryError("answered 429", retry_after=45),
    DeliveryError("answered 404", permanent=True),
)


class CrashError(BaseException):
    """kill -9, between sending and marking."""


class Delivery(RuleBasedStateMachine):
    """One home's store and two channels, through several lives of the daemon."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.ahead = 0.0
        self.ledger = Ledger()
        self.slack = Script(before=lambda each: self._tried("slack", each))
        self.mail = Script(before=lambda each: self._tried("mail", each))
        self.tries: dict[str, list[float]] = {"slack": [], "mail": []}
        self.crashing = self.was_full = self.forgot = False
        self.allowed: Counter[str] = Counter()
        self.count = 0
        self.burning: dict[int, int] = {}
        self._begin()

    @rule(incident=st.integers(1, 3), to=st.sampled_from([("slack",), ("mail",), ("slack", "mail")]))
    def something_happens(self, incident: int, to: tuple[str, ...]) -> None:
        self.count += 1
        new = [letter(incident, channel, f"n{self.count}", self.now) for channel in to]
        self.ledger.record(new)
        self.outbox.add(new)

    @rule(check=st.integers(1, 2), to=st.sampled_from([("slack",), ("mail",), ("slack", "mail")]))
    def a_check_turns(self, check: int, to: tuple[str, ...]) -> None:
        """To bad, with a new incident, or to good, which ends it."""
        self.count += 1
        good = self.burning.pop(check, None)
        if good is None:
            self.burning[check] = 100 + self.count
        number, status = good or self.burning[check], "RESOLVED" if good else "CRITICAL"
        new = [
            letter(
                number,
                channel,
                f"n{self.count}",
                self.now,
                status=status,
                opens=good is None,
                items=(Item(status, f"check-{check}", "as it is", incident=number),),
            )
            for channel in to
        ]
        self.ledger.record(new)
        try:
            self.outbox.add(new)
        except CrashError:
            self._end_in_a_crash()

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 20.0, 120.0, 700.0, 3100.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        try:
            while (wake := self._step_all()) <= end:
                self.now = max(self.now, wake)
            self.now = end
        except CrashError:
            self._end_in_a_crash()

    @rule(seconds=st.sampled_from([-108_000.0, -18_000.0, -20.0, 18_000.0, 108_000.0]))
    def the_clock_is_set(self, seconds: float) -> None:
        self.now += seconds
        self.ahead += seconds

    @rule(slack=st.sampled_from(FAULTS), mail=st.sampled_from(FAULTS))
    def the_servers_change(self, slack: DeliveryError | None, mail: DeliveryError | None) -> None:
        self.slack.always, self.mail.always = slack, mail

    @rule(full=st.booleans())
    def the_disk_fills_or_is_freed(self, full: bool) -> None:
        self.ledger.full = full
        self.was_full |= full

    @rule()
    def the_next_marking_is_killed(self) -> None:
        self.crashing = not self.ledger.full

    @rule()
    def the_configuration_is_edited(self) -> None:
        before = self.outbox
        self._begin_with(())
        self.outbox.succeed(before)

    @rule()
    def the_daemon_is_killed(self) -> None:
        self._end_in_a_crash()

    @invariant()
    def nothing_comes_twice_unless_a_crash_fell_between(self) -> None:
        taken = Counter(self.slack.keys + self.mail.keys)
        assert all(count <= 1 + self.allowed[key] for key, count in taken.items())

    @invariant()
    def the_order_of_an_incident_is_kept(self) -> None:
        for incident in () if self.forgot else (1, 2, 3):
            numbers = [
                int(each.key.partition("@")[0][1:])
                for each in self.slack.taken
                if each.message.thread == f"incident-{incident}"
            ]
            firsts = list(dict.fromkeys(numbers))
            assert firsts == sorted(firsts)

    @invariant()
    def no_end_comes_after_a_newer_beginning(self) -> None:
        for taken in () if self.forgot else (self.slack.taken, self.mail.taken):
            newest: dict[str, int] = {}
            firsts = {each.key: each for each in reversed(taken)}  # a crash may repeat one, later
            for each in reversed(firsts.values()):
                for said in each.message.items[:1]:  # what an outbox says of channels has none
                    number = said.incident or 0
                    assert not (said.ended and number < newest.get(said.line, 0))
                    newest[said.line] = max(number, newest.get(said.line, 0))

    @invariant()
    def no_channel_is_tried_faster_than_its_rate(self) -> None:
        for channel, times in self.tries.items():
            gaps = (after - before for before, after in pairwise(times))
            assert all(gap >= 1 / (POLICY.rates[channel] or 1) - 1e-6 for gap in gaps)

    @invariant()
    def what_is_marked_as_sent_was_sent(self) -> None:
        taken = set(self.slack.keys + self.mail.keys)
        assert all(key in taken for key, state in self.ledger.states().items() if state == "sent")

    def teardown(self) -> None:
        """Once all is well again, every message was delivered, or it was too old, which was told."""
        self.ledger.full = self.crashing = False
        self.slack.always = self.mail.always = None
        self.time_passes(POLICY.pause + POLICY.longest + 2.0 * self.count + 60)
        self.outbox.rows.save(now=True)  # as each round does
        self.nothing_comes_twice_unless_a_crash_fell_between()
        self.the_order_of_an_incident_is_kept()
        self.no_end_comes_after_a_newer_beginning()
        assert self.outbox.waiting == 0
        reached = {key.partition("@")[0] for key in self.slack.keys + self.mail.keys}
        for number in range(1, self.count + 1):
            rows = [row for key, row in self.ledger.rows.items() if key.partition("@")[0] == f"n{number}"]
            assert all(row.state != "waiting" for row in rows)
            booked = any(row.state in ("expired", "failed", "superseded") for row in rows)
            assert f"n{number}" in reached or booked

    def _begin(self) -> None:
        self.begun = {"slack": len(self.slack.taken), "mail": len(self.mail.taken)}
        rows = list(self.ledger.rows.values())
        self._begin_with([row for row in rows if row.state == "sent"])
        self.outbox.add(row for row in rows if row.state == "waiting")

    def _begin_with(self, sent: Sequence[Notification]) -> None:
        senders = {"slack": self.slack, "mail": self.mail}
        self.outbox = Outbox(senders, POLICY, self._settle, clock=SteadyClock(lambda: self.now, self._ticks))
        self.outbox.add(sent)

    def _step_all(self) -> float:
        workers = self.outbox.workers.values()
        for worker in workers:
            worker.step()
        return min(worker.step() for worker in workers)

    def _settle(self, outcomes: Sequence[Notification]) -> None:
        if self.crashing:
            raise CrashError
        self.ledger.settle(outcomes)

    def _end_in_a_crash(self) -> None:
        """A new life: what was sent and is not marked may come once more; one at most a channel."""
        taken = [*self.slack.keys[self.begun["slack"] :], *self.mail.keys[self.begun["mail"] :]]
        lost = {key for key in taken if self.ledger.states().get(key, "waiting") == "waiting"}
        if not self.was_full:
            assert len(lost) <= 1
        self.allowed.update(lost)
        self.forgot |= self.was_full  # what went another way could not be stored, and comes again, late
        self.crashing = False
        self.was_full = self.ledger.full
        self.tries = {"slack": [], "mail": []}
        self.now += 2.0
        self._begin()

    def _tried(self, channel: str, _notification: Notification) -> None:
        self.tries[channel].append(self._ticks())

    def _ticks(self) -> float:
        return self.now - self.ahead


Delivery.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestDelivery = Delivery.TestCase
