"""kill -9 at random instants, 200 times, and amid a storm: none is lost, at most one comes twice."""

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.lab.forked import CONTEXT
from tests.notify.sender_process import INCIDENTS, live
from tests.servers.web import NORMAL, Fault, WebServer
from tests.waiting import wait_until
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.notify.locks import Locks

KILLS, STORM = 200, 1000


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: a kernel that lives on loses nothing, so no life needs to wait for a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def test_two_hundred_kills_lose_nothing_and_repeat_at_most_one_message_each(
    memory: Path, endpoint: WebServer
) -> None:
    home, context = _ground(memory)
    dice = random.Random(9)
    usual = _life(context, home, endpoint, 10)
    killed = arrived = 0
    repeats = []
    while killed < KILLS:
        ready, begun = context.Pipe(duplex=False)
        process = context.Process(target=live, args=(str(home.path), endpoint.url, 10_000, begun))
        process.start()
        assert process.pid is not None
        assert ready.poll(300)
        time.sleep(dice.uniform(0.0, usual))
        os.kill(process.pid, signal.SIGKILL)
        process.join(240)
        assert process.exitcode == -signal.SIGKILL
        killed += 1
        keys = Counter(_keys(endpoint))
        repeats.append(keys.total() - len(keys))
        arrived = len(keys)
    assert (
        max(after - before for before, after in zip([0, *repeats], [*repeats, repeats[-1]], strict=True)) <= 1
    )
    _life(context, home, endpoint, 0)
    _nothing_is_lost(home, endpoint)
    print(f"{killed} kills, {arrived} messages, {repeats[-1]} came twice")
    assert arrived > KILLS / 4, "most lives were too short to send anything"


def test_a_thousand_incidents_of_one_round_outlive_a_kill_in_their_middle(
    memory: Path, endpoint: WebServer
) -> None:
    home, context = _ground(memory)
    endpoint.behave([*[NORMAL] * (STORM // 2), Fault.HANG])
    ready, begun = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(str(home.path), endpoint.url, 0, begun, STORM))
    process.start()
    try:
        assert ready.poll(300)
        wait_until(lambda: len(endpoint.requests) > STORM // 2, 300, "half of the storm is delivered")
    finally:
        process.kill()
        process.join(240)
    endpoint.release()
    _life(context, home, endpoint, 0)
    _nothing_is_lost(home, endpoint)
    keys = Counter(_keys(endpoint))
    assert len(keys) == STORM
    assert keys.total() <= STORM + 1


def _ground(place: Path) -> tuple[Home, ForkServerContext]:
    """A home with a history, and what begins lives."""
    home = Home(place / "home")
    home.make()
    Store.open("sqlite:///history.db", home).close()
    return home, CONTEXT  # it imports once: a life begins within milliseconds


def _life(context: ForkServerContext, home: Home, endpoint: WebServer, rounds: int) -> float:
    """One that ends by itself; how long it took, in seconds, on this machine as busy as it is."""
    ready, begun = context.Pipe(duplex=False)
    process = context.Process(target=live, args=(str(home.path), endpoint.url, rounds, begun))
    process.start()
    try:
        assert ready.poll(300)
        begin = time.monotonic()
        process.join(300)
        assert process.exitcode == 0
        return time.monotonic() - begin
    finally:
        process.kill()


def _keys(endpoint: WebServer) -> list[str]:
    """What arrived whole, in order; a request that was cut off by a kill is none."""
    whole = [each for each in endpoint.requests if len(each.body) == int(each.headers["content-length"])]
    return [request.json()["key"] for request in whole]


def _nothing_is_lost(home: Home, endpoint: WebServer) -> None:
    store = Store.open("sqlite:///history.db", home)
    rows = store.notifications()
    store.close()
    keys = _keys(endpoint)
    assert {row.key for row in rows} == set(keys)
    assert {row.state for row in rows} == {"sent"}
    assert Locks(home).delivered() == []
    for incident in range(INCIDENTS):
        firsts = [int(key[1:].partition("@")[0]) for key in dict.fromkeys(keys)]
        numbers = [number for number in firsts if number % INCIDENTS == incident]
        assert numbers == sorted(numbers)
