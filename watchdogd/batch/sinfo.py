"""Nodes and partitions of a Slurm site, by sinfo, and the walltime that they permit.

States of nodes are sinfo's long words (%T) followed by a flag: `*` does not answer, `~` powered off, `#`
starting, `$` in a maintenance reservation, `@` `^` to be rebooted, `-` planned for a job (sinfo(1)).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from watchdogd.batch import slurmtext
from watchdogd.batch.slurm import QUERY_DEADLINE, refusal
from watchdogd.errors import SlurmError, UnreadableError
from watchdogd.system import command
from watchdogd.system.number import digits
from watchdogd.system.text import nearest, split_lines
from watchdogd.system.times import LONGEST_WALLTIME, SHORTEST_WALLTIME, format_walltime, slurm_duration

FORMAT = slurmtext.FIELD.join(("%N", "%R", "%T", "%H", "%u", "%E"))
"""Format for `sinfo --noheader --all --Node`: node, partition, state; when, by whom and why it was set."""
_FIELDS = 6
_STATE = re.compile(r"([a-z_]+)([*~#!%$@^+-]*)")
_USABLE = frozenset({"", "~", "#"})


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """Node in one partition. `since`: seconds since the epoch; `by` and `reason` may be empty."""

    name: str
    partition: str
    state: str
    flags: str = ""
    since: float | None = None
    by: str = ""
    reason: str = ""

    @property
    def spare(self) -> bool:
        """Return whether a job can start on it now, or once it is powered on."""
        return self.state == "idle" and self.flags in _USABLE

    @property
    def drained(self) -> bool:
        """Return whether it accepts no new job: drained, or draining while its jobs end."""
        return self.state.startswith("drain")

    @property
    def down(self) -> bool:
        """Return whether Slurm has marked it down."""
        return self.state in ("down", "fail", "failing", "inval")

    @property
    def silent(self) -> bool:
        return "*" in self.flags

    @property
    def kill_failed(self) -> bool:
        """Return whether it was drained for a process slow to die (UnkillableStepTimeout): mostly healthy."""
        return self.drained and "kill task failed" in self.reason.lower()


USABLE_FORMAT = "%N|%T|%f"
"""Format for `sinfo --noheader --Node`: node, state, features."""


def usable(text: str, features: str = "") -> frozenset[str]:
    """Return the nodes in USABLE_FORMAT that accept jobs and have all `features`, or one if `|` is in it."""
    wanted = re.findall(r"[\w.-]+", features)
    enough = any if "|" in features else all
    found = set()
    for line in split_lines(text):
        name, state, own = (*line.split("|"), "", "")[:3]
        node = _STATE.fullmatch(state.strip().lower())
        seen = SlurmNode(name.strip(), "", node[1], node[2]) if node else None
        if seen and not (seen.drained or seen.down or seen.silent):
            has = own.strip().split(",")
            found |= {seen.name} if not wanted or enough(word in has for word in wanted) else set()
    return frozenset(found)


def form(mark: str) -> str:
    """Return FORMAT with separators that a reason cannot imitate; `mark`: from `slurmtext.mark`."""
    return FORMAT.replace(slurmtext.FIELD, slurmtext.FIELD + mark)


def read(text: str, mark: str = "") -> tuple[SlurmNode, ...]:
    """Return the nodes, without invalid lines; UnreadableError where all are. `mark`: as of `form`.

    A reason may have line breaks: a line without separators continues the one before.
    """
    rows: list[str] = []
    between = slurmtext.FIELD + slurmtext.marked(text, mark)
    for line in filter(str.strip, text.split("\n")):
        if rows and between in rows[-1] and between not in line:
            rows[-1] += f" {line.strip()}"
        else:
            rows.append(line)
    return tuple(slurmtext.read_records(lambda row: _node(row, between), rows))


def _node(line: str, between: str) -> SlurmNode:
    fields = line.split(between, _FIELDS - 1)
    match = _STATE.fullmatch(fields[2].strip().lower()) if len(fields) == _FIELDS else None
    if match is None:
        raise UnreadableError(f"sinfo printed something other than a node: '{line[:120]}'")
    name, partition, _, since, by, reason = (field.strip() for field in fields)
    reason_text = "" if reason.lower() == "none" else slurmtext.text(reason)
    return SlurmNode(
        name, partition, match[1], match[2], slurmtext.time(since), slurmtext.text(by), reason_text
    )


PARTITION_FORMAT = "%P|%l|%D|%G|%h"
"""Format for sinfo: partition, time limit, nodes, GPUs, whether nodes are shared."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Slurm partition.

    `max_time`: as Slurm writes it; `gpus`: its nodes have some; `exclusive`: a job gets whole nodes.
    """

    name: str
    max_time: str
    nodes: int
    gpus: bool
    default: bool
    exclusive: bool = False

    def __str__(self) -> str:
        """Return `small (2 nodes, up to 1-00:00:00)`."""
        gpus = ", GPUs" if self.gpus else ""
        whole = ", whole nodes only" if self.exclusive else ""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"{self.name} ({nodes}{gpus}{whole}, up to {self.max_time})"


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in PARTITION_FORMAT: `*` marks the default one; lines of one are added up."""
    found: dict[str, Partition] = {}
    for line in split_lines(text):
        match = re.fullmatch(r"([^|*]+)(\*?)\|([^|]*)\|(\d+)\|(.*)\|([^|]*)", line.strip())
        if match:
            name, star, limit, nodes, gres, shared = match.groups()
            before = found.get(name)
            gpus = "gpu" in gres.lower() or bool(before and before.gpus)
            count = digits(nodes) + (before.nodes if before else 0)
            found[name] = Partition(name, limit, count, gpus, bool(star), shared.startswith("EXCLUSIVE"))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Site:
    partitions: tuple[Partition, ...]

    def chosen(self, names: str) -> list[Partition]:
        """Return those in `small,medium`; empty: the default one. SlurmError for an unknown name."""
        if not names:
            return [partition for partition in self.partitions if partition.default]
        known = {partition.name: partition for partition in self.partitions}
        for name in names.split(","):
            if name not in known:
                raise SlurmError(f"there is no partition '{name}'{nearest(name, list(known))}")
        return [known[name] for name in names.split(",")]


def ask_partitions() -> Site:
    """Ask sinfo for the partitions. SlurmError or SlurmSilentError."""
    answer = command.ask(
        ("sinfo", "--noheader", "--all", f"--format={PARTITION_FORMAT}"), deadline=QUERY_DEADLINE
    )
    if not answer.ok:
        raise refusal(answer)
    return Site(read_partitions(answer.output))


def allowed_walltime(chosen: list[Partition], wished: float | None, usual: float = LONGEST_WALLTIME) -> float:
    """Return the walltime of a link in seconds: `wished`, or `usual` where no partition permits less.

    SlurmError where the wish is impossible: sbatch would accept the job, and it would wait for ever.
    """
    limits = [limit for partition in chosen if (limit := slurm_duration(partition.max_time)) is not None]
    longest = min(limits, default=None)
    if wished is None:
        return min(longest or usual, usual)
    if wished < SHORTEST_WALLTIME:
        raise SlurmError(f"a link needs two minutes at least, not {wished:g} s: give a longer --time")
    if longest is not None and wished > longest:
        names = ",".join(partition.name for partition in chosen)
        raise SlurmError(
            f"partition {names} allows {format_walltime(longest)} at most: ask for less with --time, "
            "or time under [slurm]"
        )
    return wished


def gpu_warning(chosen: list[Partition], site: Site) -> str:
    """Return a warning where the chain would occupy cores of a GPU node, or empty."""
    if not any(partition.gpus for partition in chosen):
        return ""
    cheaper = [partition.name for partition in site.partitions if not partition.gpus]
    instead = f": a CPU partition costs less ({', '.join(cheaper[:5])})" if cheaper else ""
    return f"partition {', '.join(partition.name for partition in chosen)} has GPUs{instead}"
