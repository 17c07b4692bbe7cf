"""The second look of a tick: at what, when, and until when. With times as numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from watchdogd.cli import tick
from watchdogd.config.fields import Recipients
from watchdogd.daemon.due import Rechecks, unconfirmed
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.registry.plugin_registry import PluginEntry, Source
from watchdogd.incidents.models import AlertPolicy, AlertState, CheckState
from watchdogd.plugin import Status

NOW = 1_900_000_000.0
OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN


def made(name: str, follows: tuple[str, ...] = ()) -> Check:
    entry = PluginEntry(name, "built-in", Source("m", name))
    return replace(Check(name, entry, {}, name, None, 60.0, 30.0, 2, Recipients()), follows=follows)


def found(settled: Status, status: Status, streak: int = 1, policy: AlertPolicy | None = None) -> set[str]:
    standing = CheckState("a", "", status, "seen", NOW, NOW, streak, hard=settled)
    return {
        *unconfirmed(
            AlertState({("a", ""): standing}), {"a": policy or AlertPolicy()}, [made("a"), made("b")], NOW
        )
    }


@pytest.mark.parametrize(
    ("settled", "status", "again"),
    [
        (OK, OK, False),
        (OK, WARNING, True),
        (OK, CRITICAL, True),
        (OK, UNKNOWN, True),
        (WARNING, CRITICAL, True),
        (UNKNOWN, WARNING, True),
        (WARNING, OK, False),
        (CRITICAL, WARNING, False),
        (CRITICAL, UNKNOWN, False),
        (WARNING, WARNING, False),
    ],
)
def test_what_is_new_and_bad_is_looked_at_again_and_nothing_else(
    settled: Status, status: Status, again: bool
) -> None:
    assert found(settled, status) == ({"a"} if again else set())


def test_what_is_confirmed_is_not_looked_at_again() -> None:
    assert found(OK, CRITICAL, 2) == set()
    assert found(OK, CRITICAL, 2, AlertPolicy(confirm=3)) == {"a"}
    assert found(OK, CRITICAL, 1, AlertPolicy(confirm=1)) == set()


def test_where_what_others_rest_on_fails_they_are_asked_again() -> None:
    dependency = "watchdogd/slurm"
    standing = CheckState(dependency, "", CRITICAL, "silent", NOW, NOW, 1)
    checks = [made("a", (dependency,)), made("b", ("a",)), made("c")]
    assert unconfirmed(
        AlertState({(dependency, ""): standing}), {dependency: AlertPolicy()}, checks, NOW
    ) == {"a"}


@pytest.mark.parametrize(
    ("interval", "step", "left", "waits", "until"),
    [
        (60.0, 300.0, math.inf, 60.0, 240.0),
        (10.0, 300.0, math.inf, 10.0, 240.0),
        (600.0, 900.0, math.inf, 60.0, 720.0),
        (0.01, 300.0, math.inf, 1.0, 240.0),
        (60.0, 300.0, 290.0, 60.0, 140.0),
        (60.0, 300.0, 200.0, 0.0, 0.0),  # the link ends before: Slurm would kill it in the middle
        (60.0, 60.0, math.inf, 0.0, 0.0),  # the next tick comes as soon
    ],
)
def test_there_is_a_further_look_after_an_interval_while_there_is_time(
    interval: float, step: float, left: float, waits: float, until: float
) -> None:
    rechecks = Rechecks.of_tick(interval, NOW, step, left)
    assert rechecks.pause(NOW) == waits
    if until:
        assert rechecks.pause(NOW + until - waits) == waits
        assert rechecks.pause(NOW + until - waits + 1) == 0.0


class Scripted:
    """An engine whose looks find what is written down, by a clock that runs only while somebody waits."""

    def __init__(self, *fresh: set[str], held: float = math.inf) -> None:
        self.now = NOW
        self.rounds: list[tuple[float, object]] = []
        self.waits = False
        self._fresh = list(fresh)
        self._held = held
        self.lease = self

    def held(self) -> bool:
        return self.now < NOW + self._held

    def watch(self) -> bool:
        return self.held()

    def add(self, _: object) -> None:
        pass

    def time(self) -> float:
        return self.now

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def round(self, *, only: object, may_act: Any, **_: object) -> object:
        if not may_act():
            return None
        self.rounds.append((self.now - NOW, only))
        return self

    def unconfirmed(self) -> set[str]:
        return self._fresh.pop(0) if self._fresh else set()


def ticked(script: Scripted, monkeypatch: pytest.MonkeyPatch, *, step: float = 300.0) -> bool:
    monkeypatch.setattr(tick, "time", script)
    it: Any = script
    return tick._rounds(it, it, it, Rechecks.of_tick(60.0, NOW, step, math.inf))


def test_a_tick_looks_again_at_what_is_bad_alone_until_it_is_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Scripted({"a", "b"}, {"b"})
    assert ticked(script, monkeypatch)
    assert script.rounds == [(0.0, None), (60.0, {"a", "b"}), (120.0, {"b"})]


def test_a_tick_that_finds_nothing_new_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted()
    assert ticked(script, monkeypatch)
    assert script.rounds == [(0.0, None)]


def test_a_tick_ends_before_the_next_one_though_it_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted(*({"a"} for _ in range(20)))
    assert ticked(script, monkeypatch)
    assert [at for at, _ in script.rounds] == [0.0, 60.0, 120.0, 180.0, 240.0]


def test_a_tick_that_loses_its_lease_while_it_waits_does_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted({"a"}, held=30.0)
    assert not ticked(script, monkeypatch)
    assert script.rounds == [(0.0, None)]
    assert script.now < NOW + 32.0
