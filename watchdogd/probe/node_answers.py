"""Answers of the nodes of a run's job: asked by srun, or left in home by the job's probe.

Slurm starts steps only for a job's owner, and PBS starts none: then samples of `watchdogd probe` are used, if
they are fresh and complete. Memory, disks and GPUs come by either way; plain processes are examined on this
machine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import psutil

from watchdogd.batch import node_steps, slurmtext
from watchdogd.errors import UnreadableError
from watchdogd.parsers import probe_sample
from watchdogd.parsers.gpu import node_script
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import Cpu, NodeMemory, Usage
from watchdogd.plugin import Job, Run
from watchdogd.probe import job_usage, sample_files
from watchdogd.probe.node import disks
from watchdogd.system import command
from watchdogd.system.account import own_name
from watchdogd.system.number import count
from watchdogd.system.smallfile import host_name
from watchdogd.system.startup import own_python
from watchdogd.units import format_duration

STALE = 300.0
"""Seconds after which a sample is out of date."""
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Sample(Generic[Told]):
    """Sample of a probe on one node of a run's job; `job` is the raw id."""

    run: str
    job: str
    node: str
    told: Told


@dataclass(frozen=True, slots=True)
class Question(Generic[Told]):
    """Question to a node.

    `argv` runs there, and `hear` parses its output; `read` parses a sample, None where it has no answer; both
    raise UnreadableError. `enough`: whether a sample answers all of it; None: always.
    """

    argv: Sequence[str]
    hear: Callable[[str], Told]
    read: Callable[[str], Sample[Told] | None]
    enough: Callable[[Told], bool] | None = None


@dataclass(frozen=True, slots=True)
class Answers(Generic[Told]):
    """Answers by node, and reasons of silent nodes.

    `closed`: why there is no access: the job is another user's, and left no samples. `trouble`: why nothing
    could be found out.
    """

    told: Mapping[str, Told] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    closed: str = ""
    trouble: str = ""


def ask(
    run: Run, job: Job, question: Question[Told], *, deadline: float, now: float, skip: Collection[str] = ()
) -> Answers[Told]:
    """Ask all nodes of `job` except those in `skip`, at once, for `deadline` seconds. Never raises."""
    names = slurmtext.expand_hostlist(job.nodes)
    found = _samples(run, job, question, now)
    fresh = bool(names) and all(_good(found.get(name), question) for name in names)
    if fresh or run.backend == "pbs" or (job.user and job.user != own_name()):
        return _left(run, job, names, found)
    if not names:
        return Answers(trouble=f"Slurm does not say on which nodes job {job.id} runs")
    wanted = [name for name in names if name not in skip]
    if not wanted:
        return Answers()
    heard = node_steps.run_on_nodes(job.raw_id, wanted, question.argv, deadline=deadline)
    if heard.denied:
        return _left(run, job, names, found)
    if heard.trouble:
        return Answers(trouble=f"no node of job {job.id} could be asked: {heard.trouble}")
    return _heard(heard, wanted, question)


def stacks_can_be_taken(run: Run, job: Job) -> bool:
    """Return whether a command of this user reaches the job's processes, or a probe runs in it.

    Of a plain process, the kernel decides; a Guard, which answers too, is known by its heartbeats.
    """
    if run.backend == "process" or (run.backend == "slurm" and job.user in ("", own_name())):
        return True
    now = time.time()
    with contextlib.suppress(OSError, UnreadableError):
        return any(now - at <= STALE for at, _ in sample_files.left(run.inbox, run.name, job.user))
    return False


def _heard(heard: node_steps.NodeOutputs, names: Sequence[str], question: Question[Told]) -> Answers[Told]:
    """Parse the nodes' output, in the order of `names`."""
    told, silent = {}, dict(heard.silent)
    for name in names:
        if name in silent:
            continue
        try:
            told[name] = question.hear(heard.texts[name])
        except UnreadableError as error:
            silent[name] = str(error)
    return Answers(told, silent)


def _good(sample: tuple[float, Told] | None, question: Question[Told]) -> bool:
    if sample is None or sample[0] > STALE:
        return False
    return question.enough is None or question.enough(sample[1])


def _left(run: Run, job: Job, names: Sequence[str], found: Mapping[str, tuple[float, Told]]) -> Answers[Told]:
    """Return what the job's probe left in home, of all nodes it knows where the queue names none."""
    if not found:
        system = "PBS" if run.backend == "pbs" else "Slurm"
        return Answers(
            closed=f"{system} starts no step in {job.user}'s job {job.id}, and no probe runs in it: put "
            f"`watchdogd probe --run {run.name} &` into the job script"
        )
    ages = {name: found[name][0] if name in found else None for name in names or found}
    told = {name: found[name][1] for name, age in ages.items() if age is not None and age <= STALE}
    silent = {
        name: "its probe has left no sample"
        if age is None
        else f"its probe is silent for {format_duration(age)}"
        for name, age in ages.items()
        if name not in told
    }
    return Answers(told, silent)


def _samples(run: Run, job: Job, question: Question[Told], now: float) -> dict[str, tuple[float, Told]]:
    """Return by node the age in seconds of the newest sample of this job, and its content."""
    found: dict[str, tuple[float, Told]] = {}
    for written, text in sample_files.left(run.inbox, run.name, job.user):
        try:
            sample = question.read(text)
        except UnreadableError:
            continue  # no sample of ours: the node then has none
        if sample and (sample.run, sample.job) == (run.name, job.raw_id):
            age = max(now - written, 0.0)
            if sample.node not in found or age <= found[sample.node][0]:
                found[sample.node] = (age, sample.told)
    return found


Look: TypeAlias = Answers[Usage]
"""What each node has left, or why nothing is known of it."""


def look(run: Run, jobs: Sequence[Job], *, deadline: float, now: float, paths: Sequence[str] = ()) -> Look:
    """Return memory, and the disks at `paths`, on all nodes of the run's newest job, the first of `jobs`.

    Never raises; takes `deadline` seconds at most.
    """
    if run.backend == "process":
        held, cpu = here(pid for job in jobs if (pid := count(job.id)) is not None)
        return Answers({host_name(): Usage(run.name, "", host_name(), held, disks(paths), cpu)})
    job = jobs[0]
    question = Question(_argv(job.raw_id, paths), _node_heard, _sample, partial(_enough, frozenset(paths)))
    return ask(run, job, question, deadline=deadline, now=now)


def _enough(paths: frozenset[str], told: Usage) -> bool:
    """Return whether a sample has all these disks: the probe may have been started with others."""
    return paths <= set(told.disks)


def _node_heard(text: str) -> Usage:
    """Parse the usage below the node's name."""
    return probe_sample.read_usage(text.partition("\n")[2])


def _sample(text: str) -> Sample[Usage]:
    read = probe_sample.read_usage(text)
    return Sample(read.run, read.job, read.node, read)


def here(pids: Iterable[int]) -> tuple[NodeMemory, Cpu]:
    """Return memory and processor time of these processes and all their descendants."""
    family: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            top = psutil.Process(pid)
            family |= {each.pid: each for each in (top, *top.children(recursive=True))}
        except psutil.Error:
            continue  # it has ended, as the next snapshot shows
    return job_usage.usage(family.values())


def _argv(job: str, paths: Sequence[str]) -> list[str]:
    return own_python("from watchdogd.probe.node import tell; tell(*sys.argv[1:])", job, *paths)


_LAUNCH = 4.0
"""Seconds of a deadline for starting and collecting."""


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """GPUs by node; a silent node has its `trouble`. `closed`, `trouble`: see Answers."""

    nodes: tuple[GpuNode, ...] = ()
    closed: str = ""
    trouble: str = ""


def query_gpus(run: Run, job: Job, *, deadline: float, now: float, skip: Collection[str] = ()) -> GpuSurvey:
    """Query the GPUs of all nodes of `job` except `skip`, for `deadline` seconds. Never raises."""
    if run.backend == "process":
        return _gpus_here(deadline)
    question = Question(node_script.argv(_each(deadline)), node_script.read, _gpu_sample)
    heard = ask(run, job, question, deadline=deadline, now=now, skip=skip)
    silent = (GpuNode(name, trouble=why) for name, why in heard.silent.items())
    return GpuSurvey((*heard.told.values(), *silent), heard.closed, heard.trouble)


def _gpus_here(deadline: float) -> GpuSurvey:
    """Query the GPUs of this machine, with this process's PATH."""
    answer = command.ask(node_script.argv(_each(deadline)), deadline=deadline)
    if not answer.output:
        return GpuSurvey(trouble=f"this machine's GPUs cannot be asked for: {answer.complaint()}")
    node = node_script.read(answer.output)
    return GpuSurvey((node if node.name else replace(node, name=host_name()),))


def _each(deadline: float) -> float:
    """Return the seconds for one query, so that a hanging one leaves time for the others."""
    return max(round((deadline - _LAUNCH) / 2, 1), 1.0)


def _gpu_sample(text: str) -> Sample[GpuNode] | None:
    read = probe_sample.read_gpus(text)
    return None if read is None else Sample(read.run, read.job, read.node.name, read.node)
