"""The batch system of this machine, and its commands about a job as people type them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchCommands:
    """Commands of a batch system about a job.

    They end it, have it start again, let a suspended one go on, hold a waiting one, or show more: its start,
    its earlier attempts, its state.
    """

    end: str
    requeue: str
    resume: str
    hold: str
    estimate: str
    earlier: str
    look: str
    rename: str


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
PROCESS_COMMANDS = BatchCommands(
    end="kill {id}",
    requeue="",
    resume="kill -CONT {id}",
    hold="",
    estimate="",
    earlier="",
    look="",
    rename="",
)


def here() -> str:
    """Return the batch system whose commands this machine has: slurm, pbs, or none.

    Grid Engine has a qstat too, which answers otherwise; it is known by its qconf.
    """
    if shutil.which("squeue"):
        return "slurm"
    return "pbs" if shutil.which("qstat") and not shutil.which("qconf") else "none"


def of(backend: str) -> BatchCommands:
    """Return the commands of a batch system; Slurm's where it is unknown."""
    return {"pbs": PBS_COMMANDS, "process": PROCESS_COMMANDS}.get(backend, SLURM_COMMANDS)
