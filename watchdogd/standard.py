"""stdin, stdout and stderr of whoever was started without them (`>&-`, some supervisors)."""

from __future__ import annotations

import os


def occupy() -> None:
    """Have /dev/null stand for those that are closed: else the next file that is opened, the history, gets
    that number, and what a library or a command prints goes into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free
