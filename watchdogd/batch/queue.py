"""The whole queue, asked once, for verbs that look for a job; and what squeue's line does not hold of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from watchdogd.batch import allocation, scontrol, slurmtext, squeue
from watchdogd.errors import SlurmSilentError, UnreadableError, WatchdogError
from watchdogd.system import command

if TYPE_CHECKING:
    from watchdogd.batch.models import Job

DEADLINE = 20.0
"""Seconds for one question to Slurm."""
_LONGEST = 4096
"""Characters of a path: PATH_MAX."""


def everybodys() -> tuple[Job, ...]:
    """All jobs that live. WatchdogError without Slurm, SlurmSilentError without an answer."""
    if not shutil.which("squeue"):
        raise WatchdogError(
            "there is no squeue here, and only Slurm's jobs can be adopted: write [runs.NAME] with pid_file "
            'or command (or backend = "pbs") into config.toml'
        )
    env, mark = command.environment(squeue.ENVIRONMENT), slurmtext.mark()
    answer = command.ask(squeue.argv(mark=mark), deadline=DEADLINE, env=env)
    if not answer.ok or (not answer.output.strip() and answer.errors.strip()):
        raise SlurmSilentError(f"squeue did not answer: {answer.complaint()}")
    try:
        return squeue.read(answer.output, mark)
    except UnreadableError as error:
        raise SlurmSilentError(str(error)) from None


def log_pattern(job: Job) -> str:
    """Where its output goes, as sbatch was told (squeue keeps the pattern; scontrol replaces half of it)."""
    asked = ("squeue", "--noheader", f"--jobs={job.raw_id}", f"--Format=STDOUT:{_LONGEST}")
    answer = command.ask(asked, deadline=DEADLINE)
    told = answer.output.rstrip("\n").split("\n")[0].rstrip() if answer.ok else ""
    if told.startswith("/"):
        return told
    shown = command.ask(("scontrol", "show", "job", job.raw_id), deadline=DEADLINE)
    return scontrol.stdout(shown.output) if shown.ok else ""


def gpus(job: Job) -> tuple[int, ...]:
    """GPUs of each of its nodes; empty where it waits, or nobody says."""
    answer = command.ask(("scontrol", "--details", "show", "job", job.raw_id), deadline=DEADLINE)
    return tuple(allocation.gpus(answer.output).values()) if answer.ok else ()
