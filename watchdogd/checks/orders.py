"""The commands that a message gives to its reader, in the words of the batch system. `{id}`: the
job's, `{name}`: the run's job name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Orders:
    """What ends a job, lets a suspended one go on, holds a waiting one, and what tells more: of its start,
    its earlier attempts, its state."""

    end: str
    resume: str
    hold: str
    estimate: str
    earlier: str
    look: str
    rename: str


SLURM = Orders(
    end="scancel {id}",
    resume="scontrol resume {id}",
    hold="scontrol hold {id}",
    estimate="squeue --start --jobs={id}",
    earlier="sacct --duplicates -j {id}",
    look="scontrol show job {id}",
    rename="scontrol update JobId={id} JobName={name}",
)
PBS = Orders(
    end="qdel {id}",
    resume="qsig -s resume {id}",
    hold="qhold {id}",
    estimate="qstat -T {id}",
    earlier="qstat -x -f {id}",
    look="qstat -f {id}",
    rename="qalter -N {name} {id}",
)
PROCESS = Orders(
    end="kill {id}", resume="kill -CONT {id}", hold="", estimate="", earlier="", look="", rename=""
)


def of(backend: str) -> Orders:
    """The batch system's; Slurm's where it is another."""
    return {"pbs": PBS, "process": PROCESS}.get(backend, SLURM)
