"""The daemon in the foreground: rounds, deliveries and chores of one home, while it holds its lease."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from watchdogd.engine.schedule import RECOVERY, Schedule
from watchdogd.notify.heartbeat import Heartbeat
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from watchdogd.engine.engine import Engine
    from watchdogd.engine.setup import Setup
    from watchdogd.home import Home
    from watchdogd.notify.outbox import Outbox

FAREWELL = 10.0
"""Seconds that undelivered messages get when the daemon ends; what is left is sent by the next one."""
GAP = 3
"""Rounds that may be missing before it is a gap that is told."""

log = logging.getLogger(__name__)


class Daemon:
    """One home's daemon. `run` returns when it was told to end, or lost the lease."""

    def __init__(
        self, home: Home, setup: Setup, engine: Engine, outbox: Outbox, heartbeat: Heartbeat
    ) -> None:
        self._home = home
        self._setup = setup
        self._engine = engine
        self._outbox = outbox
        self._heartbeat = heartbeat
        self._schedule = Schedule(self.round, self._chores)

    def run(self) -> None:
        """Rounds until the end."""
        self._schedule.run()

    def round(self) -> float:
        """One round with all that belongs to it; returns when the next one should be."""
        try:
            return self._round()
        except Exception as error:  # a fault of ours must neither end the daemon nor stay unseen
            log.exception("the round broke off")
            self._engine.troubles["engine"] = f"the last round broke off: {type(error).__name__}: {error}"
            self._heartbeat.bad(f"{type(error).__name__}: {error}")
            return time.time() + RECOVERY

    def _round(self) -> float:
        engine = self._engine
        if engine.reload():
            self._outbox = self._exchanged(engine.setup)
        self._look_at_itself()
        seen = engine.round()
        self._outbox.add(seen.notifications)
        trouble = "; ".join(text for text in engine.troubles.values() if text)
        if trouble:
            self._heartbeat.bad(trouble)
        else:
            self._heartbeat.good()
        engine.troubles["engine"] = ""
        return engine.next_wake()

    def _look_at_itself(self) -> None:
        """The troubles that the engine does not see by itself."""
        waiting = [
            f"channel {trouble.channel} delivers nothing for {format_duration(time.time() - trouble.since)}: "
            f"{trouble.failure} ({trouble.waiting} waiting)"
            for trouble in self._outbox.troubles
        ]
        self._engine.troubles["delivery"] = "; ".join(waiting)
