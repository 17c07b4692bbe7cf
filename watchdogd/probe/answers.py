"""What the nodes of a run's job answer: asked through Slurm's launcher, or left in home by the job's probe.

Slurm starts steps only for the owner of a job, and PBS starts none: there the samples of `watchdogd probe`
are read instead, as they are wherever they are fresh and tell all that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from watchdogd.batch import node_steps, slurmtext
from watchdogd.errors import UnreadableError
from watchdogd.probe import files
from watchdogd.system.account import own_name
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from watchdogd.plugin import Job, Run

STALE = 300.0
"""Seconds after which a sample no longer tells of now."""
Told = TypeVar("Told")


@dataclass(frozen=True, slots=True)
class Sample(Generic[Told]):
    """What a probe left of one node of a run's job; `job` is the raw id."""

    run: str
    job: str
    node: str
    told: Told


@dataclass(frozen=True, slots=True)
class Question(Generic[Told]):
    """What is asked of a node.

    `argv` is run there, `hear` reads what it prints, `read` a sample: None where that tells nothing of it;
    both raise UnreadableError. `enough` says whether a sample tells all that is wanted; None: it does.
    """

    argv: Sequence[str]
    hear: Callable[[str], Told]
    read: Callable[[str], Sample[Told] | None]
    enough: Callable[[Told], bool] | None = None


@dataclass(frozen=True, slots=True)
class Answers(Generic[Told]):
    """What each node told, and why others are silent.

    `closed`: why there is no way in: the job belongs to somebody else, and left no samples.
    `trouble`: why nothing at all could be found out.
    """

    told: Mapping[str, Told] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    closed: str = ""
    trouble: str = ""


def ask(
    run: Run, job: Job, question: Question[Told], *, deadline: float, now: float, skip: Collection[str] = ()
) -> Answers[Told]:
    """Ask all nodes of `job` at once, but those in `skip`, for `deadline` seconds at most. Never raises."""
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


def _heard(heard: node_steps.NodeOutputs, names: Sequence[str], question: Question[Told]) -> Answers[Told]:
    """In the order of `names`, not of the answers."""
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
    """What the job's own probe left in home; of all nodes that it knows where the queue names none."""
    if not found:
        system = "PBS" if run.backend == "pbs" else "Slurm"
        return Answers(
            closed=f"{system} starts no step in job {job.id} of {job.user}, and no probe runs in it: put "
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
    """By node: the age in seconds of the newest sample of this job, and what it tells."""
    found: dict[str, tuple[float, Told]] = {}
    for written, text in files.left(run.inbox, run.name, job.user):
        try:
            sample = question.read(text)
        except UnreadableError:
            continue  # none of ours: the node then has no sample, which is told
        if sample and (sample.run, sample.job) == (run.name, job.raw_id):
            age = max(now - written, 0.0)
            if sample.node not in found or age <= found[sample.node][0]:
                found[sample.node] = (age, sample.told)
    return found
