"""Home fails under a running daemon: alerts about everything else still go out, and this fault is told."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import forked
from tests.lab.dog import typed
from tests.notify.values import Ledger, Script, letter
from tests.servers.web import WebServer
from tests.waiting import wait_until
from watchdogd.home.layout import Home
from watchdogd.notify.channel_state import Policy
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Outbox, Relay
from watchdogd.notify.notification import Notification


class Watched:
    """A daemon whose home lies on a small file system of its own, and a run outside of it."""

    def __init__(self, mount: Path, place: Path, endpoint: WebServer) -> None:
        self.mount, self.home, self.log = mount, mount / "home", place / "train.log"
        self.endpoint = endpoint
        self.steps = itertools.count(8)
        self.env = {**os.environ, "WATCHDOGD_HOME": str(self.home)}
        self.training = subprocess.Popen(["sleep", "900"], start_new_session=True)
        (place / "train.pid").write_text(f"{self.training.pid}\n")
        self.log.write_text("iteration 7\n")
        self.verb("init")
        (self.home / "config.toml").write_text(
            f"""
            [daemon]
            interval = "1s"
            [channels.hook]
            type = "webhook"
            url = "{endpoint.url}"
            rate = "none"
            [runs.run-17]
            pid_file = "{place}/train.pid"
            log = "{self.log}"
            stale_after = "4s"
            """
        )
        self.start()
        self.keep_alive()
        wait_until(lambda: (self.home / "status.json").exists(), 60, "the first round is stored")

    def start(self) -> None:
        self.daemon = forked.daemon(self.env, self.log.with_name("said"))

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        return typed(words, self.env)

    def keep_alive(self) -> None:
        with self.log.open("a") as log:
            log.write(f"iteration {next(self.steps)}\n")

    def told(self, *parts: str) -> bool:
        bodies = [request.body.decode() for request in self.endpoint.requests]
        return any(all(part in body for part in parts) for body in bodies)

    def wait_told(self, *parts: str) -> None:
        waited = wait_until(lambda: self.told(*parts), 90, f"{parts} is told")
        print(f"{parts} told after {waited.seconds:.1f} s")

    def wait_resolved(self, target: str) -> None:
        """The training writes on, and that is told."""

        def resolved() -> bool:
            self.keep_alive()
            return self.told("RESOLVED", target)

        wait_until(resolved, 90, f"{target} is resolved", every=0.5)

    def end(self) -> None:
        for process in (self.daemon, self.training):
            process.send_signal(signal.SIGKILL)
            process.wait(240)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    place = Path(f"/tmp/watchdogd-home-{os.getpid()}")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def watched(mount: Path, tmp_path: Path, endpoint: WebServer) -> Iterator[Watched]:
    watched = Watched(mount, tmp_path, endpoint)
    yield watched
    watched.end()


def test_home_is_full_by_bytes(watched: Watched) -> None:
    ballast = watched.mount / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(b"x" * 5_000_000)
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    watched.wait_told("CRITICAL", "history")
    wait_until(lambda: watched.verb("status").returncode == 2, 60, "status knows of it on a full disk too")
    assert watched.verb("save-switch", "run-17").returncode == 0
    watched.wait_told("run-17: save switch set by")
    ballast.unlink()
    watched.wait_resolved("run-17")
    watched.wait_told("RESOLVED", "history")
    wait_until(
        lambda: "stalled, no output" in watched.verb("history", "run-17").stdout,
        60,
        "what happened is recorded",
    )
    incidents = watched.verb("incidents", "--all").stdout
    assert "run-17/log_staleness" in incidents
    bodies = [request.body.decode() for request in watched.endpoint.requests]
    assert sum("run-17: save switch set by" in body for body in bodies) == 1


def test_home_is_full_by_inodes_and_all_is_recorded_meanwhile(watched: Watched) -> None:
    """No new file can be made: the history's journal and status.json are there already."""
    room = os.statvfs(watched.mount)
    options = f"remount,nr_inodes={room.f_files - room.f_ffree}"
    subprocess.run(["mount", "-o", options, str(watched.mount)], check=True)
    with pytest.raises(OSError, match="No space left"):
        (watched.mount / "one-more").touch()
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    wait_until(
        lambda: "stalled, no output" in watched.verb("history", "run-17").stdout,
        60,
        "what happened is recorded",
    )
    watched.wait_resolved("run-17")
    watched.daemon.send_signal(signal.SIGTERM)
    assert watched.daemon.wait(timeout=240) == 0


def test_the_database_is_taken_away(watched: Watched) -> None:
    for path in watched.home.glob("history.db*"):
        path.unlink()
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    wait_until(
        lambda: "stalled, no output" in watched.verb("history", "run-17").stdout,
        60,
        "what happened is recorded",
    )


def test_home_is_moved_away_and_comes_back(watched: Watched) -> None:
    away = watched.home.rename(watched.home.with_name("away"))

    def told_of_home() -> bool:
        watched.keep_alive()
        return watched.told("CRITICAL", "home is gone")

    wait_until(told_of_home, 90, "it is told that home is gone", every=0.5)
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")  # and what happens from now on
    assert watched.daemon.poll() is None
    away.rename(watched.home)
    watched.wait_resolved("run-17")
    watched.wait_told("RESOLVED", "home can be written again")
    wait_until(lambda: watched.verb("status").returncode == 0, 60, "status says that all is well")


def test_the_database_is_overwritten(watched: Watched) -> None:
    (watched.home / "history.db").write_bytes(b"this is no database " * 500)
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    wait_until(lambda: list(watched.home.glob("history.db.corrupt-*")), 60, "it is set aside")
    watched.wait_told("history.db.corrupt-")
    wait_until(
        lambda: "stalled, no output" in watched.verb("history", "run-17").stdout,
        60,
        "what happened is recorded",
    )


def test_a_daemon_that_finds_its_history_damaged_on_a_full_disk_tells_what_is_lost_once_there_is_room(
    watched: Watched,
) -> None:
    watched.daemon.send_signal(signal.SIGKILL)
    watched.daemon.wait(240)
    ballast = watched.mount / "ballast"
    with pytest.raises(OSError, match="No space left"):
        ballast.write_bytes(b"x" * 5_000_000)
    with (watched.home / "history.db").open("r+b") as database:
        database.write(b"this is no database " * 500)
    watched.start()
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    watched.wait_told("CRITICAL", "history")
    ballast.unlink()
    watched.wait_told("[WARNING]", "history.db.corrupt-")


def test_kill_9_forgets_nothing_and_tells_nothing_twice(watched: Watched) -> None:
    watched.wait_told("CRITICAL", "run-17", "stalled, no output for")
    wait_until(
        lambda: json.loads(watched.verb("outbox", "--json").stdout) == [],
        60,
        "what was delivered is marked: until then it may come twice",
    )
    watched.daemon.kill()
    watched.daemon.wait(240)
    watched.start()
    wait_until(lambda: watched.verb("status").returncode == 2, 90, "the next daemon knows of the incident")
    watched.wait_resolved("run-17")
    bodies = [request.body.decode() for request in watched.endpoint.requests]
    assert sum("[CRITICAL] run-17" in body for body in bodies) == 1


def _remounted(mount: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(mount)], check=True)


@pytest.mark.parametrize("number", [1, 3])
def test_what_a_relay_delivered_as_home_became_read_only_is_recorded_later_and_comes_once(
    mount: Path, number: int
) -> None:
    home, history, told = Home(mount / "home"), Ledger(), list[Notification]()
    home.make()
    history.record([letter(each, name=f"n{each}", now=time.time()) for each in range(number)])

    def as_it_is_sent(_notification: Notification) -> None:
        if not sender.taken:
            _remounted(mount, "ro")

    sender = Script(before=as_it_is_sent)
    relay = Relay({"slack": sender}, Policy(first=0.1), history, Locks(home, stores=False), told.append)
    running = threading.Thread(target=relay.run, kwargs={"every": 0.1, "patience": 600.0})
    running.start()
    try:
        wait_until(lambda: relay.outbox.owed, 30, "home does not take what was delivered")
        if number > 1:
            wait_until(lambda: relay.outbox.troubles, 30, "nothing more is sent")
        assert sender.keys == ["n0@slack"]
    finally:
        _remounted(mount, "rw")
        running.join(240)
    everything = [f"n{each}@slack" for each in range(number)]
    assert sorted(sender.keys) == everything
    assert sorted(row.key for row in told) == everything
    assert not relay.outbox.waiting
    daemon = Outbox({"slack": (silent := Script())}, Policy(), history.settle, locks=Locks(home))
    daemon.add(history.waiting())
    daemon.workers["slack"].step()
    assert silent.tried == []
    assert history.states() == dict.fromkeys(everything, "sent")
