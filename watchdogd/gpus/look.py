"""One look at the GPUs of a run's job, wherever it runs: the edge to srun, this machine, home's inbox."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd import command
from watchdogd.draft import host
from watchdogd.errors import UnreadableError
from watchdogd.probe.files import left
from watchdogd.readers import hostlist, sample
from watchdogd.readers.gpu import probe
from watchdogd.readers.gpu.probe import Node
from watchdogd.slurm import fanout
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection

    from watchdogd.plugin import Job, Run

STALE = 300.0
"""Seconds after which a sample no longer tells of now."""
_LAUNCH = 4.0
"""Seconds of a deadline that starting and collecting may take."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. `closed`: why there is no way in: the job belongs to somebody else, and left no samples.

    `trouble`: why nothing at all could be found out.
    """

    nodes: tuple[Node, ...] = ()
    closed: str = ""
    trouble: str = ""


def look(run: Run, job: Job, *, deadline: float, now: float, skip: Collection[str] = ()) -> Look:
    """The GPUs of all nodes of `job`, but those in `skip`, at most `deadline` seconds. Never raises."""
    if run.backend == "process":
        return _here(deadline)
    every = hostlist.expand(job.nodes)
    found = _samples(run, job, now)
    fresh = all(name in found and found[name][0] <= STALE for name in every)
    if (every and fresh) or run.backend == "pbs" or (job.user and job.user != _myself()):
        return _left(run, job, found)
    nodes = [name for name in every if name not in skip]
    if not nodes:
        return Look(trouble="" if job.nodes else f"Slurm does not say on which nodes job {job.id} runs")
    heard = fanout.ask(job.raw_id, nodes, probe.argv(_each(deadline)), deadline=deadline)
    if heard.denied:
        return _left(run, job, found)
    if heard.trouble:
        return Look(trouble=f"no node of job {job.id} could be asked: {heard.trouble}")
    told = {name: probe.read(text) for name, text in heard.texts.items()}
    silent = {name: Node(name, trouble=why) for name, why in heard.silent.items()}
    return Look(tuple({**silent, **told}[name] for name in nodes))


def _here(deadline: float) -> Look:
    """The GPUs of this machine, with this process's PATH."""
    answer = command.ask(probe.argv(_each(deadline)), deadline=deadline)
    if not answer.output:
        return Look(trouble=f"this machine's GPUs cannot be asked for: {answer.complaint()}")
    node = probe.read(answer.output)
    return Look((node if node.name else Node(host(), node.readout, node.trouble, node.events),))


def _each(deadline: float) -> float:
    """For how long one question may take, so that one that hangs leaves time for the others."""
    return max(round((deadline - _LAUNCH) / 2, 1), 1.0)


def _left(run: Run, job: Job, found: dict[str, tuple[float, Node]]) -> Look:
    """What the job's own probe left in home."""
    if not found:
        system = "PBS" if run.backend == "pbs" else "Slurm"
        return Look(
            closed=f"{system} starts no step in job {job.id} of {job.user}, and no probe runs in it: put "
            f"`watchdogd probe --run {run.name} &` into the job script"
        )
    missing = [name for name in hostlist.expand(job.nodes) if name not in found]
    nodes = [_fresh(age, node) for age, node in found.values()]
    return Look((*nodes, *(Node(name, trouble="its probe has left no sample") for name in missing)))


def _fresh(age: float, node: Node) -> Node:
    if age <= STALE:
        return node
    return Node(node.name, trouble=f"its probe is silent for {format_duration(age)}")


def _samples(run: Run, job: Job, now: float) -> dict[str, tuple[float, Node]]:
    """By node: the newest sample of this job and its age in seconds; only what the job's owner wrote."""
    found: dict[str, tuple[float, Node]] = {}
    for written, text in left(run.inbox, run.name, job.user):
        try:
            read = sample.read(text)
        except UnreadableError:
            continue  # none of ours: the node then has no sample, which is told
        if read and read.job == job.raw_id and read.run == run.name:
            age = max(now - written, 0.0)
            if age <= found.get(read.node.name, (age, read.node))[0]:
                found[read.node.name] = (age, read.node)
    return found


def _myself() -> str:
    return _name(os.geteuid())


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
