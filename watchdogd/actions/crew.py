"""Executors of deeds, beside the rounds: threads of their own, none of which is ever waited for.

One that is free takes the next deed, so that deeds are done also where no further thread can be started.
Threads end with the process: what hangs in a file system or a kernel is left behind, and told as late.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.actions.errand import Outcome
from watchdogd.system import startup

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.actions.deed import Deed
    from watchdogd.actions.errand import Errand

ROOM = 4
"""Deeds at once."""
LATE = 180.0
"""Seconds after which a deed is given up; each doer's own deadline is far below."""

log = logging.getLogger(__name__)


class Report(NamedTuple):
    """Report of what came of a deed."""

    deed: Deed
    outcome: Outcome


class Crew:
    """Carries errands out by `do`, and collects what came of them."""

    def __init__(self, do: Callable[[Errand], Outcome]) -> None:
        self._do = do
        self._errands: queue.SimpleQueue[Errand] = queue.SimpleQueue()
        self._reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._free = threading.Semaphore(0)
        self._came: list[Report] = []
        self._since: dict[tuple[int, str, str], tuple[Deed, float]] = {}

    @property
    def room(self) -> int:
        """Return how many more may be begun now."""
        return max(ROOM - len(self._since), 0)

    @property
    def busy(self) -> bool:
        """Return whether an outcome is to come, or there to be taken in."""
        return bool(self._since)

    def begin(self, errand: Errand) -> None:
        """Start one; where no thread can be, that is its outcome."""
        self._since[errand.deed.key] = errand.deed, time.monotonic()
        if not self._free.acquire(blocking=False):
            try:
                threading.Thread(target=self._work, name="action", daemon=True).start()
            except RuntimeError:
                outcome = Outcome(f"it could not be started: {startup.NO_THREAD}", ok=False)
                self._reports.put(Report(errand.deed, outcome))
                return
        self._errands.put(errand)

    def has(self, deed: Deed) -> bool:
        """Return whether it is under way here."""
        return deed.key in self._since

    def wait(self, patience: float) -> bool:
        """Return whether there is something to be taken in within `patience` seconds."""
        if not self._since:
            return False
        with contextlib.suppress(queue.Empty):
            self._came.append(self._reports.get(timeout=patience))
        return bool(self._came)

    def reports(self) -> list[Report]:
        """Return what came since the last call, and what is given up."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._came.append(self._reports.get_nowait())
        came, self._came = self._came, []
        # What is under way no more was given up before it came.
        found = [report for report in came if self._since.pop(report.deed.key, None)]
        return found + self._late()

    def _late(self) -> list[Report]:
        now = time.monotonic()
        late = [deed for deed, since in self._since.values() if now - since > LATE]
        for deed in late:
            del self._since[deed.key]
        return [Report(deed, Outcome(f"it did not end within {LATE:.0f} s", ok=False)) for deed in late]

    def _work(self) -> None:
        while True:
            self._carry_out(self._errands.get())
            self._free.release()

    def _carry_out(self, errand: Errand) -> None:
        try:
            outcome = self._do(errand)
        except Exception as error:  # a fault of ours must not pass for a deed that never ends
            log.exception("%s broke off", errand.deed)
            outcome = Outcome(f"it broke off: {type(error).__name__}: {error}", ok=False)
        self._reports.put(Report(errand.deed, outcome))
