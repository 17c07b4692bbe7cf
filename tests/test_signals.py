"""A Guard among others who want its signals: frameworks that save and requeue, a user's handler, Guards."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdogd.training import Guard

NUMBERS = (signal.SIGUSR1, signal.SIGTERM)
Make = Callable[..., Guard]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*NUMBERS, signal.SIGCONT)}
    for number in NUMBERS:  # a Guard of a test before may have it still
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes Guards that look at every poll and not only once a second, and closes them."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with contextlib.ExitStack() as guards:

        def new(**options: Any) -> Guard:
            guard = Guard("run-17", home=tmp_path, **{"every": 0.0, "heartbeat": False, **options})
            return guards.enter_context(contextlib.closing(guard))

        yield new


class Framework:
    """One that has a handler of its own, and gives back what was there before: it calls nobody else."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.before: dict[int, Any] = {}

    def install(self, number: int) -> None:
        self.before[number] = signal.signal(number, self)

    def restore(self) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.heard.append(number)


class Polite(Framework):
    """Lightning's way: only where nobody has the signal."""

    def install(self, number: int) -> None:
        if signal.getsignal(number) in (None, signal.SIG_DFL):
            super().install(number)


class Chaining(Framework):
    """A user's own: what was there before is called as well."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        super().__call__(number, frame)
        if callable(self.before[number]):
            self.before[number](number, frame)


class Leaving(Framework):
    """Composer's way, and that of submitit's first rank: the handler ends the program."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        super().__call__(number, frame)
        raise SystemExit(128 + number)


FRAMEWORKS = (Framework, Polite, Chaining)


def receive(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_guard_made_before_a_framework_takes_nothing_from_it(
    kind: type[Framework], number: signal.Signals, make: Make
) -> None:
    guard, framework = make(), kind()
    framework.install(number)
    assert not guard.poll()
    receive(number)
    assert framework.heard == [number]
    assert guard.poll() == (True, False, f"signal {number.name}")
    framework.restore()
    guard.close()
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("kind", FRAMEWORKS)
def test_a_guard_made_after_a_framework_hears_and_passes_on(
    kind: type[Framework], number: signal.Signals, make: Make
) -> None:
    framework = kind()
    framework.install(number)
    guard = make()
    receive(number)
    assert framework.heard == [number]
    assert guard.poll() == (True, False, f"signal {number.name}")
    guard.close()
    receive(number)
    assert framework.heard == [number] * 2


def test_a_framework_finds_a_taken_signal_taken_and_a_free_one_free(make: Make) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    make()
    (ignored, free), (one, other) = (Polite(), Polite()), NUMBERS
    ignored.install(one)
    free.install(other)
    assert (ignored.before, list(free.before)) == ({}, [other])


def test_a_signal_before_the_first_poll_is_heard(make: Make) -> None:
    guard = make()
    receive(signal.SIGUSR1)
    assert guard.poll().reason == "signal SIGUSR1"


def test_a_stop_is_asked_for_when_the_frameworks_save_and_requeue_are_done(make: Make) -> None:
    wishes = []

    class Saving(Polite):
        def __call__(self, number: int, frame: FrameType | None) -> None:
            other = threading.Thread(target=lambda: wishes.append(guard.poll().stop))
            other.start()
            other.join(240)

    guard = make()
    Saving().install(signal.SIGUSR1)
    guard.poll()
    receive(signal.SIGUSR1)
    assert (wishes, guard.poll().stop) == ([False], True)


@pytest.mark.parametrize("first", [True, False])
def test_a_handler_that_ends_the_program_ends_it(first: bool, make: Make) -> None:
    framework = Leaving()
    if first:
        framework.install(signal.SIGTERM)
    guard = make()
    if not first:
        framework.install(signal.SIGTERM)
    guard.poll()
    with pytest.raises(SystemExit) as leaving:
        receive(signal.SIGTERM)
    assert leaving.value.code == 143
    assert guard.poll().stop  # where the exception is caught


def test_after_a_framework_has_gone_the_guard_still_hears(make: Make) -> None:
    framework = Framework()
    framework.install(signal.SIGUSR1)
    guard = make()
    framework.restore()  # takes the Guard's handler away, which it does not know of
    guard.poll()
    receive(signal.SIGUSR1)
    assert (guard.poll().stop, framework.heard) == (True, [])


def test_a_handler_may_let_the_second_signal_end_the_program(make: Make) -> None:
    guard = make()
    signal.signal(signal.SIGTERM, lambda number, _: signal.signal(number, signal.SIG_DFL))
    guard.poll()
    receive(signal.SIGTERM)
    assert guard.poll().stop
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_was_ignored_or_not_set_by_python_is_no_obstacle(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    there = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda n: None if n == signal.SIGUSR1 else there(n))
    guard = make()
    monkeypatch.undo()
    assert signal.getsignal(signal.SIGUSR1) in (None, signal.SIG_DFL)
    for number in NUMBERS:
        receive(number)
        assert guard.poll().reason == f"signal {number.name}"
    guard.close()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    receive(signal.SIGUSR1)  # nobody can put back what Python did not set: the signal does nothing


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_guards_hear_and_do_not_climb_over_each_other(order: tuple[int, int], make: Make) -> None:
    guards = (make(), make())
    framework = Framework()
    framework.install(signal.SIGUSR1)
    for _ in range(2000):
        for guard in guards:
            guard.poll()
    receive(signal.SIGUSR1)
    assert [guard.poll().stop for guard in guards] == [True, True]
    assert framework.heard == [signal.SIGUSR1]
    framework.restore()
    for which in order:
        guards[which].close()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL


def test_a_finished_run_takes_signals_as_without_a_guard(make: Make) -> None:
    guard, framework = make(), Framework()
    framework.install(signal.SIGTERM)
    guard.poll()
    guard.finished()
    assert [signal.getsignal(number) for number in NUMBERS] == [signal.SIG_DFL, framework]
    guard.poll()  # it is a loop again
    receive(signal.SIGTERM)
    assert (guard.poll().stop, framework.heard) == (True, [signal.SIGTERM])


def test_a_guard_made_in_a_thread_hears_from_the_first_poll_in_the_main_thread(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Guard] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join(240)
    made[0].poll()
    receive(signal.SIGTERM)
    assert made[0].poll().stop
    assert "not all watched: they are from the first poll in the main thread on" in capsys.readouterr().err


def test_a_guard_closed_in_a_thread_hears_no_more(tmp_path: Path) -> None:
    script = """
import os, signal, sys, threading
from watchdogd.training import Guard
guard = Guard("run-17", home=sys.argv[1], heartbeat=False)
thread = threading.Thread(target=guard.close)
thread.start()
thread.join()
os.kill(os.getpid(), signal.SIGTERM)
print("it lives on")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", -signal.SIGTERM)


ACTIONS = st.lists(st.sampled_from([Framework, Polite, Chaining, "restore", "poll"]), max_size=12)


@given(actions=ACTIONS, late=st.booleans())
@settings(deadline=None, max_examples=60)
def test_whatever_is_set_and_given_back_both_hear_once(
    tmp_path_factory: pytest.TempPathFactory, actions: list[Any], late: bool
) -> None:
    """`late`: the Guard comes when all frameworks are there already."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    options: dict[str, Any] = {"home": tmp_path_factory.getbasetemp(), "every": 0.0, "heartbeat": False}
    guards = [] if late else [Guard("run-17", **options)]
    installed: list[Framework] = []
    for action in actions:
        if action == "poll":
            for guard in guards:
                guard.poll()
        elif action == "restore":
            for last in installed[-1:]:
                installed.remove(last)
                last.restore()
        elif not (action is Polite and installed):
            installed.append(action())
            installed[-1].install(signal.SIGUSR1)
            assert installed[-1].before  # also the polite one found it free
    guard = guards[0] if guards else Guard("run-17", **options)
    with contextlib.closing(guard):
        assert not guard.poll()
        receive(signal.SIGUSR1)
        assert guard.poll().stop
        assert [len(framework.heard) for framework in installed[-1:]] == [1] * len(installed[-1:])
