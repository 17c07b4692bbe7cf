"""How slow the machine is: what a process of the campaign, which has nothing to wait for, has to wait."""

from __future__ import annotations

import os
import sys
import time

from benchmarks.chaos.journal import Pace

PROGRAM = [sys.executable, "-c", "import sqlalchemy"]
"""It starts as what is tested does, in half a second."""
EVERY = 12.0


class Pacer:
    """Start PROGRAM again and again, and note how long it took; `look` is called several times a second."""

    def __init__(self, found: list[Pace]) -> None:
        self._found = found
        self._pid = 0
        self._began = float("-inf")

    def look(self) -> None:
        """Begin to measure, where it is time for that; never waits."""
        if self._pid:
            ended, _, usage = os.wait4(self._pid, os.WNOHANG)
            if ended:
                own = max(usage.ru_utime + usage.ru_stime, 0.1)
                self._found.append(Pace(time.time(), max((time.monotonic() - self._began) / own, 1.0)))
                self._pid = 0
        elif time.monotonic() >= self._began + EVERY:
            self._began = time.monotonic()
            self._pid = os.posix_spawn(PROGRAM[0], PROGRAM, os.environ)

    def end(self) -> None:
        """Leave nobody behind."""
        if self._pid:
            os.waitpid(self._pid, 0)
            self._pid = 0
