"""A process that ends with the one that started it, even where that one is killed with SIGKILL."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def tie(number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process signal `number` when its parent ends, prctl(2).

    Linux alone; where the C library has no prctl, nothing is done: the parent's own tidying has to do.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0)
