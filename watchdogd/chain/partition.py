"""The partition in which the chain lives: is there one of that name, how long may a job run, has it GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.batch.partitions import FORMAT, Partition, read_sinfo
from watchdogd.batch.queue import DEADLINE
from watchdogd.batch.submit import refusal
from watchdogd.errors import SlurmError
from watchdogd.system import command
from watchdogd.system.nearest import nearest
from watchdogd.system.walltime import LONGEST, SHORTEST, format_walltime, slurm_duration


@dataclass(frozen=True, slots=True)
class Site:
    """The partitions that Slurm shows."""

    partitions: tuple[Partition, ...]

    def chosen(self, names: str) -> list[Partition]:
        """Those of `small` or `small,medium`; empty: the site's default one. SlurmError: none such."""
        if not names:
            return [partition for partition in self.partitions if partition.default]
        known = {partition.name: partition for partition in self.partitions}
        for name in names.split(","):
            if name not in known:
                raise SlurmError(f"there is no partition '{name}'{nearest(name, list(known))}")
        return [known[name] for name in names.split(",")]


def ask() -> Site:
    """One sinfo. SlurmError or SlurmSilentError."""
    answer = command.ask(("sinfo", "--noheader", "--all", f"--format={FORMAT}"), deadline=DEADLINE)
    if not answer.ok:
        raise refusal(answer)
    return Site(read_sinfo(answer.output))


def walltime(chosen: list[Partition], wished: float | None, usual: float = LONGEST) -> float:
    """Seconds that a link may run: as wished, else the smaller of `usual` and what the partition allows.

    SlurmError where the wish cannot be had: sbatch would take the job, and it would wait for ever.
    """
    limits = [limit for partition in chosen if (limit := slurm_duration(partition.max_time)) is not None]
    longest = min(limits, default=None)
    if wished is None:
        return min(longest or usual, usual)
    if wished < SHORTEST:
        raise SlurmError(f"a link needs two minutes at least, not {wished:g} s: give a longer --time")
    if longest is not None and wished > longest:
        names = ",".join(partition.name for partition in chosen)
        raise SlurmError(
            f"partition {names} allows {format_walltime(longest)} at most: ask for less with --time, "
            "or time under [slurm]"
        )
    return wished


def gpu_warning(chosen: list[Partition], site: Site) -> str:
    """A line where the chain would keep a GPU node's cores, or empty."""
    if not any(partition.gpus for partition in chosen):
        return ""
    cheaper = [partition.name for partition in site.partitions if not partition.gpus]
    instead = f": a CPU partition costs less ({', '.join(cheaper[:5])})" if cheaper else ""
    return f"partition {', '.join(partition.name for partition in chosen)} has GPUs{instead}"
