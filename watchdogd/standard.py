"""stdin, stdout and stderr of whoever was started without them (`>&-`, some supervisors)."""

from __future__ import annotations

import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
"""By descriptor: Python's name for it (None where it was closed at the start), and how it is opened."""


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
