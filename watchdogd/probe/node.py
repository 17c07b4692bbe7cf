"""On one node of the job: looks every so often, and leaves what it sees in home, until its input ends.

It is as light as it can be: nice 19, one look every half minute, one small file that is replaced. Anonymous
memory is resident less shared (statm): the exact share of each page (PSS) would hold the training up.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from watchdogd import training
from watchdogd.parsers import probe_sample
from watchdogd.parsers.gpu import node_script
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import GpuSample, JobProcess, NodeMemory
from watchdogd.probe import effort, files
from watchdogd.probe.nodedisk import disks
from watchdogd.probe.pool import tightest
from watchdogd.probe.stacktake import LOOK, Desk
from watchdogd.system import command
from watchdogd.system.smallfile import host_name, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchdogd.parsers.probe_sample import Cpu, Disk

_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PASSED_OVER = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that Slurm sends to all steps of a job when the training is to save."""
_SHOWN = 5


class Ended(BaseException):
    """A signal says that the job ends; it passes by whoever handles errors."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to look at, where to leave it, and how often (seconds)."""

    run: str
    job: str
    inbox: str
    disks: tuple[str, ...]
    every: float


def serve(task: Task) -> None:
    """Look until standard input ends or a signal comes; the sample is then removed."""
    for number in _PASSED_OVER:
        signal.signal(number, signal.SIG_IGN)
    for number in _ENDS:
        signal.signal(number, _end)
    os.nice(19)
    name = os.environ.get("SLURMD_NODENAME") or host_name()
    path = files.path(task.inbox, task.run, name)
    desk = Desk(task.inbox, task.run, task.job, name)
    try:
        _look_again_and_again(task, name, path, desk)
    except Ended:
        pass
    finally:
        desk.clear()
        with contextlib.suppress(OSError):
            os.unlink(path)


def _look_again_and_again(task: Task, name: str, path: str, desk: Desk) -> None:
    told = ""
    wait = random.uniform(0.3, 1.0) * task.every  # noqa: S311 - so that a thousand nodes do not write at once
    while True:
        text = look(task, name)
        trouble = _leave(path, text)
        if trouble and trouble != told:
            print(f"watchdogd: probe on {name}: {path}: {trouble}", file=sys.stderr, flush=True)
        told = trouble
        if _wait_at(desk, wait):
            return
        wait = task.every


def tell(job: str, *paths: str) -> None:
    """Print one node's memory, and these disks of it, once, as `slurm.fanout` takes it."""
    name = os.environ.get("SLURMD_NODENAME") or host_name()
    print(f"@@ node {name}")
    told = probe_sample.usage_json(*_of_job(job, disks(paths)))
    print(json.dumps({"run": "", "job": job, "node": name, **told}), flush=True)


def look(task: Task, name: str) -> str:
    """The sample's text."""
    seconds = max(task.every / 6, 2.0)
    env = command.environment({"SLURMD_NODENAME": name})  # as the same script has it in a step
    answer = command.ask(node_script.argv(seconds), deadline=min(task.every, 6 * seconds), env=env)
    seen = node_script.read(answer.output)
    node = GpuNode(name, seen.readout, seen.trouble if answer.output else answer.complaint())
    told = json.loads(probe_sample.gpus_json(GpuSample(task.run, task.job, node)))
    return json.dumps(told | probe_sample.usage_json(*_of_job(task.job, disks(task.disks)))) + "\n"


def _of_job(job: str, found: dict[str, Disk]) -> tuple[NodeMemory, dict[str, Disk], Cpu]:
    """Memory and processor time of the job here, beside the disks."""
    processes = list(_processes(job))
    return memory([held for held, _ in processes]), found, effort.taken(spent for _, spent in processes)


def memory(processes: Iterable[JobProcess]) -> NodeMemory:
    """What is left of the tightest of the job's control groups, or of the node, and who holds how much."""
    held = sorted(processes, key=lambda each: -each.anonymous)
    pool = tightest(each.pid for each in held) or min(training.pools(), key=lambda each: each.left)
    total = sum(each.anonymous for each in held)
    return NodeMemory(pool.name, pool.left, pool.total, total, tuple(held[:_SHOWN]))


def _processes(job: str) -> Iterator[tuple[JobProcess, float]]:
    """Our own user's processes of the job on this node, each with the processor time that it took."""
    node = os.environ.get("SLURMD_NODENAME", "")
    for each in psutil.process_iter(["uids"]):
        uids = each.info["uids"]
        if uids is None or uids.real != os.getuid():
            continue
        with contextlib.suppress(psutil.Error):
            env = each.environ()
            if env.get("SLURM_JOB_ID", "") == job and env.get("SLURMD_NODENAME", node) == node:
                held = each.memory_info()
                anonymous = float(max(held.rss - held.shared, 0))
                yield JobProcess(each.pid, each.name(), anonymous), effort.seconds_of(each)


def _leave(path: str, text: str) -> str:
    """Replace the sample; why that failed, or empty. A signal waits until the file is whole."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        replace_file(path, text, files.mode(os.path.dirname(path)))
    except OSError as error:
        return error.strerror or str(error)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    return ""


def _wait_at(desk: Desk, seconds: float) -> bool:
    """Wait so long, and answer who asks for stacks meanwhile; True where the input ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if _input_ends(min(left, LOOK)):
            return True
        desk.serve()
    return False


def _input_ends(seconds: float) -> bool:
    """Wait so long, or until nobody holds the other end of standard input."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            return True
    return False


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - the form that signal wants
    for each in _ENDS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended
