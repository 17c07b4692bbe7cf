"""Memory and processor time of processes on this node."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from watchdogd import training
from watchdogd.parsers.probe_sample import Cpu, JobProcess, NodeMemory
from watchdogd.training import Pool

_DEVICES = ("/dev/nvidiactl", "/dev/kfd")
"""Device files of NVIDIA's and AMD's drivers."""
_SHOWN = 5


def usage(processes: Iterable[psutil.Process]) -> tuple[NodeMemory, Cpu]:
    """Return the memory of these processes, and their processor time until now.

    Memory left is that of their control groups or of the node, whichever is less.
    """
    known = [found for each in processes if (found := _of_process(each))]
    held = sorted((each for each, _ in known), key=lambda each: -each.anonymous)
    free = psutil.virtual_memory()
    pools = [Pool("node", float(free.available), float(free.total)), *_pools(each.pid for each in held)]
    pool = min(pools, key=lambda each: each.left)
    total = sum(each.anonymous for each in held)
    memory = NodeMemory(pool.name, pool.left, pool.total, total, tuple(held[:_SHOWN]))
    seconds = round(sum(spent for _, spent in known), 2)
    return memory, Cpu(seconds, time.time(), any(map(os.path.exists, _DEVICES)))


def _of_process(process: psutil.Process) -> tuple[JobProcess, float] | None:
    """Return its anonymous memory, and its processor seconds including ended children's.

    With these the sum over a family never falls. None where it is gone or hidden.
    """
    try:
        memory, times = process.memory_info(), process.cpu_times()
        held = JobProcess(process.pid, process.name(), float(max(memory.rss - memory.shared, 0)))
    except psutil.Error:
        return None
    return held, float(times.user + times.system + times.children_user + times.children_system)


def _pools(pids: Iterable[int]) -> Iterator[Pool]:
    """Yield the memory of the control groups above these processes, each group once."""
    seen: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
            if groups not in seen:
                seen.add(groups)
                yield from training.pools(pid=pid)
