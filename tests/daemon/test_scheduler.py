"""When rounds happen, whatever the clock does; the end where they happen no more: no memory, no threads."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from tests.lab import zones
from watchdogd.daemon import scheduler
from watchdogd.daemon.scheduler import Schedule
from watchdogd.errors import StalledError


@pytest.fixture
def begin() -> Iterator[Callable[[Callable[[], float]], Schedule]]:
    """A Schedule with that round; its scheduler's threads end with the test."""
    begun: list[Schedule] = []

    def make(round_: Callable[[], float]) -> Schedule:
        until = time.monotonic() + 120
        begun.append(Schedule(round_, lambda: time.monotonic() < until))
        return begun[-1]

    yield make
    for each in begun:
        if each._scheduler.running:
            each._stop()


@pytest.mark.parametrize("name", zones.ODD, ids=range(len(zones.ODD)))
def test_rounds_come_in_any_time_zone(begin: Callable[[Callable[[], float]], Schedule], name: str) -> None:
    rounds: list[float] = []

    def round_() -> float:
        rounds.append(time.monotonic())
        if len(rounds) == 3:
            made.end()
        return 0.0

    with zones.local(name):
        made = begin(round_)
        made.run()
    assert len(rounds) == 3


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("HEARTBEAT", 0.05), ("RECOVERY", 0.05), ("STALLED", 1.0)):
        monkeypatch.setattr(scheduler, name, seconds)


def in_an_hour() -> float:
    return 3600.0


def exhausted() -> float:
    raise MemoryError


@pytest.mark.usefixtures("hasty")
def test_a_round_that_is_lost_for_want_of_memory_is_ordered_again() -> None:
    begun: list[float] = []
    until = time.monotonic() + 120

    def round_() -> float:
        begun.append(time.time())
        if len(begun) == 1:
            raise MemoryError
        return 3600.0

    Schedule(round_, lambda: len(begun) < 2 and time.monotonic() < until).run()
    assert len(begun) == 2


@pytest.mark.usefixtures("hasty")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is the fault
def test_a_scheduler_that_died_ends_it(
    begin: Callable[[Callable[[], float]], Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apscheduler.schedulers.base.BaseScheduler._process_jobs", lambda _: exhausted())
    monkeypatch.setattr(scheduler, "LIFELESS", 0.5)
    monkeypatch.setattr(scheduler, "STALLED", 60.0)
    with pytest.raises(StalledError, match="no round could be begun for"):
        begin(in_an_hour).run()


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_rounds_that_break_off_time_and_again_end_it(
    begin: Callable[[Callable[[], float]], Schedule],
) -> None:
    with pytest.raises(StalledError, match="no round went well for 1 s: the last one broke off: MemoryError"):
        begin(exhausted).run()


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_a_round_that_hangs_ends_it_and_is_left_behind(
    begin: Callable[[Callable[[], float]], Schedule],
) -> None:
    back = threading.Event()

    def hangs() -> float:
        back.wait(120)
        return in_an_hour()

    with pytest.raises(StalledError, match="the last one has not come back"):
        begin(hangs).run()
    back.set()


@pytest.mark.usefixtures("hasty")
def test_where_no_thread_can_be_started_it_ends_at_once(
    begin: Callable[[Callable[[], float]], Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StalledError, match="no round can be begun: this user has too many processes"):
            Schedule(in_an_hour, lambda: True).run()


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is the fault
def test_a_process_that_was_stopped_for_a_while_is_not_blamed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each look of the caller comes so late that the process must have stood still."""
    monkeypatch.setattr("apscheduler.schedulers.base.BaseScheduler._process_jobs", lambda _: exhausted())
    monkeypatch.setattr(scheduler, "ASLEEP", 0.1)
    monkeypatch.setattr(scheduler, "LIFELESS", 0.5)
    snapshots: list[float] = []

    def watch() -> bool:
        snapshots.append(time.monotonic())
        time.sleep(0.4)
        return len(snapshots) < 3

    stopped = Schedule(in_an_hour, watch)
    stopped.run()
    assert len(snapshots) == 3


class Locked(logging.Handler):
    """As the queue of the daemon's log: signals come while its lock is held."""

    def __init__(self) -> None:
        super().__init__()
        self.mutex = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        assert self.mutex.acquire(timeout=10), record.getMessage()
        if record.getMessage() == "now":
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                signal.raise_signal(number)
        self.mutex.release()


@pytest.mark.slow
def test_signals_that_come_together_while_a_line_is_logged_end_it() -> None:
    snapshots: list[int] = []

    def watch() -> bool:
        snapshots.append(1)
        logging.getLogger("watchdogd").warning("now")
        return len(snapshots) < 100

    handler = Locked()
    logging.getLogger("watchdogd").addHandler(handler)
    try:
        ended = Schedule(in_an_hour, watch)
        ended.run()
    finally:
        logging.getLogger("watchdogd").removeHandler(handler)
    assert (len(snapshots), ended.ended) == (1, True)


class Astray(datetime):
    """The clock as a module sees it: one reading of many is of another day."""

    off = timedelta()
    after = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Astray:
        cls.after -= 1
        return super().now(tz) + (cls.off if cls.after == 0 else timedelta())


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("module", ["apscheduler.schedulers.base", "watchdogd.daemon.scheduler"])
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 7])
def test_a_clock_that_is_set_and_set_back_within_a_second_stops_nothing(
    module: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{module}.datetime", Astray)
    monkeypatch.setattr(Astray, "off", timedelta(hours=30))
    monkeypatch.setattr(Astray, "after", after)
    begun = {"round": 0, "chores": 0}
    until = time.monotonic() + 120

    def turn(which: str) -> float:
        begun[which] += 1
        return 0.05

    def chores() -> None:
        turn("chores")

    plan = Schedule(lambda: turn("round"), lambda: min(begun.values()) < 4 and time.monotonic() < until)
    plan.add("chores", chores, after=0.0, every=0.05)
    plan.run()
    assert min(begun.values()) >= 4
    assert time.monotonic() < until


def test_a_clock_that_is_set_from_1970_to_today_keeps_nobody_busy() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    trigger = scheduler._Every(5.0)
    assert trigger.get_next_fire_time(datetime(1970, 1, 1, tzinfo=UTC), now) == now + timedelta(seconds=5)


def test_a_round_that_ends_as_all_ends_is_waited_for() -> None:
    """It asks for the next one while the scheduler is taken down."""
    finished: list[bool] = []

    def round_() -> float:
        ended.end()
        finished.append(True)
        return 0.0

    ended = Schedule(round_, lambda: True)
    ended.run()
    assert finished == [True]
