"""Memory and disks of a run's job on each of its nodes: asked here, through srun, or read in the samples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import psutil

from watchdogd.parsers import probe_sample
from watchdogd.parsers.probe_sample import Cpu, JobProcess, NodeMemory, Usage
from watchdogd.probe import answers, effort
from watchdogd.probe.answers import Answers, Question, Sample
from watchdogd.probe.nodedisk import disks
from watchdogd.probe.pool import tightest
from watchdogd.system.number import count
from watchdogd.system.smallfile import host_name
from watchdogd.system.startup import own_python
from watchdogd.training import Pool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from watchdogd.plugin import Job, Run

Look: TypeAlias = Answers[Usage]
"""What each node has left, or why nothing is known of it."""
_SHOWN = 5


def look(run: Run, jobs: Sequence[Job], *, deadline: float, now: float, paths: Sequence[str] = ()) -> Look:
    """Memory, and the disks at `paths`, on all nodes of the run's newest job, of `jobs` the first.

    Never raises; takes `deadline` seconds at most.
    """
    if run.backend == "process":
        held, cpu = here(pid for job in jobs if (pid := count(job.id)) is not None)
        return Answers({host_name(): Usage(run.name, "", host_name(), held, disks(paths), cpu)})
    job = jobs[0]
    question = Question(_argv(job.raw_id, paths), _heard, _sample, partial(_enough, frozenset(paths)))
    return answers.ask(run, job, question, deadline=deadline, now=now)


def _enough(paths: frozenset[str], told: Usage) -> bool:
    """Whether it tells of all that is wanted: a probe may have been started with other disks."""
    return paths <= set(told.disks)


def _heard(text: str) -> Usage:
    """What stands below the node's name."""
    return probe_sample.read_usage(text.partition("\n")[2])


def _sample(text: str) -> Sample[Usage]:
    read = probe_sample.read_usage(text)
    return Sample(read.run, read.job, read.node, read)


def here(pids: Iterable[int]) -> tuple[NodeMemory, Cpu]:
    """What these processes and all that they started hold, and what is left of their control groups or of the
    node, whichever is used up first; and the processor time that they took."""
    free = psutil.virtual_memory()
    node = Pool("node", float(free.available), float(free.total))
    family: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            top = psutil.Process(pid)
            family |= {each.pid: each for each in (top, *top.children(recursive=True))}
        except psutil.Error:
            continue  # it has ended: the snapshot of the next round knows
    known = [found for each in family.values() if (found := _held(each))]
    held = sorted((each for each, _ in known), key=lambda it: -it.anonymous)
    total = sum(each.anonymous for each in held)
    pool = min(tightest(family) or node, node, key=lambda each: each.left)
    memory = NodeMemory(pool.name, pool.left, pool.total, total, tuple(held[:_SHOWN]))
    return memory, effort.taken(spent for _, spent in known)


def _held(process: psutil.Process) -> tuple[JobProcess, float] | None:
    try:
        memory = process.memory_info()
        held = JobProcess(process.pid, process.name(), float(max(memory.rss - memory.shared, 0)))
        return held, effort.seconds_of(process)
    except psutil.Error:
        return None


def _argv(job: str, paths: Sequence[str]) -> list[str]:
    return own_python("from watchdogd.probe.node import tell; tell(*sys.argv[1:])", job, *paths)
