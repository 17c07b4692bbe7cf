"""Console and status log: what a terminal and a file get."""

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.notify.values import NOON, letter, message
from watchdogd.errors import DeliveryError
from watchdogd.home.layout import Home
from watchdogd.notify.channels.console import Console
from watchdogd.notify.channels.statuslog import Statuslog
from watchdogd.units import local_time


def test_the_console_shows_headline_and_body(capsys: pytest.CaptureFixture[str]) -> None:
    Console().send(letter(), ())
    out = capsys.readouterr().out
    assert out.startswith(
        f"{local_time(NOON)} [CRITICAL] run-17: no new line for 25m\nSince noon.\n\n    iteration"
    )
    assert out.endswith("watchdogd ack 17\n\n")


def test_the_console_gets_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    evil = message(headline="[OK] x: \x1b]0;owned\x07\x1b[31mred", body="\x1b[2Jline\x9b31m\x00")
    Console().send(replace(letter(), message=evil), ())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "\x00" not in out


def test_a_terminal_without_unicode_gets_what_it_can_show() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(stream).send(replace(letter(), message=message(headline="[OK] größe: ü")), ())
    assert b"[OK] gr??e: ?" in raw.getvalue()


def test_a_closed_console_is_a_failed_delivery(tmp_path: Path) -> None:
    stream = (tmp_path / "out").open("w")
    stream.close()
    with pytest.raises(DeliveryError):
        Console(stream).send(letter(), ())


def test_a_full_disk_behind_the_console_is_a_failed_delivery() -> None:
    raw = os.open("/dev/full", os.O_WRONLY)
    stream = io.TextIOWrapper(io.FileIO(raw, "w"))  # without a buffer that would fail again when it closes
    with pytest.raises(DeliveryError, match="No space left on device"):
        Console(stream).send(letter(), ())
    stream.detach().close()


def test_the_status_log_grows_by_one_line_a_message(tmp_path: Path) -> None:
    path = tmp_path / "status.log"
    log = Statuslog(str(path), Home(tmp_path / "home"))
    log.send(letter(), ())
    path.rename(tmp_path / "status.log.1")
    log.send(replace(letter(), message=message(headline="[OK] a: b\nforged line \x1b[31m")), ())
    assert path.read_text() == f"{local_time(NOON)} [OK] a: b forged line\n"
    assert (
        tmp_path / "status.log.1"
    ).read_text() == f"{local_time(NOON)} [CRITICAL] run-17: no new line for 25m\n"


def test_a_status_log_that_cannot_be_written_is_a_failed_delivery(tmp_path: Path) -> None:
    with pytest.raises(DeliveryError, match="cannot be written: No such file or directory"):
        Statuslog(str(tmp_path / "missing" / "status.log"), Home(tmp_path / "home")).send(letter(), ())
    with pytest.raises(DeliveryError, match="No space left on device"):
        Statuslog("/dev/full", Home(tmp_path / "home")).send(letter(), ())


def test_the_status_log_follows_no_pipe_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(DeliveryError):
        Statuslog(str(path), Home(tmp_path / "home")).send(letter(), ())
