"""Leaving early: Ctrl-C and its like are taken as a wish, and heeded where nothing is half done."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(Exception):  # noqa: N818 - no error: somebody wants to leave
    """A signal asked to end."""


class Ending:
    """Takes SIGINT, SIGTERM and, but under nohup, SIGHUP from now on; `number` is the one that came, or 0."""

    def __init__(self) -> None:
        self.number = 0
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._take)

    def _take(self, number: int, _frame: FrameType | None) -> None:
        self.number = number

    def pause(self, seconds: float) -> None:
        """Wait. Ended where a signal came, now or before."""
        if not self.number:
            time.sleep(seconds)
        if self.number:
            raise Ended
