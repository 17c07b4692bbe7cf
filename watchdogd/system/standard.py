"""What every process may rely on, however it was started: standard streams, a time zone that Python has."""

from __future__ import annotations

import os
import sys
import time

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""By descriptor: Python's name for it (None where it was closed at the start), and how it is opened."""

_DAY = 86400


def occupy() -> None:
    """Have /dev/null stand for those that are closed: else the next file that is opened, the history, gets
    that number, and what a library or a command prints goes into it."""
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays open


def keep_time() -> None:
    """Let a TZ that is a day or more from UTC (`ABC24`), which is none for Python, count as UTC."""
    if not os.environ.get("TZ"):
        return
    months = (time.time() + month * 30 * _DAY for month in range(13))  # one of them has summer time
    if any(abs(time.localtime(at).tm_gmtoff) >= _DAY for at in months):
        os.environ["TZ"] = "UTC0"
        time.tzset()
