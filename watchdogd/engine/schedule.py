"""When rounds happen: APScheduler drives them, signals end it, and a clock that is set stops nothing."""

from __future__ import annotations

import logging
import signal
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

HEARTBEAT = 1.0
"""Seconds between looks at the clock and at whether to end."""
JUMP = 30.0
"""Seconds by which the wall clock may drift from the monotonic one before a round is brought forward."""

LOST = 5.0
"""Seconds after which a round that was due and has not begun is ordered again."""


class Schedule:
    """Runs `round_` whenever the time that it returned has come, on a thread.

    A round never overlaps another. A clock that is set, forwards or back, brings the next round forward.
    `watch` is asked every second, and ends it all by False.
    """

    def __init__(self, round_: Callable[[], float], watch: Callable[[], bool]) -> None:
        self._round = round_
        self._watch = watch
        self._ended = threading.Event()
        self._under_way = False
        self._due = time.monotonic()
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,
        )

    def beside(self, name: str, do: Callable[[], None], *, after: float, every: float) -> None:
        """Runs `do` on a thread of its own, first in `after` seconds, then every so many; before `run`."""
        self._scheduler.add_executor(ThreadPoolExecutor(1), name)
        first = datetime.fromtimestamp(time.time() + after, UTC)
        trigger = IntervalTrigger(seconds=int(every), start_date=first, timezone=UTC)
        self._scheduler.add_job(do, trigger, executor=name, id=name)

    def run(self) -> None:
        """Until `end` is called, `watch` says no, or a signal to end comes; a round under way is finished."""
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        self._scheduler.start()
        self._at(time.time())
        drift = time.time() - time.monotonic()
        try:
            while not self._ended.wait(HEARTBEAT) and self._watch():
                now_drift = time.time() - time.monotonic()
                if abs(now_drift - drift) > JUMP:
                    log.warning("the clock was set by %.0f s", now_drift - drift)
                    self._at(time.time())
                drift = now_drift
                if not self._under_way and time.monotonic() > self._due + LOST:
                    # a scheduler that had no memory for a round, or for ordering it, has forgotten it
                    self._at(time.time())
        finally:
            self._ended.set()
            self._scheduler.shutdown(wait=True)
            for number, handler in before.items():
                signal.signal(number, handler)

    def end(self) -> None:
        """Let `run` return; a round that is under way goes to its end."""
        self._ended.set()

    @property
    def ended(self) -> bool:
        """Whether it was told to end."""
        return self._ended.is_set()

    def _on_signal(self, number: int, _frame: Any) -> None:
        log.info("ending: %s", signal.Signals(number).name)
        self._ended.set()

    def _at(self, when: float) -> None:
        self._due = time.monotonic() + when - time.time()
        moment = datetime.fromtimestamp(when, UTC)
        self._scheduler.add_job(self._step, DateTrigger(moment), id="round", replace_existing=True)

    def _step(self) -> None:
        if self._ended.is_set():
            return
        self._under_way = True
        try:
            wake = self._round()
            if not self._ended.is_set():
                self._at(max(wake, time.time() + 0.05))
        finally:
            self._under_way = False
