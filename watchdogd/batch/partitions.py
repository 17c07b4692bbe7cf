"""The partitions of a Slurm site, as sinfo lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.system.number import digits

FORMAT = "%P|%l|%D|%G|%h"
"""sinfo's: partition, limit, nodes, GPUs, whether nodes are shared."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A Slurm partition: its name, its longest walltime as Slurm writes it, whether its nodes have GPUs, and
    whether a job gets (and is billed for) whole nodes."""

    name: str
    max_time: str
    nodes: int
    gpus: bool
    default: bool
    exclusive: bool = False

    def __str__(self) -> str:
        """`small (2 nodes, up to 1-00:00:00)`"""
        gpus = ", GPUs" if self.gpus else ""
        whole = ", whole nodes only" if self.exclusive else ""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.name} ({nodes}{gpus}{whole}, up to {self.max_time})"


def read_sinfo(text: str) -> tuple[Partition, ...]:
    """The partitions in `sinfo -h` with FORMAT: a `*` marks the default one; lines of one add up."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([^|*]+)(\*?)\|([^|]*)\|(\d+)\|(.*)\|([^|]*)", line.strip())
        if match:
            name, star, limit, nodes, gres, shared = match.groups()
            before = found.get(name)
            gpus = "gpu" in gres.lower() or bool(before and before.gpus)
            count = digits(nodes) + (before.nodes if before else 0)
            found[name] = Partition(name, limit, count, gpus, bool(star), shared.startswith("EXCLUSIVE"))
    return tuple(found.values())
