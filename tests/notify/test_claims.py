"""Who sends what: one alone, and what was sent is known to all."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.values import NOON, Script, letter
from watchdogd.errors import DeliveryError, HomeError
from watchdogd.home.layout import Home
from watchdogd.notify.claimed import Claimed
from watchdogd.notify.claims import STALE, Claims
from watchdogd.notify.desk import Delivered
from watchdogd.notify.sender import PartlyDeliveredError

KEY = "incident-17-opened@slack"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def _claimed(home: Home, sender: Script, *, anyway: bool = True) -> tuple[Claimed, Claims]:
    claims = Claims(home)
    return Claimed(sender, claims, lambda function: function(), anyway=anyway), claims


def _files(home: Home) -> list[str]:
    folder = home.path / ".outbox"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_what_one_sends_no_other_sends(home: Home) -> None:
    daemon, relay = Claims(home), Claims(home)
    claim = daemon.take(KEY, "slack")
    with pytest.raises(DeliveryError, match=r"process \d+ on .* is sending it"):
        relay.take(KEY, "slack")
    daemon.delivered(claim, "C1 17.5", NOON)
    found = relay.take(KEY, "slack")
    assert (found.sent, found.receipt) == (True, "C1 17.5")


def test_of_many_who_want_it_at_once_one_gets_it(home: Home) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def contend(number: int) -> None:
        claims = Claims(home)
        start.wait(240)
        try:
            claims.take(KEY, "slack")
        except DeliveryError:
            return
        won.append(number)

    threads = [threading.Thread(target=contend, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(won) == 1


def test_what_is_given_back_may_be_taken(home: Home) -> None:
    daemon, relay = Claims(home), Claims(home)
    daemon.give_back(daemon.take(KEY, "slack"))
    assert _files(home) == []
    assert not relay.take(KEY, "slack").sent


def test_who_died_while_sending_holds_nobody_up(home: Home) -> None:
    code = f"""
from pathlib import Path
from watchdogd.home.layout import Home
from watchdogd.notify.claims import Claims
Claims(Home(Path({str(home.path)!r}))).take({KEY!r}, "slack")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(_files(home)) == 1
    assert not Claims(home).take(KEY, "slack").sent
    assert len(_files(home)) == 2


def test_who_vanished_on_another_node_holds_it_up_for_a_while_only(home: Home) -> None:
    Claims(home).take(KEY, "slack")
    [path] = (home.path / ".outbox").iterdir()
    path.write_text(path.read_text().replace('"node": "', '"node": "another '))
    with pytest.raises(DeliveryError, match="is sending it"):
        Claims(home).take(KEY, "slack")
    old = path.stat().st_mtime - STALE - 1
    os.utime(path, (old, old))
    assert not Claims(home).take(KEY, "slack").sent


def test_what_others_delivered_is_told_until_it_is_forgotten(home: Home) -> None:
    daemon, relay = Claims(home), Claims(home)
    relay.delivered(relay.take(KEY, "slack"), "", NOON)
    daemon.delivered(daemon.take("other@mail", "mail"), "", NOON)
    assert daemon.outcomes() == [Delivered(KEY, "slack", NOON)]
    daemon.forget([KEY, "other@mail"])
    assert _files(home) == []


def test_a_claim_that_is_just_being_written_is_anothers(home: Home) -> None:
    Claims(home).take(KEY, "slack")
    [path] = (home.path / ".outbox").iterdir()
    path.write_text(path.read_text()[:100])
    with pytest.raises(DeliveryError, match="another node is sending it"):
        Claims(home).take(KEY, "slack")


def test_a_sender_claims_sends_and_notes(home: Home) -> None:
    slack = Script()
    daemon, _ = _claimed(home, slack)
    assert daemon.send(letter(), ()) == f"receipt of {KEY}"
    again, _ = _claimed(home, slack)
    assert again.send(letter(), ()) == f"receipt of {KEY}"
    assert slack.keys == [KEY]


@pytest.mark.parametrize("fault", [DeliveryError("answered 500"), DeliveryError("no", permanent=True)])
def test_what_failed_may_be_tried_by_another(home: Home, fault: DeliveryError) -> None:
    daemon, _ = _claimed(home, Script(always=fault))
    with pytest.raises(DeliveryError):
        daemon.send(letter(), ())
    relay = Script()
    _claimed(home, relay)[0].send(letter(), ())
    assert relay.keys == [KEY]


def test_who_has_it_already_is_known_to_the_next_who_tries(home: Home) -> None:
    daemon, _ = _claimed(home, Script(always=PartlyDeliveredError("bo refused", receipt="al@x cleo@x")))
    with pytest.raises(PartlyDeliveredError):
        daemon.send(letter(), ())
    relay = Script()
    _claimed(home, relay)[0].send(replace(letter(), receipt="al@x"), ())
    assert relay.taken[0].receipt == "al@x cleo@x"


def test_what_was_settled_since_it_was_read_is_not_sent(home: Home) -> None:
    slack, settled = Script(), replace(letter(), state="sent", receipt="C1 17.5")
    claims = Claims(home)
    relay = Claimed(slack, claims, lambda function: function(), anyway=False, settled=lambda _key: settled)
    assert relay.send(letter(), ()) == "C1 17.5"
    assert (slack.tried, _files(home)) == ([], [])


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), HomeError("home hangs")])
def test_where_nothing_can_be_claimed_the_daemon_sends_and_a_relay_does_not(
    home: Home, fault: Exception
) -> None:
    def broken(_function: Callable[[], object]) -> object:
        raise fault

    slack = Script()
    daemon = Claimed(slack, Claims(home), broken, anyway=True)  # type: ignore[arg-type]  # it only raises
    assert daemon.send(letter(), ()) == f"receipt of {KEY}"
    relay = Claimed(slack, Claims(home), broken, anyway=False)  # type: ignore[arg-type]  # it only raises
    with pytest.raises(DeliveryError, match="home cannot be written"):
        relay.send(letter(), ())
    assert slack.keys == [KEY]
