"""What a daemon finds in home when it begins."""

import errno
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.notify.values import letter
from tests.waiting import wait_until
from watchdogd.daemon import status_file
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled, outbox_of
from watchdogd.errors import HistoryError
from watchdogd.history.models import Record
from watchdogd.history.store import Store
from watchdogd.home import inbox_submit
from watchdogd.home.layout import Home
from watchdogd.notify.locks import Locks

KILLED = """
import os, signal, sys
from pathlib import Path
from watchdogd.home.layout import Home
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import ChannelLock, Locks
lock = ChannelLock(Locks(Home(Path(sys.argv[1]))), "slack")
lock.take()
lock.acknowledge(Delivered(sys.argv[2], "slack", 0.0))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("state", ["sent", "failed", "expired", "diverted", "waiting"])
def test_what_one_who_was_killed_delivered_is_stored_and_his_lock_goes(tmp_path: Path, state: str) -> None:
    home = Home(tmp_path)
    home.make()
    home.write(home.config, '[channels.slack]\ntype = "webhook"\nurl = "http://127.0.0.1:9"\n')
    row = replace(letter(1, now=time.time()), state=state)
    subprocess.run([sys.executable, "-c", KILLED, str(home.path), row.key], check=False)
    assert len(Locks(home).delivered()) == 1
    with assembled(home, Setup.load(home)) as parts:
        parts.storage.record(Record(time.time(), notifications=(row,)))
        outbox = outbox_of(parts, lambda: True)
        outbox.add(parts.storage.waiting())
        outbox.learn()
        outbox.workers["slack"].step()
        assert parts.storage.waiting() == []
    assert Locks(home).delivered() == []


def test_a_drop_in_folder_that_cannot_be_looked_at_ends_no_incident_and_runs_nothing_again(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    home.write(home.config, '[daemon]\nconfirm = 1\ninterval = "1s"\n')
    bad = home.path / "cron.daily" / "bad"
    bad.write_text(f"#!/bin/sh\necho x >> {tmp_path}/ran\necho full\nexit 2\n")
    bad.chmod(0o755)

    def lived(until: Callable[[Engine], object]) -> list[int]:
        """The open incidents of the drop-in at the end of one life."""
        with assembled(home, Setup.load(home)) as parts:
            wait_until(lambda: _round(parts.engine) and until(parts.engine), 60, "it is as it should be")
            found = parts.engine.alerts.states.values()
            return [each.incident.id for each in found if each.incident and each.check == "cron.daily/bad"]

    before = lived(lambda engine: engine.alerts.states.get(("cron.daily/bad", "")))
    assert before
    gone = OSError(errno.EIO, "Input/output error")
    with patch("watchdogd.daemon.dropins.dropins._dropin_folders", side_effect=gone):
        assert lived(lambda engine: engine.troubles["drop-ins"]) == before
    assert lived(lambda engine: engine.setup.dropped and not engine.troubles["drop-ins"]) == before
    assert (tmp_path / "ran").read_text() == "x\n"


def _round(engine: Engine) -> bool:
    engine.reload()
    return engine.round() is not None


@pytest.mark.slow
def test_a_history_that_can_be_read_only_later_brings_back_what_people_did_and_what_waits(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "home")
    home.make()
    disks = "".join(
        f"[disks.{name}]\npath = '{tmp_path}/{name}'\nquota = 'statvfs'\n" for name in ("taken", "silent")
    )
    home.write(home.config, f'[daemon]\nconfirm = 1\ninterval = "1s"\n{disks}')
    waiting = letter(99, now=time.time())
    with assembled(home, Setup.load(home)) as parts:
        engine = parts.engine
        inbox_submit.submit(str(home.inbox), "silence", "silent", target="silent", seconds=3600)
        wait_until(
            lambda: _round(engine) and len(status_file.open_incidents(engine.alerts)) == 2, 60, "both open"
        )
        [taken] = [each for each in status_file.open_incidents(engine.alerts) if each.target == "taken"]
        inbox_submit.submit(str(home.inbox), "ack", "taken", id=taken.id)
        parts.storage.record(Record(time.time(), alerts=engine.alerts, notifications=(waiting,)))
        wait_until(lambda: _round(engine) and _state(engine, "taken") == "acknowledged", 60, "it is taken")
    sent: list[str] = []
    with ExitStack() as life:
        with patch.object(Store, "past", side_effect=HistoryError("it is busy")):
            parts = life.enter_context(assembled(home, Setup.load(home)))
            engine = parts.engine
            wait_until(lambda: _round(engine) and _state(engine, "taken") == "open", 60, "it is told anew")
        engine.round(send=lambda each: sent.extend(one.key for one in each))
        assert waiting.key in sent
        assert _state(engine, "taken") == "acknowledged"
        assert [each.target for each in engine.alerts.silences] == ["silent"]
        stored = parts.storage._opened().incident(taken.id)
        assert stored is not None
        assert stored.state == "resolved"
        assert stored.recovery.startswith("it goes on as incident ")


def _state(engine: Engine, target: str) -> str:
    found = [each.state for each in status_file.open_incidents(engine.alerts) if each.target == target]
    return found[0] if found else ""
