"""Power goes at some instant: what lies in home then starts, and knows all that was stored before."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.history.values import (
    NOW,
    alerts,
    incident,
    new_home,
    notification,
    opened,
    opening,
    round_of,
    standing,
)
from tests.waiting import wait_until
from watchdogd.history import database_file as history_file
from watchdogd.history.models import Record
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Silence

CHECK, DAY = "run-17/log_staleness", 86400.0
STEP = DAY / 4
LIVES = """
import sys
from pathlib import Path
from tests.history.test_power import DAY, STEP, at, round_with_all
from tests.history.values import NOW, notification, opened
from watchdogd.home.layout import Home
store = opened(Home(Path(sys.argv[1])))
number = 0
while True:
    store.record(round_with_all(number))
    print("stored", number, flush=True)
    store.settle([notification(f"{number}@mail", "sent", sent_at=NOW)])
    print("sent", number, flush=True)
    store.thin(at(number), 1000 * DAY)
    if number % 4 == 0:
        store.backup()
    number += 1
"""


def at(number: int) -> float:
    """Four rounds a day, so that in a hundred of them numbers are folded into five minutes and into hours."""
    return NOW + number * STEP


def round_with_all(number: int) -> Record:
    """A round that brings one of each thing that has to be remembered."""
    about = incident(number + 1, opened_at=at(number), acknowledged_by=f"bob-{number}")
    known = alerts(
        standing(at(number), about=about),
        next_id=number + 2,
        silences=(Silence(f"disk-{number}", at(number) + 1e9, "alice"),),
    )
    return Record(
        at(number),
        round_of(at(number), lag=number).observations,
        alerts=known,
        events=(opening(number + 1),),
        notifications=(notification(f"{number}@mail"),),
    )


class Life:
    """A process that stores round after round, and says what it has stored."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._said = b""
        self._process = subprocess.Popen(
            [sys.executable, "-c", LIVES, str(home.path)], stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout
        self._output = self._process.stdout
        os.set_blocking(self._output.fileno(), False)

    def hear(self) -> dict[str, int]:
        """The last number of each thing that it said."""
        while heard := self._output.read(65536):
            self._said += heard
        lines = self._said.decode().rpartition("\n")[0].splitlines()
        return {what: int(number) for what, number in map(str.split, lines)}

    @contextmanager
    def power_gone(self) -> Iterator[None]:
        """It stands still."""
        self._process.send_signal(signal.SIGSTOP)
        still = psutil.Process(self._process.pid)
        wait_until(lambda: still.status() == psutil.STATUS_STOPPED, 30, "it stands still")
        yield
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(240)
        self._output.close()


def image(home: Home, place: Path) -> Home:
    subprocess.run(["cp", "-a", home.path, place], check=True)
    return Home(place)


def remembers(home: Home, said: dict[str, int]) -> int:
    """Assert that all that was said is there, and nothing by halves; returns how many rounds there are."""
    store = opened(home)
    try:
        past, incidents, sent = store.past(), store.incidents(), store.notifications(state="sent")
        rounds = len(incidents)
        assert store.troubles == ()
        assert rounds - 1 in (said["stored"], said["stored"] + 1)
        assert {each.id for each in incidents} == {*range(1, rounds + 1)}
        assert {each.acknowledged_by for each in incidents} == {f"bob-{each}" for each in range(rounds)}
        assert [each.target for each in past.alerts.silences] == [f"disk-{rounds - 1}"]
        assert [each.incident for each in past.alerts.states.values()] == [incidents[0]]
        assert past.alerts.next_id == rounds + 1
        assert past.last_round == at(rounds - 1)
        assert len(sent) - 1 in (said.get("sent", -1), said.get("sent", -1) + 1)
        assert len(sent) + len(past.waiting) == rounds
        assert len(store.events()) == rounds
        (lag,) = (each for each in store.measures() if each.metric == "lag")
        assert (lag.readings, lag.low, lag.high) == (rounds, 0.0, rounds - 1.0)
        return rounds
    finally:
        store.close()


def test_what_was_stored_is_there_whenever_the_power_goes(tmp_path: Path) -> None:
    home, instants = new_home(tmp_path), random.Random(17)
    life = Life(home)
    try:
        wait_until(lambda: "sent" in life.hear(), 60, "it stores")
        for number in range(8):
            wait_until(lambda: life.hear()["stored"] >= 6 * number, 60, "it goes on")  # noqa: B023
            time.sleep(instants.random() * 0.05)
            with life.power_gone():
                said = life.hear()
                copy = image(home, tmp_path / f"image-{number}")
            remembers(copy, said)
            shutil.rmtree(copy.path)
    finally:
        life.end()


STAGES: list[tuple[Any, str]] = [
    (Path, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
    (history_file.HistoryFile, "_create"),
    (shutil, "copyfile"),
    (history_file, "_sync"),
]
"""All that a restoration does to files."""


def test_a_restoration_that_is_cut_off_anywhere_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home(tmp_path)
    store = opened(home)
    for number in range(8):
        store.record(round_with_all(number))
        if number == 5:
            store.backup()
    store.close()
    home.history.write_bytes(b"this is no database " * 500)
    images: list[Home] = []

    def watched(do: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            done = do(*args, **options)
            images.append(image(home, tmp_path / f"image-{len(images)}"))
            return done

        return step

    with monkeypatch.context() as patched:
        for place, name in STAGES:
            patched.setattr(place, name, watched(getattr(place, name)))
        restored = opened(home)
    restored.close()
    assert len(images) >= len(STAGES)
    for each in images:
        store = opened(each)
        assert [found.id for found in store.incidents()] == [6, 5, 4, 3, 2, 1]
        assert store.past().last_round == at(5)
        store.close()
