"""What a relay reads of the history."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.notify.values import NOON, Ledger, Script, letter
from watchdogd.errors import DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Relay
from watchdogd.notify.notification import Notification
from watchdogd.system.times import SteadyClock


@dataclass
class Counting(Ledger):
    """A history that counts how many rows were read for each question."""

    reads: list[int] = field(default_factory=list)

    def notifications(self, *, since: float = 0.0, after: int = 0) -> list[Notification]:
        """Return them as a Ledger does."""
        found = super().notifications(since=since, after=after)
        self.reads.append(len(found))
        return found


def test_what_ended_long_ago_is_read_once_and_what_ends_meanwhile_is_not_sent(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.make()
    history = Counting()
    history.record([replace(letter(n, name=f"old{n}", now=NOON - 60), state="sent") for n in range(1000)])
    history.record([letter(2000, name="a"), letter(2001, name="b"), letter(2002, "mail", name="c")])
    told: list[Notification] = []
    sender, now = Script(), [NOON]
    clock = SteadyClock(lambda: now[0], lambda: now[0])
    relay = Relay({"slack": sender}, Policy(), history, Locks(home, stores=False), told.append, clock)
    [worker] = relay.outbox.workers.values()
    for _ in range(2):
        worker.step()
    assert sender.keys == ["a@slack", "b@slack"]
    assert [row.key for row in told] == ["a@slack", "b@slack"]
    assert history.reads[0] == 1003
    assert max(history.reads[1:]) <= 3

    history.settle([replace(history.rows[key], state="sent") for key in ("a@slack", "b@slack")])
    history.record([letter(2003, name="d"), letter(2004, name="e")])
    relay._fetch()
    sender.faults = [DeliveryError("no route")]
    worker.step()
    history.settle([replace(history.rows["d@slack"], state="sent")])  # the daemon has a way out again
    now[0] += 600
    for _ in range(3):
        worker.step()
    assert sender.keys[2:] == ["e@slack"]
    assert max(history.reads[1:]) <= 5
