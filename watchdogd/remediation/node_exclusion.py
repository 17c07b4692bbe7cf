"""Nodes that a job is to leave out beside those of its owner. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from watchdogd.batch import scontrol, slurm, slurmtext


@dataclass(frozen=True, slots=True)
class NodeExclusion:
    """The host list that the job gets, which `nodes` are new in it, and what else is to be said.

    `refused`: why its list stays as it is.
    """

    hosts: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    said: str = ""
    refused: str = ""


def of_script(script: str, suspects: Collection[str]) -> NodeExclusion:
    """Return what a submission of the script leaves out; on the command line ours wins over the script's."""
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
    """Return what a job in `scontrol show job` leaves out; `written` is what watchdogd put there before."""
    if scontrol.is_heterogeneous(shown):
        return NodeExclusion(refused="it is a heterogeneous job")
    before = slurmtext.expand_hostlist(scontrol.excluded(shown))
    kept = tuple(node for node in before if node not in written or node in suspects)
    return _beside(kept, before, scontrol.requested(shown), suspects)


def _beside(
    kept: Iterable[str], before: Collection[str], asked: str, suspects: Collection[str]
) -> NodeExclusion:
    """Add the suspects; those that the job asks for by name stay: Slurm would refuse it without them."""
    wanted = set(slurmtext.expand_hostlist(asked))
    new = tuple(node for node in suspects if node not in before and node not in wanted)
    stays = [node for node in suspects if node in wanted]
    said = f"{', '.join(stays)} stays: the job asks for it by name" if stays else ""
    return NodeExclusion((*kept, *new), new, said)
