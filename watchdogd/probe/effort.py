"""Processor time that processes of this node took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import psutil

from watchdogd.parsers.probe_sample import Cpu

_DEVICES = ("/dev/nvidiactl", "/dev/kfd")
"""What is there where NVIDIA's or AMD's driver has GPUs."""


def taken(seconds: Iterable[float]) -> Cpu:
    """Return the processor time until now of processes that took so many seconds each."""
    return Cpu(round(sum(seconds), 2), time.time(), any(map(os.path.exists, _DEVICES)))


def seconds_of(process: psutil.Process) -> float:
    """Return the processor seconds of a process and of its children that have ended. psutil.Error.

    With the children, a sum over a family never falls.
    """
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)
