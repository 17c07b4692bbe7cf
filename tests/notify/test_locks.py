"""Who sends on a channel: one alone, and what was delivered is known to all."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.values import NOON, Ledger, Script, letter
from watchdogd.errors import DeliveryError, HomeError, PartlyDeliveredError
from watchdogd.home import lease
from watchdogd.home.layout import Home
from watchdogd.notify import locks
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import STALE, ChannelLock, LockedError, Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Notification
from watchdogd.system.times import SteadyClock

KEY = "incident-17-opened@slack"
DELIVERED = Delivered(KEY, "slack", NOON, "C1 17.5")
DIED = f"""
import os, signal, sys
from pathlib import Path
from watchdogd.home.layout import Home
from watchdogd.notify import locks
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import ChannelLock, Locks
lock = ChannelLock(Locks(Home(Path(sys.argv[1]))), "slack")
lock.take()
if sys.argv[2:]:
    lock.acknowledge(Delivered({KEY!r}, "slack", {NOON}, "C1 17.5"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def _held(home: Home) -> list[Path]:
    """The records of leases that are held."""
    records = (home.path / ".outbox").glob("*/0*")
    return [path for path in records if not json.loads(path.read_text())["released"]]


def _log(home: Home) -> Path:
    [path] = (home.path / ".outbox").glob("*.delivered")
    return path


def _relay(home: Home) -> Locks:
    return Locks(home, stores=False)


def _outbox(home: Home, sender: Script, locks: Locks, ledger: Ledger | None = None) -> Outbox:
    ledger = ledger or Ledger()
    ledger.record([letter()])
    outbox = Outbox(
        {"slack": sender},
        Policy(tell=None),
        ledger.settle,
        clock=SteadyClock(lambda: NOON, lambda: NOON),
        locks=locks,
    )
    outbox.add([letter()])
    return outbox


def test_while_one_sends_no_other_does(home: Home) -> None:
    daemon, relay = ChannelLock(Locks(home), "slack"), ChannelLock(_relay(home), "slack")
    assert daemon.take() == []
    with pytest.raises(LockedError, match=r"process \d+ on .* is sending on it"):
        relay.take()
    assert ChannelLock(Locks(home), "mail").take() == []
    daemon.acknowledge(DELIVERED)
    daemon.release(stored=False)
    assert relay.take() == [DELIVERED]


def test_of_many_who_want_it_at_once_one_gets_it(home: Home) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def contend(number: int) -> None:
        lock = ChannelLock(_relay(home), "slack")
        start.wait(240)
        try:
            lock.take()
        except LockedError:
            return
        won.append(number)

    threads = [threading.Thread(target=contend, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(won) == 1


@pytest.mark.parametrize("stored", [True, False])
def test_what_nothing_was_sent_under_leaves_nothing_behind(home: Home, stored: bool) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.take()
    lock.release(stored=stored)
    assert _held(home) == []
    assert not list((home.path / ".outbox").glob("*.delivered"))


def test_who_died_while_sending_holds_nobody_up_and_what_he_delivered_is_known(home: Home) -> None:
    for words in ([], ["delivered"]):
        subprocess.run([sys.executable, "-c", DIED, str(home.path), *words], check=False)
    lock = ChannelLock(Locks(home), "slack")
    assert lock.take() == [DELIVERED]
    lock.release(stored=True)
    assert _held(home) == []
    assert Locks(home).delivered() == []


def test_who_vanished_on_another_node_holds_it_up_for_a_while_only(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ChannelLock(Locks(home), "slack").take()
    [path] = _held(home)
    path.write_text(path.read_text().replace('"node": "', '"node": "another '))
    contender = ChannelLock(Locks(home), "slack")
    with pytest.raises(LockedError, match="is sending on it"):
        contender.take()
    old = path.stat().st_mtime - STALE - 1
    os.utime(path, (old, old))
    with pytest.raises(LockedError, match="is sending on it"):
        contender.take()
    monkeypatch.setattr(lease, "WATCH", 0.0)
    assert contender.take() == []


def test_each_message_renews_it_and_more_are_noted_than_fit_into_a_cleared_log(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW", 0.0)
    monkeypatch.setattr(locks, "RENEW", 0.0)
    relay = ChannelLock(_relay(home), "slack")
    relay.take()
    [path] = _held(home)
    os.utime(path, (1.0, 1.0))
    for number in range(100):
        relay.acknowledge(Delivered(f"n{number}@slack", "slack", NOON, f"C1 17.{number}"))
    assert path.stat().st_mtime > 1.0
    found = Locks(home).delivered()
    assert [each.key for each in found] == [f"n{number}@slack" for number in range(100)]
    assert _log(home).stat().st_size > 4096


def test_a_relay_without_a_daemon_keeps_one_log_however_often_it_sends(home: Home) -> None:
    relay = ChannelLock(_relay(home), "slack")
    for number in range(3):
        relay.take()
        relay.acknowledge(Delivered(f"n{number}@slack", "slack", NOON))
        relay.release(stored=True)
    assert len(list((home.path / ".outbox").iterdir())) == 2
    assert [each.key for each in Locks(home).delivered()] == ["n0@slack", "n1@slack", "n2@slack"]
    daemon = ChannelLock(Locks(home), "slack")
    daemon.take()
    daemon.release(stored=True)
    assert Locks(home).delivered() == []


def test_what_is_just_being_written_or_was_never_ours_locks_and_tells_nothing_wrong(home: Home) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.take()
    lock.acknowledge(DELIVERED)
    whole = _log(home).read_text()
    for line in ('"key"', "[1]", "7", '{"key": 1}', '{"key": "a", "channel": "slack", "at": 1e999}', "\x00"):
        _log(home).write_text(f"{whole}\n{line}\n")
        assert Locks(home).delivered() == [DELIVERED]
    _log(home).write_text(whole[:30])
    later = Delivered("later@slack", "slack", NOON)
    lock.acknowledge(later)
    assert Locks(home).delivered() == [later]
    [path] = _held(home)
    path.write_text(path.read_text()[:100])
    with pytest.raises(LockedError, match="another node is sending on it"):
        ChannelLock(Locks(home), "slack").take()


def test_what_a_power_cut_left_of_a_lock_holds_nobody_up_for_long(home: Home) -> None:
    """It made the name of the record, and took what was in it."""
    lock = ChannelLock(_relay(home), "slack")
    lock.take()
    lock.acknowledge(DELIVERED)
    [path] = _held(home)
    path.write_bytes(b"")
    soon = path.stat().st_mtime - lease.WATCH
    os.utime(path, (soon, soon))
    assert ChannelLock(Locks(home), "slack").take() == [DELIVERED]


def test_a_test_message_that_went_well_is_told_and_locks_nothing(home: Home) -> None:
    test = Delivered("test-1@slack", "slack", NOON)
    ChannelLock(Locks(home), "slack").acknowledge(test)
    assert Locks(home).delivered() == [test]
    assert ChannelLock(Locks(home), "slack").take() == [test]


def test_a_cleared_log_keeps_room_for_a_full_disk(home: Home) -> None:
    lock = ChannelLock(Locks(home), "slack")
    for _ in range(2):
        lock.take()
        lock.acknowledge(DELIVERED)
        lock.release(stored=True)
        assert (Locks(home).delivered(), _log(home).stat().st_size) == ([], 4096)


def test_what_another_delivered_is_not_sent_but_marked(home: Home) -> None:
    relay = ChannelLock(_relay(home), "slack")
    relay.take()
    relay.acknowledge(replace(DELIVERED, at=NOON + 9))
    relay.release(stored=True)
    slack, ledger = Script(), Ledger()
    _outbox(home, slack, Locks(home), ledger).workers["slack"].step()
    assert slack.tried == []
    row = ledger.rows[KEY]
    assert (row.state, row.receipt, row.sent_at) == ("sent", "C1 17.5", NOON + 9)
    assert _held(home) == []
    assert Locks(home).delivered() == []


@pytest.mark.parametrize("fault", [DeliveryError("answered 500"), DeliveryError("no", permanent=True)])
def test_what_failed_may_be_tried_by_another(home: Home, fault: DeliveryError) -> None:
    _outbox(home, Script(always=fault), Locks(home)).workers["slack"].step()
    relay = Script()
    _outbox(home, relay, _relay(home)).workers["slack"].step()
    assert relay.keys == [KEY]


def test_who_has_it_already_is_known_to_the_next_who_tries(home: Home) -> None:
    some = Script(always=PartlyDeliveredError("bo refused", receipt="al@x cleo@x"))
    _outbox(home, some, _relay(home)).workers["slack"].step()
    daemon = Script()
    _outbox(home, daemon, Locks(home)).workers["slack"].step()
    assert daemon.taken[0].receipt == "al@x cleo@x"


def test_what_could_not_be_stored_is_known_to_the_next_daemon(home: Home) -> None:
    ledger = Ledger(full=True)
    first = Script()
    _outbox(home, first, Locks(home), ledger).workers["slack"].step()
    assert first.keys == [KEY]
    ledger.full = False
    second = Script()
    _outbox(home, second, Locks(home), ledger).workers["slack"].step()
    assert second.tried == []
    assert ledger.rows[KEY].state == "sent"


@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), HomeError("home hangs")], ids=["full", "hangs"]
)
def test_where_no_lock_can_be_taken_the_daemon_sends_and_a_relay_does_not(
    home: Home, fault: Exception
) -> None:
    def broken(_function: Callable[[], object]) -> object:
        raise fault

    slack = Script()
    _outbox(home, slack, Locks(home, broken)).workers["slack"].step()
    assert slack.keys == [KEY]
    other, ledger = Script(), Ledger()
    relay = _outbox(home, other, Locks(home, broken, stores=False), ledger)
    relay.workers["slack"].step()
    assert other.tried == []
    assert "home cannot be written" in relay.troubles[0].failure


def test_one_who_acts_no_more_for_home_sends_nothing(home: Home) -> None:
    slack, may_act = Script(), [True]

    def sent(_each: Notification) -> None:
        may_act[0] = False

    slack.before = sent
    outbox = Outbox(
        {"slack": slack},
        Policy(),
        Ledger().settle,
        clock=SteadyClock(lambda: NOON, lambda: NOON),
        locks=Locks(home),
        may_act=lambda: may_act[0],
    )
    outbox.add(letter(number, name=f"n{number}") for number in range(30))
    for _ in range(3):
        outbox.workers["slack"].step()
    assert slack.keys == ["n0@slack"]
    assert outbox.troubles == ()


@pytest.mark.parametrize("stores", [True, False])
def test_what_a_relay_delivered_outlives_a_power_cut(
    home: Home, monkeypatch: pytest.MonkeyPatch, stores: bool
) -> None:
    """No daemon may store it for long; what a daemon sends itself it stores at once. None waits to begin."""
    synced: list[int] = []
    lock = ChannelLock(Locks(home, stores=stores), "slack")
    for _ in range(2):  # the log is made by the first
        synced.clear()
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, synced.append)
        lock.take()
        assert synced == []
        lock.acknowledge(DELIVERED)
        lock.release(stored=True)
    assert bool(synced) is not stores
