"""One look at the GPUs of a run's job, wherever it runs: through Slurm, on this machine, in home's inbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.probe import answers
from watchdogd.probe.answers import Question, Sample
from watchdogd.readers import sample
from watchdogd.readers.gpu import probe
from watchdogd.readers.gpu.probe import Node
from watchdogd.system import command
from watchdogd.system.smallfile import host_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from watchdogd.plugin import Job, Run

_LAUNCH = 4.0
"""Seconds of a deadline that starting and collecting may take."""


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """What was seen; a node that does not answer has its `trouble`. `closed`, `trouble`: see Answers."""

    nodes: tuple[Node, ...] = ()
    closed: str = ""
    trouble: str = ""


def query_gpus(run: Run, job: Job, *, deadline: float, now: float, skip: Collection[str] = ()) -> GpuSurvey:
    """The GPUs of all nodes of `job`, but those in `skip`, at most `deadline` seconds. Never raises."""
    if run.backend == "process":
        return _here(deadline)
    question = Question(probe.argv(_each(deadline)), probe.read, _sample)
    heard = answers.ask(run, job, question, deadline=deadline, now=now, skip=skip)
    silent = (Node(name, trouble=why) for name, why in heard.silent.items())
    return GpuSurvey((*heard.told.values(), *silent), heard.closed, heard.trouble)


def _here(deadline: float) -> GpuSurvey:
    """The GPUs of this machine, with this process's PATH."""
    answer = command.ask(probe.argv(_each(deadline)), deadline=deadline)
    if not answer.output:
        return GpuSurvey(trouble=f"this machine's GPUs cannot be asked for: {answer.complaint()}")
    node = probe.read(answer.output)
    return GpuSurvey((node if node.name else Node(host_name(), node.readout, node.trouble, node.events),))


def _each(deadline: float) -> float:
    """For how long one question may take, so that one that hangs leaves time for the others."""
    return max(round((deadline - _LAUNCH) / 2, 1), 1.0)


def _sample(text: str) -> Sample[Node] | None:
    read = sample.read(text)
    return None if read is None else Sample(read.run, read.job, read.node.name, read.node)
