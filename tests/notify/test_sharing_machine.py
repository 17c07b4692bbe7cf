"""A daemon and relays over one home, each killed at the worst moment: once each, in order, nothing lost."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.notify.values import NOON, Ledger, Script, letter
from watchdogd.errors import DeliveryError
from watchdogd.home.layout import Home
from watchdogd.home.lease import Lease
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox, Relay
from watchdogd.notify.notification import Item, Notification
from watchdogd.system.times import SteadyClock

POLICY = Policy(expire=1e9, tell=None, longest=60, pause=60)
FAULTS = (None, DeliveryError("no route"), DeliveryError("answered 404", permanent=True))
WHO = ("daemon", "relay", "other relay")


class CrashError(BaseException):
    """kill -9: the server has it, and nobody says so."""


class Way(Script):
    """One sender's way to the server that all send to."""

    crashing = False

    def send(self, notification: Notification, roots: Sequence[Notification], /) -> str:
        """As a Script, but for being killed after it."""
        receipt = super().send(notification, roots)
        if self.crashing:
            raise CrashError
        return receipt


class Mortal(Locks):
    """Locks of one who is dead as soon as another works: here all work in turn."""

    def lease(self, channel: str) -> Lease:
        """Return a lease whose holder is gone, for all others."""
        made = super().lease(channel)
        made._me = replace(made._me, pid=0, born="gone")
        return made


class Sharing(RuleBasedStateMachine):
    """One history, one folder of claims, one server; a daemon that stores, and two relays that do not."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="watchdogd-sharing-")
        self.home = Home(Path(self.folder) / "home")
        self.home.make()
        self.now, self.count = NOON, 0
        self.burning = 0
        self.ledger = Ledger()
        self.server: list[Notification] = []
        self.ways = {who: Way(taken=self.server) for who in WHO}
        self.allowed: Counter[str] = Counter()
        self.outboxes: dict[str, Outbox] = {}
        self.looks: dict[str, Any] = {}
        for who in WHO:
            self.begin(who)

    # ------------------------------------------------------------ what happens

    @rule(incident=st.integers(1, 2))
    def something_happens(self, incident: int) -> None:
        self.count += 1
        new = [letter(incident, "slack", f"n{self.count}", self.now)]
        self.ledger.record(new)
        self.outboxes["daemon"].add(new)

    @rule()
    def the_check_turns(self) -> None:
        """To bad, with a new incident, or to good, which ends it."""
        self.count += 1
        good, number = self.burning, self.burning or 100 + self.count
        self.burning = 0 if good else number
        status = "RESOLVED" if good else "CRITICAL"
        items = (Item(status, "check", "as it is", incident=number),)
        name, now = f"n{self.count}", self.now
        new = [letter(number, "slack", name, now, status=status, opens=not good, items=items)]
        self.ledger.record(new)
        self.outboxes["daemon"].add(new)

    @rule(who=st.sampled_from(WHO))
    def one_looks(self, who: str) -> None:
        self.looks[who]()

    @rule(who=st.sampled_from(WHO), steps=st.integers(1, 3))
    def one_works(self, who: str, steps: int) -> None:
        try:
            for _ in range(steps):
                self.outboxes[who].workers["slack"].step()
        except CrashError:
            self.allowed[self.server[-1].key] += 1
            self.begin(who)

    @rule(seconds=st.sampled_from([10.0, 1000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(who=st.sampled_from(WHO), fault=st.sampled_from(FAULTS))
    def a_way_changes(self, who: str, fault: DeliveryError | None) -> None:
        self.ways[who].always = fault

    @rule(who=st.sampled_from(WHO))
    def the_next_sending_is_killed(self, who: str) -> None:
        self.ways[who].crashing = True

    @rule(who=st.sampled_from(WHO))
    def one_is_killed(self, who: str) -> None:
        self.begin(who)

    # ------------------------------------------------------------ what always holds

    @invariant()
    def each_comes_once_and_once_more_for_a_kill(self) -> None:
        assert all(
            count <= 1 + self.allowed[key] for key, count in Counter(e.key for e in self.server).items()
        )

    @invariant()
    def the_order_of_an_incident_is_kept(self) -> None:
        for incident in (1, 2):
            mine = [each.key for each in self.server if each.message.thread == f"incident-{incident}"]
            numbers = [int(key.partition("@")[0][1:]) for key in dict.fromkeys(mine)]
            assert numbers == sorted(numbers)

    @invariant()
    def no_end_comes_after_a_newer_beginning(self) -> None:
        firsts = {each.key: each for each in reversed(self.server)}  # a kill may repeat one, later
        newest = 0
        for each in reversed(firsts.values()):
            said = each.message.items[0]
            if said.check == "check":
                assert said.incident is not None
                assert said.incident >= newest
                newest = said.incident

    @invariant()
    def what_is_marked_as_sent_was_sent(self) -> None:
        came = {each.key for each in self.server}
        sent = {key for key, state in self.ledger.states().items() if state == "sent"}
        assert all(self.ledger.rows[key].message.ends for key in sent - came)  # told with what outdated it

    def teardown(self) -> None:
        """Any one that has a way out again delivers all, and the daemon knows, and leaves no claim."""
        for way in self.ways.values():
            way.always, way.crashing = DeliveryError("no route"), False
        self.ways["other relay"].always = None
        for who in ("other relay", "daemon", "daemon"):
            self.now += 1000.0
            self.one_looks(who)
            self.one_works(who, 2 * self.count + 2)
        self.each_comes_once_and_once_more_for_a_kill()
        self.the_order_of_an_incident_is_kept()
        self.no_end_comes_after_a_newer_beginning()
        came = {each.key for each in self.server}
        for key, row in self.ledger.rows.items():
            assert row.state == "sent" or (row.state == "superseded" and row.message.ends)
            assert key in came or row.message.ends  # an end may be told with what outdated it
        assert Locks(self.home).delivered() == []
        shutil.rmtree(self.folder)

    # ------------------------------------------------------------ who they are

    def begin(self, who: str) -> None:
        """A new life of one: what it knows is in the history and in the claims."""
        self.ways[who].crashing = False
        stores = who == "daemon"
        locks = Mortal(self.home, stores=stores)
        if stores:
            self.begin_daemon(locks)
        else:
            self.begin_relay(who, locks)

    def begin_daemon(self, locks: Locks) -> None:
        sent = [row for row in self.ledger.rows.values() if row.state == "sent"]
        way: Any = self.ways["daemon"]
        outbox = Outbox({"slack": way}, POLICY, self.ledger.settle, clock=self.clock(), locks=locks)
        outbox.add([*sent, *self.ledger.waiting()])
        self.outboxes["daemon"], self.looks["daemon"] = outbox, outbox.learn

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.now, lambda: self.now)

    def begin_relay(self, who: str, locks: Locks) -> None:
        way: Any = self.ways[who]
        relay = Relay({"slack": way}, Policy(), self.ledger, locks, lambda _: None, self.clock())
        self.outboxes[who], self.looks[who] = relay.outbox, relay._fetch


Sharing.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestSharing = Sharing.TestCase
