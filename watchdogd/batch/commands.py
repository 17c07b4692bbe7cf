"""Batch system of this machine, and its commands for a job as a user types them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchCommands:
    """Commands for a job; empty where the system has none.

    `estimate` shows its expected start, `earlier` its
    earlier attempts, `look` its state. `noun`: what it calls a job.
    """

    end: str
    requeue: str = ""
    resume: str = ""
    hold: str = ""
    estimate: str = ""
    earlier: str = ""
    look: str = ""
    rename: str = ""
    noun: str = "job"


SLURM_COMMANDS = BatchCommands(
    end="scancel {id}",
    requeue="scontrol requeue {id}",
    resume="scontrol resume {id}",
    hold="scontrol hold {id}",
    estimate="squeue --start --jobs={id}",
    earlier="sacct --duplicates -j {id}",
    look="scontrol show job {id}",
    rename="scontrol update JobId={id} JobName={name}",
)
PBS_COMMANDS = BatchCommands(
    end="qdel {id}",
    requeue="qrerun {id}",
    resume="qsig -s resume {id}",
    hold="qhold {id}",
    estimate="qstat -T {id}",
    earlier="qstat -x -f {id}",
    look="qstat -f {id}",
    rename="qalter -N {name} {id}",
)
PROCESS_COMMANDS = BatchCommands(end="kill {id}", resume="kill -CONT {id}", noun="process")


def here() -> str:
    """Return the batch system of this machine: slurm, pbs, or none.

    Grid Engine has another qstat; it is known by its qconf.
    """
    if shutil.which("squeue"):
        return "slurm"
    return "pbs" if shutil.which("qstat") and not shutil.which("qconf") else "none"


def of(backend: str) -> BatchCommands:
    """Return the commands of a batch system; Slurm's for an unknown one."""
    return {"pbs": PBS_COMMANDS, "process": PROCESS_COMMANDS}.get(backend, SLURM_COMMANDS)
