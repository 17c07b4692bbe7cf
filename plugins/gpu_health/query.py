"""Look at the GPUs of a run's job, wherever it runs: through Slurm, on this machine, in home's inbox."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from watchdogd.parsers import probe_sample
from watchdogd.parsers.gpu import node_script
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.plugin import Job, Run
from watchdogd.probe import answers
from watchdogd.probe.answers import Question, Sample
from watchdogd.system import command
from watchdogd.system.smallfile import host_name

_LAUNCH = 4.0
"""Seconds of a deadline that starting and collecting may take."""


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """GPUs by node; a node that does not answer has its `trouble`. `closed`, `trouble`: see Answers."""

    nodes: tuple[GpuNode, ...] = ()
    closed: str = ""
    trouble: str = ""


def query_gpus(run: Run, job: Job, *, deadline: float, now: float, skip: Collection[str] = ()) -> GpuSurvey:
    """Ask all nodes of `job` but those in `skip`, for `deadline` seconds at most. Never raises."""
    if run.backend == "process":
        return _here(deadline)
    question = Question(node_script.argv(_each(deadline)), node_script.read, _sample)
    heard = answers.ask(run, job, question, deadline=deadline, now=now, skip=skip)
    silent = (GpuNode(name, trouble=why) for name, why in heard.silent.items())
    return GpuSurvey((*heard.told.values(), *silent), heard.closed, heard.trouble)


def _here(deadline: float) -> GpuSurvey:
    """Ask for the GPUs of this machine, with this process's PATH."""
    answer = command.ask(node_script.argv(_each(deadline)), deadline=deadline)
    if not answer.output:
        return GpuSurvey(trouble=f"this machine's GPUs cannot be asked for: {answer.complaint()}")
    node = node_script.read(answer.output)
    return GpuSurvey((node if node.name else GpuNode(host_name(), node.readout, node.trouble, node.events),))


def _each(deadline: float) -> float:
    """Return how long one question may take, so that one that hangs leaves time for the others."""
    return max(round((deadline - _LAUNCH) / 2, 1), 1.0)


def _sample(text: str) -> Sample[GpuNode] | None:
    read = probe_sample.read_gpus(text)
    return None if read is None else Sample(read.run, read.job, read.node.name, read.node)
