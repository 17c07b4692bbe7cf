"""Who sends on a channel: one alone, and what was delivered is known to all."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.notify.values import NOON, Ledger, Script, letter
from watchdogd.errors import DeliveryError, HomeError, PartlyDeliveredError
from watchdogd.home.layout import Home
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import STALE, ChannelLock, Journal, LockedError, Locks
from watchdogd.notify.message_outbox import Outbox
from watchdogd.notify.notification import Notification
from watchdogd.system.clock import SteadyClock

KEY = "incident-17-opened@slack"
DIED = f"""
import os, signal, sys
from pathlib import Path
from watchdogd.home.layout import Home
from watchdogd.notify.locks import ChannelLock, Locks
lock = ChannelLock(Locks(Home(Path(sys.argv[1]))), "slack")
lock.take()
if sys.argv[2:]:
    lock.acknowledge({KEY!r}, "C1 17.5", {NOON})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def _files(home: Home) -> list[str]:
    folder = home.path / ".outbox"
    return sorted(os.listdir(folder)) if folder.exists() else []


def _relay(home: Home) -> Locks:
    return Locks(home, anyway=False, keeps=True)


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
    daemon.acknowledge(KEY, "C1 17.5", NOON)
    daemon.release(stored=False)
    assert relay.take() == [Delivered(KEY, "slack", NOON, "C1 17.5")]


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


def test_one_who_begins_anew_while_all_files_were_removed_is_alone_too(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ChannelLock(Locks(home), "slack")
    first.take()
    [path] = (home.path / ".outbox").iterdir()
    path.rename(path.with_suffix(".0007"))
    late = Locks(home)
    seen_before: list[list[Journal]] = [[]]
    look = late.journals
    monkeypatch.setattr(
        late, "journals", lambda *_, **but: seen_before.pop() if seen_before else look(*_, **but)
    )
    with pytest.raises(LockedError):
        ChannelLock(late, "slack").take()
    assert _files(home) == [path.with_suffix(".0007").name]


@pytest.mark.parametrize("stored", [True, False])
def test_what_nothing_was_sent_under_leaves_nothing_behind(home: Home, stored: bool) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.take()
    lock.release(stored=stored)
    assert _files(home) == []


def test_who_died_while_sending_holds_nobody_up_and_what_he_delivered_is_known(home: Home) -> None:
    for words in ([], ["delivered"]):
        subprocess.run([sys.executable, "-c", DIED, str(home.path), *words], check=False)
    lock = ChannelLock(Locks(home), "slack")
    assert lock.take() == [Delivered(KEY, "slack", NOON, "C1 17.5")]
    lock.release(stored=True)
    assert _files(home) == []


def test_who_vanished_on_another_node_holds_it_up_for_a_while_only(home: Home) -> None:
    ChannelLock(Locks(home), "slack").take()
    [path] = (home.path / ".outbox").iterdir()
    path.write_text(path.read_text().replace('"node": "', '"node": "another '))
    with pytest.raises(LockedError, match="is sending on it"):
        ChannelLock(Locks(home), "slack").take()
    old = path.stat().st_mtime - STALE - 1
    os.utime(path, (old, old))
    assert ChannelLock(Locks(home), "slack").take() == []


def test_each_message_renews_it_and_more_are_noted_than_it_was_made_for(home: Home) -> None:
    relay = ChannelLock(_relay(home), "slack")
    relay.take()
    [path] = (home.path / ".outbox").iterdir()
    os.utime(path, (1.0, 1.0))
    for number in range(100):
        relay.acknowledge(f"n{number}@slack", f"C1 17.{number}", NOON)
    assert path.stat().st_mtime > 1.0
    found = Locks(home).delivered()
    assert [each.key for each in found] == [f"n{number}@slack" for number in range(100)]
    assert path.stat().st_size > 4096


def test_a_relay_without_a_daemon_leaves_one_file_however_often_it_sends(home: Home) -> None:
    relay = ChannelLock(_relay(home), "slack")
    for number in range(3):
        relay.take()
        relay.acknowledge(f"n{number}@slack", "", NOON)
        relay.release(stored=True)
    assert len(_files(home)) == 1
    daemon = Locks(home)
    assert [each.key for each in daemon.delivered()] == ["n0@slack", "n1@slack", "n2@slack"]
    daemon.remove(daemon.journals())
    assert _files(home) == []


def test_what_is_just_being_written_or_was_never_ours_locks_and_tells_nothing_wrong(home: Home) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.take()
    [path] = (home.path / ".outbox").iterdir()
    whole = path.read_text()
    path.write_text(whole[:100])
    with pytest.raises(LockedError, match="another node is sending on it"):
        ChannelLock(Locks(home), "slack").take()
    for line in ('"key"', "[1]", "7", '{"key": 1}', '{"key": "a", "channel": "slack", "at": 1e999}', "\x00"):
        path.write_text(f"{whole}{line}\n")
        assert Locks(home).delivered() == []


def test_a_test_message_that_went_well_is_told_and_locks_nothing(home: Home) -> None:
    Locks(home).announce("test-1@slack", "slack", NOON)
    daemon = Locks(home)
    assert daemon.delivered() == [Delivered("test-1@slack", "slack", NOON)]
    assert ChannelLock(Locks(home), "slack").take() == daemon.delivered()
    daemon.remove(daemon.journals())
    assert len(_files(home)) == 1


def test_what_another_delivered_is_not_sent_but_marked(home: Home) -> None:
    relay = ChannelLock(_relay(home), "slack")
    relay.take()
    relay.acknowledge(KEY, "C1 17.5", NOON + 9)
    relay.release(stored=True)
    slack, ledger = Script(), Ledger()
    _outbox(home, slack, Locks(home), ledger).workers["slack"].step()
    assert slack.tried == []
    row = ledger.rows[KEY]
    assert (row.state, row.receipt, row.sent_at) == ("sent", "C1 17.5", NOON + 9)
    assert _files(home) == []


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
    relay = _outbox(home, other, Locks(home, broken, anyway=False, keeps=True), ledger)
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


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_relay_delivered_outlives_a_power_cut(
    home: Home, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """No daemon may store it for long; what a daemon itself sends it stores at once. Both keep their lock."""
    synced: list[int] = []
    lock = ChannelLock(Locks(home, anyway=False, keeps=keeps), "slack")
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append)
    lock.take()
    assert synced  # an empty one would hold up whoever comes next for STALE seconds
    synced.clear()
    lock.acknowledge(KEY, "C1 17.5", NOON)
    assert bool(synced) is keeps


def test_a_lock_that_was_prepared_waits_for_no_disk_and_is_of_now(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.prepare()
    [draft] = (home.path / ".outbox").iterdir()
    os.utime(draft, (1.0, 1.0))
    monkeypatch.setattr(os, "fsync", pytest.fail)
    lock.take()
    [path] = (home.path / ".outbox").iterdir()
    assert not path.name.startswith(".")
    assert path.stat().st_mtime > 1.0  # else another node would take it for abandoned
    with pytest.raises(LockedError, match=r"process \d+ on .* is sending on it"):
        ChannelLock(_relay(home), "slack").take()


def test_what_is_prepared_is_left_behind_by_nobody(home: Home) -> None:
    lock = ChannelLock(Locks(home), "slack")
    lock.prepare()
    lock.close()
    assert _files(home) == []
    lock.prepare()
    [draft] = (home.path / ".outbox").iterdir()
    draft.unlink()
    assert lock.take() == []  # written anew
    of_a_dead_one = draft.with_name(".0123.another-node.17.89ab")
    of_a_dead_one.touch()
    os.utime(of_a_dead_one, (1.0, 1.0))
    ChannelLock(Locks(home), "mail").prepare()
    assert of_a_dead_one.name not in _files(home)
