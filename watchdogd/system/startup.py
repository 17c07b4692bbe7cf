"""Basics at the start of a process: standard streams, time zone, its own command line."""

from __future__ import annotations

import errno
import os
import sys
import time

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""Standard streams by descriptor: Python's name (None where it was closed) and mode."""

_DAY_SECONDS = 86400


def open_standard_streams() -> None:
    """Open /dev/null in place of closed standard streams.

    Otherwise the next file opened, such as the history, gets that number, and output of a library or a
    command is written into it.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # opened as the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it stays open


def correct_time_zone() -> None:
    """Replace a TZ that is a day or more from UTC (`ABC24`), which Python rejects, by UTC."""
    if not os.environ.get("TZ"):
        return
    months = (
        time.time() + month * 30 * _DAY_SECONDS for month in range(13)
    )  # with summer time in one of them
    if any(abs(time.localtime(at).tm_gmtoff) >= _DAY_SECONDS for at in months):
        os.environ["TZ"] = "UTC0"
        time.tzset()


def own_python(start: str, *words: str) -> list[str]:
    """Return a command line that runs `start` with this interpreter and this watchdogd, whatever PATH is.

    `start` is Python, such as `from watchdogd.cli import main; main()`; `words` become sys.argv[1:].
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {start}", *words]


_MEMORY = "no memory is left for it, on this machine or under this user's limits"
_PROCESSES = "this user has too many processes here"
NO_THREAD = f"{_PROCESSES}, or {_MEMORY} (see 'ulimit -a')"
"""Why no thread could be started: Python does not say more."""
_WORDS = {
    errno.EAGAIN: _PROCESSES,
    errno.EMFILE: "the watchdog has too many files open: restart it",
    errno.ENFILE: "this machine has too many files open",
    errno.ENOMEM: _MEMORY,
}


def shortage_of(error: OSError) -> str:
    """Return which resource was short when a process could not be started; empty for other errors."""
    return _WORDS.get(error.errno or 0, "")
