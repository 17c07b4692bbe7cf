"""Waiting for a file system that may hang: the caller goes on."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tests.waiting import wait_until
from watchdogd.system.bounded_io import BoundedIO, StuckError


def test_values_and_errors_come_through() -> None:
    patient = BoundedIO("/home", deadline=30)
    assert patient.attempt(lambda: 3) == 3
    with pytest.raises(FileNotFoundError):
        patient.attempt(lambda: os.stat("/no/such/file"))
    patient.close()


def test_while_one_hangs_others_are_refused_at_once_and_afterwards_all_is_well() -> None:
    patient = BoundedIO("/hung", deadline=0.3)
    back = threading.Event()
    with pytest.raises(StuckError, match="/hung has not answered for"):
        patient.attempt(back.wait)
    begin = time.monotonic()
    for _ in range(50):
        with pytest.raises(StuckError):
            patient.attempt(lambda: 1)
    assert time.monotonic() - begin < 12  # each of its own deadline would be 15
    back.set()

    def answers() -> bool:
        try:
            return patient.attempt(lambda: 1) == 1
        except StuckError:
            return False

    wait_until(answers, 30, "it answers again")
    patient.close()


def test_a_thread_that_died_is_replaced() -> None:
    patient = BoundedIO("/home", deadline=60)
    assert patient.attempt(threading.current_thread).name == "patient /home"
    first = patient.attempt(threading.get_ident)
    patient.close()
    wait_until(lambda: all(thread.ident != first for thread in threading.enumerate()), 60, "it has ended")
    assert patient.attempt(lambda: 3) == 3
    patient.close()


def test_where_no_thread_can_be_started_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    patient = BoundedIO("/home", deadline=60)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StuckError, match="/home cannot be asked: this user has too many processes"):
            patient.attempt(lambda: 3)
    assert patient.attempt(lambda: 3) == 3
    patient.close()
