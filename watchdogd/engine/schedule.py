"""When rounds happen: APScheduler drives them, signals end it, and a clock that is set stops nothing."""

from __future__ import annotations

import contextlib
import logging
import queue
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger

from watchdogd.errors import StalledError
from watchdogd.system import shortage
from watchdogd.system.clock import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

HEARTBEAT = 1.0
"""Seconds between looks at the clock and at whether to end."""

LEAST = 0.05
"""Seconds from one round to the next, at least."""
RECOVERY = 5.0
"""Seconds until the next round after one that broke off, or until one that was due and has not begun."""
LIFELESS = 120.0
"""Seconds for which no round that is due can be begun, whereupon all ends: whoever starts rounds is dead."""
STALLED = 900.0
"""Seconds without a round that went well, whereupon all ends: rounds hang, or break off time and again."""
ASLEEP = 60.0
"""Seconds without a beat of the calling thread after which nobody is to blame: the process was stopped."""


class _Thread(BasePoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """One thread, which is there from the beginning: later there may be none to be had. StalledError."""

    def __init__(self) -> None:
        pool = ThreadPoolExecutor(1)
        try:
            pool.submit(int)
        except RuntimeError:
            raise StalledError(f"no round can be begun: {shortage.THREAD}") from None
        super().__init__(pool)


@dataclass(slots=True, eq=False)
class _Turn:
    """Something that is done again and again: `do` returns the seconds until the next time.

    `due` is by the monotonic clock, which nobody sets; `pause` is for a turn that breaks off.
    """

    name: str
    do: Callable[[], float]
    executor: str = "default"
    pause: float = 0.0
    due: float = 0.0
    under_way: bool = False


class Schedule:
    """Runs `round_`, on a thread, each time after the seconds that it returned; soon again where it raised.

    A round never overlaps another. A clock that is set, forwards or back, brings the next round forward.
    `watch` is asked every second, and ends it all by False. Where memory or threads run short, whatever
    brings rounds about may die or hang at any place: the calling thread sees that none goes well any more.
    """

    def __init__(self, round_: Callable[[], float], watch: Callable[[], bool]) -> None:
        self._do = round_
        self._round = _Turn("round", self._one_round)
        self._turns = [self._round]
        self._watch = watch
        self._ended = False
        self._bell = queue.SimpleQueue[None]()
        self._fault = ""
        self._signal: int | None = None
        self._looked = _now()
        self._owed = self._begun = self._beaten = time.monotonic()
        self._scheduler = BackgroundScheduler(
            executors={"default": _Thread()},
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,
        )

    def beside(self, name: str, do: Callable[[], None], *, after: float, every: float) -> None:
        """Runs `do` on a thread of its own, first in `after` seconds, then every so many; before `run`."""

        def turn() -> float:
            do()
            return every

        self._scheduler.add_executor(_Thread(), name)
        self._turns.append(_Turn(name, turn, executor=name, pause=every))
        self._order(self._turns[-1], after)

    def run(self) -> None:
        """Until `end` is called, `watch` says no, or a signal to end comes; a round under way is finished.

        StalledError where rounds come about no more; what hangs is left behind then.
        """
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            self._begin()
            self._looked = _now()
            while not self._rung(HEARTBEAT) and self._beat():
                pass
            self._ended = True
            if self._signal is not None:
                log.info("ending: %s", signal.Signals(self._signal).name)
            self._scheduler.shutdown(wait=True)
        finally:
            self._ended = True
            for number, handler in before.items():
                signal.signal(number, handler)

    def _begin(self) -> None:
        try:
            self._scheduler.start()
        except RuntimeError:
            raise StalledError(f"no round can be begun: {shortage.THREAD}") from None
        self._order(self._round)

    def _beat(self) -> bool:
        """Look whether to end, at the clock, and after the rounds; False: it is time to end."""
        if not self._watch():
            return False
        looked = _now()
        if jump := looked.jump(self._looked):
            log.warning("the clock was set by %.0f s", jump)
            self._order(self._round)
        self._looked = looked
        for turn in self._turns:
            # without memory the scheduler forgot it; where the clock was set, it lies hours off
            if not turn.under_way and time.monotonic() > turn.due + RECOVERY:
                self._order(turn)
        self._see_life(time.monotonic())
        return True

    def _see_life(self, now: float) -> None:
        if now > self._beaten + ASLEEP:
            self._owed = max(self._owed, now)
        self._beaten = now
        if not self._round.under_way and now > max(self._begun, self._owed) + LIFELESS:
            raise StalledError(f"no round could be begun for {LIFELESS:.0f} s")
        if now > self._owed + STALLED:
            why = (
                f"the last one broke off: {self._fault}" if self._fault else "the last one has not come back"
            )
            raise StalledError(f"no round went well for {STALLED:.0f} s: {why}")

    def end(self) -> None:
        """Let `run` return; a round that is under way goes to its end."""
        self._ended = True
        self._bell.put(None)

    def _rung(self, seconds: float) -> bool:
        """Whether it is told to end, within so many seconds."""
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)
        return self._ended

    @property
    def ended(self) -> bool:
        """Whether it was told to end."""
        return self._ended

    def _on_signal(self, number: int, _frame: Any) -> None:
        """Takes no lock: the thread that it interrupts, or an earlier signal's handler, may hold it.

        So it does not log, and rings a bell that may be rung while it is rung, as an Event may not be set.
        """
        self._signal = number
        self.end()

    def _order(self, turn: _Turn, pause: float = 0.0) -> None:
        """Have it done in so many seconds."""
        turn.due = time.monotonic() + pause
        when = DateTrigger(datetime.fromtimestamp(time.time() + pause, UTC), timezone=UTC)  # TZ may be odd
        step = partial(self._step, turn)
        self._scheduler.add_job(step, when, id=turn.name, executor=turn.executor, replace_existing=True)

    def _step(self, turn: _Turn) -> None:
        if self._ended:
            return
        turn.under_way, turn.due = True, time.monotonic() + turn.pause
        try:
            pause = turn.do()
        finally:
            turn.under_way = False
        if not self._ended:
            self._order(turn, max(pause, LEAST))

    def _one_round(self) -> float:
        self._begun = time.monotonic()
        try:
            pause = self._do()
        except Exception as error:  # noqa: BLE001 - whatever it is, rounds go on; `round_` has told it
            self._fault = type(error).__name__
            return RECOVERY
        self._owed, self._fault = time.monotonic() + pause, ""
        return pause


def _now() -> Moment:
    return Moment(time.time(), time.monotonic())
