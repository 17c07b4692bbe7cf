"""Memory and disks of a run's job on each of its nodes: asked here, through srun, or read in the samples."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from watchdogd.actions.switches import user
from watchdogd.draft import host
from watchdogd.errors import UnreadableError
from watchdogd.probe import files
from watchdogd.probe.nodedisk import disks
from watchdogd.readers import hostlist, usage
from watchdogd.readers.usage import Memory, Process, Usage
from watchdogd.slurm import fanout
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from watchdogd.plugin import Job, Run

STALE = 300.0
"""Seconds after which a sample no longer tells of now."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What each node has left, or why nothing is known of it. `closed`: why there is no way in."""

    nodes: Mapping[str, Usage] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    closed: str = ""


def look(run: Run, jobs: Sequence[Job], *, deadline: float, now: float, paths: Sequence[str] = ()) -> Look:
    """Memory, and the disks at `paths`, on all nodes of the run's newest job. Never raises.

    Takes `deadline` seconds at most.
    """
    if run.backend == "process":
        held = here(int(job.id) for job in jobs if job.id.isdecimal())
        return Look({host(): Usage(run.name, "", host(), held, disks(paths))})
    job = max(jobs, key=lambda each: (each.started_at or 0.0, each.raw_id))
    names = hostlist.expand(job.nodes)
    if not names:
        return Look(silent={"": f"Slurm does not say on which nodes job {job.id} runs"})
    found = _samples(run, job, now)
    fresh = all(_good(found.get(name), paths) for name in names)
    if fresh or run.backend == "pbs" or (job.user and job.user != user(os.geteuid())):
        return _left(run, job, names, found)
    heard = fanout.ask(job.raw_id, names, _argv(job.raw_id, paths), deadline=deadline)
    if heard.denied:
        return _left(run, job, names, found)
    if heard.trouble:
        return Look(silent=dict.fromkeys(names, heard.trouble))
    return _told(heard)


def _good(sample: tuple[float, Usage] | None, paths: Sequence[str]) -> bool:
    """Whether it tells of now, and of all that is wanted: a probe may have been started with other disks."""
    return sample is not None and sample[0] <= STALE and set(paths) <= set(sample[1].disks)


def here(pids: Iterable[int]) -> Memory:
    """This machine: what is left, and what these processes and all that they started hold."""
    node = psutil.virtual_memory()
    family: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            top = psutil.Process(pid)
            family |= {each.pid: each for each in (top, *top.children(recursive=True))}
        except psutil.Error:
            continue  # it has ended: the snapshot of the next round knows
    held = sorted((found for each in family.values() if (found := _held(each))), key=lambda it: -it.anonymous)
    total = sum(each.anonymous for each in held)
    return Memory("node", float(node.available), float(node.total), total, tuple(held[:_SHOWN]))


def _held(process: psutil.Process) -> Process | None:
    try:
        memory = process.memory_info()
        return Process(process.pid, process.name(), float(max(memory.rss - memory.shared, 0)))
    except psutil.Error:
        return None


def _argv(job: str, paths: Sequence[str]) -> list[str]:
    """This interpreter, and this watchdogd from where it lies."""
    root = str(Path(__file__).resolve().parents[2])
    start = f"import sys; sys.path.insert(0, {root!r}); from watchdogd.probe.node import tell"
    return [sys.executable, "-c", f"{start}; tell(*sys.argv[1:])", job, *paths]


def _told(heard: fanout.Heard) -> Look:
    nodes, silent = {}, dict(heard.silent)
    for name, text in heard.texts.items():
        try:
            nodes[name] = usage.read(text.partition("\n")[2])
        except UnreadableError as error:
            silent[name] = str(error)
    return Look(nodes, silent)


def _left(run: Run, job: Job, names: Sequence[str], found: Mapping[str, tuple[float, Usage]]) -> Look:
    """What the job's own probe left in home."""
    if not found:
        system = "PBS" if run.backend == "pbs" else "Slurm"
        return Look(
            closed=f"{system} starts no step in job {job.id} of {job.user}, and no probe runs in it: put "
            f"`watchdogd probe --run {run.name} &` into the job script"
        )
    nodes = {name: found[name][1] for name in names if name in found and found[name][0] <= STALE}
    silent = {
        name: f"its probe is silent for {format_duration(found[name][0])}"
        if name in found
        else "its probe has left no sample"
        for name in names
        if name not in nodes
    }
    return Look(nodes, silent)


def _samples(run: Run, job: Job, now: float) -> dict[str, tuple[float, Usage]]:
    """By node: the age of the newest sample of this job in seconds, and what it tells."""
    found: dict[str, tuple[float, Usage]] = {}
    for taken, text in files.left(run.inbox, run.name, job.user):
        try:
            read = usage.read(text)
        except UnreadableError:
            continue  # none of ours: the node then has no sample, which is told
        if (read.job, read.run) == (job.raw_id, run.name):
            age = max(now - taken, 0.0)
            if age <= found.get(read.node, (age, read))[0]:
                found[read.node] = (age, read)
    return found
