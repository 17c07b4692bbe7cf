"""Nodes that a job excludes in addition to those of its owner. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from watchdogd.batch import scontrol, slurm, slurmtext


@dataclass(frozen=True, slots=True)
class NodeExclusion:
    """The host list for the job, which `nodes` are new in it, and what else to say.

    `refused`: why its list stays as it is.
    """

    hosts: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    said: str = ""
    refused: str = ""


def of_script(script: str, suspects: Collection[str]) -> NodeExclusion:
    """Return the exclusion for submitting a script; on the command line ours overrides the script's."""
    named = slurm.script_options(script)
    own, asked = named.get("exclude", "").strip(","), named.get("nodelist", "")
    if slurm.is_heterogeneous(script):
        return NodeExclusion(refused="it is a heterogeneous job")
    if "/" in own:
        return NodeExclusion(refused=f"its script has --exclude={own}, a file")
    if "/" in asked:
        return NodeExclusion(refused=f"its script has --nodelist={asked}, a file")
    return _beside((own,) if own else (), slurmtext.expand_hostlist(own), asked, suspects)


def of_job(shown: str, suspects: Collection[str], written: Collection[str]) -> NodeExclusion:
    """Return the exclusion for a job in `scontrol show job`; `written`: what watchdogd put there before."""
    if scontrol.is_heterogeneous(shown):
        return NodeExclusion(refused="it is a heterogeneous job")
    before = slurmtext.expand_hostlist(scontrol.excluded(shown))
    kept = tuple(node for node in before if node not in written or node in suspects)
    return _beside(kept, before, scontrol.requested(shown), suspects)


def as_many_as_fit(
    found: NodeExclusion, ours: Sequence[str], usable: Collection[str], needed: int
) -> NodeExclusion:
    """Exclude so few nodes that the job still has the `needed` ones among those `usable` (none: not known).

    Slurm would accept a longer list and let the job wait for ever. `ours`: the nodes that watchdogd excludes,
    the newest first; the oldest suspects are dropped first.
    """
    hosts, stays = [*slurmtext.expand_hostlist(",".join(found.hosts))], []
    for node in reversed(ours):
        if not usable or len(set(usable) - set(hosts)) >= needed:
            break
        hosts.remove(node)
        stays.append(node)
    if not stays:
        return found
    said = f"not without {', '.join(stays)}: the job needs {needed} of the {len(usable)} nodes that work"
    nodes = tuple(node for node in found.nodes if node not in stays)
    return NodeExclusion(tuple(hosts), nodes, "; ".join(filter(None, [found.said, said])))


def _beside(
    kept: Iterable[str], before: Collection[str], asked: str, suspects: Collection[str]
) -> NodeExclusion:
    """Add the suspects, except nodes that the job asks for by name, which Slurm would refuse to exclude."""
    wanted = set(slurmtext.expand_hostlist(asked))
    new = tuple(node for node in suspects if node not in before and node not in wanted)
    stays = [node for node in suspects if node in wanted]
    said = f"{', '.join(stays)} stays: the job asks for it by name" if stays else ""
    return NodeExclusion((*kept, *new), new, said)
