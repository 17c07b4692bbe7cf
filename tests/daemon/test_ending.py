"""Actions and the end of the daemon: asked to end, or killed, in the middle of one."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.daemon.test_remediation import Place, begin
from tests.waiting import wait_until
from watchdogd.cli.run import run
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.home.lease import alive
from watchdogd.system.command import group_processes

PATIENCE = 120.0  # seconds, on a machine that has much to do
STUBBORN = """#!/bin/sh
trap '' TERM
cat > /dev/null
echo $$ >> "$(dirname "$0")/called"
while :; do sleep 0.2; done
"""

Daemon = Callable[[], "subprocess.Popen[str]"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    (tmp_path / "call").write_text(STUBBORN)
    place.configure(f'on_hang = [{{ exec = ["{tmp_path}/call"] }}]')
    yield place
    with place.training as training:
        training.kill()
    for pid in called(place):
        for each in group_processes(pid):
            with suppress(ProcessLookupError):  # they end by themselves, too
                os.kill(each, signal.SIGKILL)


@pytest.fixture
def daemon(place: Place) -> Iterator[Daemon]:
    """Starts `watchdogd run`, what it says to a file; none survives the test."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        with (place.folder / "said").open("a") as said:
            words = [sys.executable, "-m", "watchdogd", "--home", str(place.home.path), "run"]
            process = subprocess.Popen(words, text=True, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        started.append(process)
        wait_until(lambda: called(place), PATIENCE, "the program runs")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(PATIENCE)


def called(place: Place) -> list[int]:
    """The process of each call of the program."""
    path = place.folder / "called"
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def test_a_program_that_will_not_end_is_ended_with_the_daemon_and_told(place: Place, daemon: Daemon) -> None:
    process = daemon()
    process.terminate()
    assert process.wait(PATIENCE) == 0
    (pid,) = called(place)
    wait_until(lambda: not group_processes(pid), PATIENCE, "nothing of the program is left")
    said = (place.folder / "said").read_text()
    assert f"exec {place.folder}/call FAILED: " in said
    assert f"{place.folder}/call was killed, since watchdogd ended" in said
    with assembled(place.home, begin(place)) as parts:
        place.settle(parts)
    assert place.about(r"exec \S+") == []
    assert called(place) == [pid]


def test_what_a_killed_daemon_began_is_told_and_never_begun_again(
    place: Place, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = daemon()
    process.kill()
    process.wait(PATIENCE)
    (pid,) = called(place)
    monkeypatch.setattr(
        "watchdogd.daemon.remediation.LATE", 0.0
    )  # not the minutes after which it counts as lost
    with assembled(place.home, begin(place)) as parts:
        place.rounds(parts, "may have been done or not")
        place.settle(parts)
    with assembled(place.home, begin(place)) as parts:
        place.settle(parts)
    (told,) = place.about(r"exec \S+")
    assert told.startswith(f"NOTICE exec {place.folder}/call may have been done or not")
    assert called(place) == [pid]


def test_told_to_end_while_it_starts_it_ends_on_purpose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lease, but does no rounds yet. Ended by the signal, systemd would start it again."""
    home = Home(tmp_path / "home")
    home.make()
    home.config.write_text('[disks.root]\npath = "/"\n')
    monkeypatch.setattr(
        "watchdogd.daemon.daemon_log.begin", lambda _home: os.kill(os.getpid(), signal.SIGTERM)
    )
    before = signal.getsignal(signal.SIGTERM)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        try:
            with pytest.raises(SystemExit) as ended:
                run(argparse.Namespace(home=str(home.path), dry_run=False))
        finally:
            signal.signal(signal.SIGTERM, before)
        assert [manager.recv(4096).split(b"\n")[0] for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
    assert ended.value.code == 0
    assert alive(home) is None
