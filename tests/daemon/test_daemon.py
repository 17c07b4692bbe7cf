"""What the daemon decides by itself: how long it goes on where home is gone, and after a broken round."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.notify.values import Script
from tests.waiting import wait_until
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.daemon import status_file
from watchdogd.daemon.daemon import GONE, Absence, Daemon, ServiceManager
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.incidents.models import IncidentEvent
from watchdogd.notify.dead_mans_switch import heartbeat_of
from watchdogd.notify.message import compose
from watchdogd.notify.notification import Notification

CONFIG = """
[daemon]
interval = "0.2s"
confirm = 1
[channels.out]
type = "console"
[disks.scratch]
path = "{path}"
quota = "statvfs"
"""


def test_a_home_that_is_gone_may_come_back_for_a_while() -> None:
    absence = Absence()
    assert absence.bearable(1000.0)
    assert absence.bearable(1000.0 + GONE - 1)
    assert not absence.bearable(1000.0 + GONE)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that holds its lease, with a disk that is not there; its rounds are ours to make."""
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text(CONFIG.format(path=tmp_path / "gone"))
    setup = Setup.load(home)
    leadership = DaemonLeadership(home, setup.config)
    leadership.begin()
    with assembled(home, setup) as parts:
        daemon = Daemon(parts, leadership, heartbeat_of(setup.config), ServiceManager())
        yield daemon
        daemon._outbox.stop(30)
    leadership.end()


def open_incidents(daemon: Daemon) -> set[str]:
    return {incident.summary for incident in status_file.open_incidents(daemon._engine.alerts)}


def test_a_round_that_broke_off_is_told_once_and_is_over_with_the_next_good_one(daemon: Daemon) -> None:
    with patch.object(daemon._service, "working") as pinged:
        with patch.object(Engine, "reload", side_effect=KeyError("odd")), pytest.raises(KeyError):
            daemon.round()
        pinged.assert_not_called()  # systemd hears of rounds that work alone
        daemon.round()
        pinged.assert_called_once()
    assert "the last round broke off: KeyError: 'odd'" in open_incidents(daemon)
    daemon.round()
    assert not any("broke off" in summary for summary in open_incidents(daemon))


def test_what_a_round_found_that_broke_off_is_told_by_a_later_one(daemon: Daemon) -> None:
    def tell(events: Sequence[IncidentEvent], *rest: Any) -> list[Notification]:
        found = [event.summary for event in events if event.target == "scratch"]
        if found and not told:
            told.append(found)
            raise MemoryError
        return compose(events, *rest)

    told: list[list[str]] = []
    with patch("watchdogd.daemon.round.compose", tell), pytest.raises(MemoryError):
        wait_until(lambda: daemon.round() and told, 60, "something is to be told")
    (lost,) = told
    wait_until(
        lambda: daemon.round() and {*lost} <= open_incidents(daemon), 60, "it was found again", every=0.2
    )


def test_messages_go_out_once_they_are_stored_and_do_not_wait_for_the_picture(daemon: Daemon) -> None:
    order: list[str] = []
    with (
        patch("watchdogd.daemon.storage.WriteBuffer.keep", side_effect=lambda _: order.append("stored")),
        patch.object(daemon._outbox, "add", side_effect=lambda _: order.append("sent")),
        patch(
            "watchdogd.daemon.status_file.StatusWriter.publish", side_effect=lambda *_: order.append("shown")
        ),
    ):
        daemon.round()
    assert order == ["stored", "sent", "shown"]


def test_an_edit_of_config_toml_sends_nothing_twice_that_is_on_its_way(daemon: Daemon) -> None:
    answered = threading.Event()

    def wait(_each: Notification) -> None:
        answered.wait(600)

    slow, fresh = Script(before=wait), Script()
    with patch("watchdogd.notify.senders.build", return_value={"out": slow}):
        daemon._exchange(daemon._engine.setup)
    wait_until(lambda: daemon.round() and slow.tried, 60, "a message is on its way")
    config = daemon._parts.home.config
    config.write_text(config.read_text() + '[heartbeat]\nurl = "http://127.0.0.1:9/ping"\n')
    with patch("watchdogd.notify.senders.build", return_value={"out": fresh}):
        daemon.round()
    assert daemon._heartbeat._url == "http://127.0.0.1:9/ping"
    answered.set()
    wait_until(lambda: slow.closed, 60, "the server has it")
    daemon.round()
    [key] = slow.tried
    stored = daemon._parts.storage._opened().notification(key)
    assert stored is not None
    assert stored.state == "sent"
    assert key not in fresh.tried


def test_a_secret_that_is_missing_after_an_edit_is_told_until_it_is_there(daemon: Daemon) -> None:
    home = daemon._parts.home
    daemon.round()
    home.config.write_text(f'{home.config.read_text()}[channels.hook]\ntype = "webhook"\nurl = "file:hook"\n')
    wait_until(
        lambda: daemon.round() and any("old channels" in each for each in open_incidents(daemon)),
        60,
        "it is told",
    )
    home.write(home.path / "hook", "http://127.0.0.1:9/hook")
    wait_until(
        lambda: daemon.round() and not any("old channels" in each for each in open_incidents(daemon)),
        60,
        "it is over",
    )
    assert set(daemon._outbox.workers) == {"out", "hook"}
