"""Scheduler of the daemon: APScheduler runs its jobs; signals end it; a change of the clock stops nothing."""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from watchdogd.errors import StalledError
from watchdogd.system import startup

log = logging.getLogger(__name__)

HEARTBEAT = 1.0
"""Seconds between two calls of `watch`."""

LEAST = 0.05
"""Minimum seconds between rounds."""
RECOVERY = 5.0
"""Seconds until the next round after a failed one, and by which a job may be late."""
LIFELESS = 120.0
"""Seconds in which a due round could not begin, after which `run` raises: its thread is dead."""
STALLED = 900.0
"""Seconds without a successful round, after which `run` raises: rounds hang, or fail again and again."""
ASLEEP = 60.0
"""Seconds without a call of `watch` after which the rounds are not to blame: the process was stopped."""


class _Thread(BasePoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """Executor with one thread, started at once, since later none may be available. StalledError."""

    def __init__(self) -> None:
        pool = ThreadPoolExecutor(1)
        try:
            pool.submit(int)
        except RuntimeError:
            raise StalledError(f"no round can be begun: {startup.NO_THREAD}") from None
        super().__init__(pool)


class _Every(BaseTrigger):  # type: ignore[misc]
    """Trigger that fires so many seconds after the last run; missed runs are made up once.

    IntervalTrigger iterates over every missed run: a minute of CPU and a gigabyte of memory when the clock is
    set from 1970 to today.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def get_next_fire_time(self, _previous: datetime | None, now: datetime) -> datetime:
        return now + timedelta(seconds=self.seconds)


class Schedule:
    """Scheduler that runs `round_` on a thread, each time after the seconds that it returned.

    After an exception it runs again soon; rounds never overlap. When the clock is set back, jobs run at once.
    `watch` is called every second and ends everything by returning False. Where memory or threads run short,
    any thread here may die or hang; the calling thread notices that no round succeeds.
    """

    def __init__(self, round_: Callable[[], float], watch: Callable[[], bool]) -> None:
        self._do = round_
        self._watch = watch
        self._ended = False
        self._bell = queue.SimpleQueue[None]()
        self._fault = ""
        self._signal: int | None = None
        self._under_way = False
        self._good_until = self._begun = self._beaten = time.monotonic()
        self._pauses: dict[str, float] = {}
        self._threads: list[_Thread] = []
        self._scheduler = BackgroundScheduler(
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,  # TZ may be odd
        )
        self.add("round", self._round, after=0.0, every=RECOVERY)

    def add(self, name: str, do: Callable[[], None], *, after: float, every: float) -> None:
        """Run `do` on its own thread, first in `after` seconds, then at this interval; call before `run`."""
        self._threads.append(_Thread())
        self._scheduler.add_executor(self._threads[-1], name)
        self._pauses[name] = max(after, every)
        at = datetime.now(UTC) + timedelta(seconds=after)
        self._scheduler.add_job(do, _Every(every), id=name, name=name, executor=name, next_run_time=at)

    def run(self) -> None:
        """Run until `end`, a False from `watch`, or a signal; a current round is finished first.

        StalledError where rounds no longer succeed; hanging threads are left behind.
        """
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            self._begin()
            while not self._rung(HEARTBEAT) and self._beat():
                pass
            self._ended = True
            if self._signal is not None:
                log.info("ending: %s", signal.Signals(self._signal).name)
            self._stop()
        finally:
            self._ended = True
            for number, handler in before.items():
                signal.signal(number, handler)

    def _begin(self) -> None:
        try:
            self._scheduler.start()
        except RuntimeError:
            raise StalledError(f"no round can be begun: {startup.NO_THREAD}") from None

    def _stop(self) -> None:
        """Stop the scheduler, then wait for running jobs."""
        self._scheduler.shutdown(wait=False)  # waiting holds the job lock, which the end of a round needs
        for thread in self._threads:
            thread.shutdown(wait=True)

    def _beat(self) -> bool:
        """Call `watch`, check the clock and the rounds; False: end."""
        if not self._watch():
            return False
        now = datetime.now(UTC)
        for job in self._scheduler.get_jobs():
            if job.next_run_time > now + timedelta(seconds=self._pauses[job.id] + RECOVERY):
                log.warning("the clock was set back: %s comes now", job.id)
                job.modify(next_run_time=now)
        self._see_life(time.monotonic())
        return True

    def _see_life(self, now: float) -> None:
        if now > self._beaten + ASLEEP:
            self._good_until = max(self._good_until, now)
        self._beaten = now
        if not self._under_way and now > max(self._begun, self._good_until) + LIFELESS:
            raise StalledError(f"no round could be begun for {LIFELESS:.0f} s")
        if now > self._good_until + STALLED:
            why = (
                f"the last one broke off: {self._fault}" if self._fault else "the last one has not come back"
            )
            raise StalledError(f"no round went well for {STALLED:.0f} s: {why}")

    def end(self) -> None:
        """Make `run` return after the current round."""
        self._ended = True
        self._bell.put(None)

    def _rung(self, seconds: float) -> bool:
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)
        return self._ended

    @property
    def ended(self) -> bool:
        return self._ended

    def _on_signal(self, number: int, _frame: Any) -> None:
        """End without taking a lock, which the interrupted thread or an earlier handler may hold.

        So nothing is logged, and a SimpleQueue is used: unlike an Event it is reentrant.
        """
        self._signal = number
        self.end()

    def _round(self) -> None:
        """Do one round; after a failed one the trigger starts the next."""
        if self._ended:
            return
        self._under_way, self._begun, self._pauses["round"] = True, time.monotonic(), RECOVERY
        try:
            pause = max(self._do(), LEAST)
        except Exception as error:  # noqa: BLE001 - rounds go on whatever it is; `round_` reports it
            self._fault = type(error).__name__
        else:
            self._good_until, self._fault = time.monotonic() + pause, ""
            self._pauses["round"] = max(pause, RECOVERY)
            at = datetime.now(UTC) + timedelta(seconds=pause)
            with contextlib.suppress(JobLookupError):  # `run` ends meanwhile
                self._scheduler.modify_job("round", next_run_time=at)
        finally:
            self._under_way = False
