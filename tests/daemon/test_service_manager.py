"""What systemd is told, by a socket as it makes one; with a real manager: tests/deploy/test_systemd.py."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchdogd.daemon.daemon import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def wire(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@watchdogd-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there:
        there.bind(name.replace("@", "\0"))
        there.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        monkeypatch.setenv("WATCHDOG_USEC", "15000000")
        yield there


def test_a_round_that_works_is_told_and_a_long_pause_raises_the_deadline_once(wire: socket.socket) -> None:
    service = ServiceManager()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC"} & os.environ.keys()  # a check inherits neither
    told = []
    for pause in (2.0, 60.0, 60.0):
        service.working("3 checks, größe\udc80", pause)
        told.append(wire.recv(4096).decode().splitlines())
    assert told[0] == ["READY=1", "WATCHDOG=1", "STATUS=3 checks, größe?"]
    assert told[1] == [*told[0], "WATCHDOG_USEC=180000000"]
    assert told[2] == told[0]


def test_an_end_before_the_first_round_is_no_failed_start(wire: socket.socket) -> None:
    ServiceManager().ending()
    # Within one message systemd takes the last of the two only.
    assert [wire.recv(4096).split(b"\n")[0] for _ in range(2)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "x" * 300, "@"])
def test_a_manager_that_does_not_listen_breaks_nothing(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "²")
    ServiceManager().working("fine", 60.0)
