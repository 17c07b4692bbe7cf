"""Accusations of nodes and Guards in a stall. Pure.

Only a minority is accused: what half of the ranks have in common proves nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_high

from watchdogd.batch.run_models import ASIDE, FAIR, SURE, WEAK, Suspect
from watchdogd.plugins.gpu_health import activity
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.probe.node_ranks import NodeRanks
from watchdogd.remediation import nccl_suspects, slow_suspects
from watchdogd.remediation.slow_suspects import GPU, GUARD, few
from watchdogd.remediation.suspects import CAUSE, short
from watchdogd.stacks import stack_folding
from watchdogd.stacks.stack_folding import Group, Process

_COLLECTIVE = re.compile("all|reduce|gather|scatter|broadcast|bcast|barrier", re.IGNORECASE)
"""What ranks enter together; not a message between two, or a wait for the GPU."""
NODE = "node"
SILENT = 2
"""Nodes at most that are accused of not answering: Python may take seconds to start on hundreds at once."""


def of_nodes(nodes: Sequence[NodeRanks], silent: Collection[str]) -> Iterator[Suspect]:
    """Yield the accusations by what the nodes report, and of nodes that do not answer."""
    yield from nccl_suspects.of_stalled(nodes, silent)
    yield from _of_gpus(nodes)
    yield from _of_states(nodes)
    yield from slow_suspects.of_links(nodes)
    if not silent:
        yield from _of_lost(nodes)
    elif _stand_out(silent, nodes):
        yield from (Suspect(NODE, "does not answer, while others do", FAIR, node=name) for name in silent)


def _stand_out(silent: Collection[str], nodes: Sequence[NodeRanks]) -> bool:
    """Return whether so few nodes are silent that it is not the start on many nodes that takes long."""
    return len(silent) <= SILENT and 2 * len(silent) < len(nodes) + len(silent)


def notes(nodes: Sequence[NodeRanks], silent: Collection[str] = ()) -> Iterator[str]:
    """Yield observations that accuse nobody."""
    yield from nccl_suspects.notes(nodes, silent)
    yield from slow_suspects.notes(nodes)
    if nodes and silent and not _stand_out(silent, nodes):
        names = stack_folding.names(silent)
        yield f"node: {len(silent)} of {len(nodes) + len(silent)} nodes do not answer: {names}"
    states = [each.state for node in nodes for each in node.processes]
    for letter in ("T", "t", "Z"):
        alike = [state for state in states if state.startswith(letter)]
        if len(alike) > 1 and not few(len(alike), len(states)):
            yield f"process: of {len(states)} ranks {len(alike)} are {alike[0]}"


def of_guards(
    processes: Sequence[Process], expected: Mapping[int, str], size: int | None = None
) -> Iterator[Suspect]:
    """Compare the ranks' steps, where their stacks stand, and which Guards wrote nothing.

    `expected`: rank → node of the Guards that are known to send heartbeats. `size`: number of ranks.
    """
    ranked = [each for each in processes if each.rank is not None]
    steps = {each.rank: each.step for each in ranked if each.step is not None}
    low, usual = (min(steps.values()), median_high(steps.values())) if steps else (0, 0)
    late = [each for each in ranked if each.step == low < usual]
    if few(len(late), len(steps)):
        strength = SURE if usual - low == 1 and len(steps) > 2 else FAIR  # ranks in step differ by one
        if 2 * sum(step == usual for step in steps.values()) < len(steps):
            strength = ASIDE  # each counts steps of its own
        for each in late:
            what = f"is at step {each.step}, the others at {usual}"
            yield Suspect(GUARD, what, strength, each.rank, each.node, pid=each.pid)
    mute = sorted(expected.keys() - {each.rank for each in ranked})
    if ranked and (len(expected) == 1 or few(len(mute), len(expected))):
        reached = {
            short(each.node) for each in ranked
        }  # NFS may show the request to a whole node a minute late
        for rank in mute:
            strength = FAIR if short(expected[rank]) in reached else ASIDE
            yield Suspect(GUARD, "does not answer its Guard's call", strength, rank, expected[rank])
    yield from _of_stacks(ranked, all_wrote=len({each.rank for each in ranked}) == size)


def _of_stacks(ranked: Sequence[Process], *, all_wrote: bool = False) -> Iterator[Suspect]:
    """Accuse the few that stand elsewhere than all others.

    The others wait in a collective, or stand at one place, such as backward, where no Python frame shows that
    it communicates. Another line of the same function means little: a single rank may write the log and wait
    for its GPU there. Another collective means little too, since a part of the run may wait in it for the
    culprit; but not that of a single rank, if all ranks wrote their stacks and all wait.
    """
    folded = stack_folding.fold(ranked)
    waiting = [group for group in folded.others if group.waits_in] or [*folded.others[:1]]
    odd = [(each, group) for group in folded.odd for each in group.members]
    if not waiting or not few(len(odd), folded.ranks) or len(folded.others) > len(waiting):
        return
    for each, group in odd:
        what = f"stands in {_place(group)}, the others in {_place(waiting[0])}"
        if group.waits_in and waiting[0].waits_in:
            alone = all_wrote and len(odd) == 1 and _COLLECTIVE.search(group.waits_in)
            strength = FAIR if alone else WEAK
        else:
            strength = WEAK if _function(group) == _function(waiting[0]) else FAIR
        yield Suspect(GUARD, what, strength, each.rank, each.node, pid=each.pid)


def _function(group: Group) -> tuple[str, str] | None:
    """Return the function of the user's code in which it stands; None if it waits in a collective."""
    return (group.place.file, group.place.function) if group.place and not group.waits_in else None


def _place(group: Group) -> str:
    return group.waits_in or str(group.place or "no frame")


def _of_gpus(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    gpus = {f"{node.node}/{gpu.label}": (node.node, gpu) for node in nodes for gpu in node.gpus}
    moment = activity.classify([NamedGpu(name, gpu) for name, (_, gpu) in gpus.items()])
    if not moment.hung or not few(len(moment.quiet), len(moment.quiet) + len(moment.waiting)):
        return
    watts = max((each.gpu.power_w or 0.0 for each in moment.waiting), default=0.0)
    for each in moment.quiet:
        node, gpu = gpus[each.name]
        what = f"does nothing, while {len(moment.waiting)} wait at 100 % and {watts:.0f} W"
        yield Suspect(GPU, what, FAIR, node=node, gpu=gpu.index)


def _of_states(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse processes that are stopped, ended, or in the kernel, if they are few.

    If it is all of them, they may have been suspended, or write to disk.
    """
    every = [(node.node, each) for node in nodes for each in node.processes]
    alike = Counter(each.state[:1] for _, each in every)
    for node, each in every:
        what, strength = _state(each.state)
        alone = len(every) == 1 and strength == SURE
        if what and (alone or few(alike[each.state[:1]], len(every))):
            yield Suspect(CAUSE, what, FAIR if alone else strength, each.rank, node, pid=each.pid)


def _state(state: str) -> tuple[str, int]:
    if state.startswith("T"):
        return "is stopped by a signal", SURE
    if state.startswith("t"):
        return "is held by a debugger", SURE
    if state.startswith(("Z", "X")):
        return "has ended", SURE
    return (f"waits in the kernel: {state}", FAIR) if state.startswith("D") else ("", 0)


def _of_lost(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse ranks that are missing on a node which has others.

    A node without any may never have had some, such as the last ranks of a WORLD_SIZE that is too large.
    """
    size = nccl_suspects.world(nodes) or 0
    there = {each.rank for node in nodes for each in node.processes if each.rank is not None}
    homes = _homes(nodes, size)
    gone = {rank: homes[rank] for rank in sorted(homes.keys() - there)}
    if there and few(len(gone), len(there) + len(gone)):
        for rank, node in gone.items():
            strength = SURE if rank < max(there) else FAIR
            yield Suspect(CAUSE, "has no process any more", strength, rank, node)


def _homes(nodes: Sequence[NodeRanks], size: int) -> dict[int, str]:
    """Return the node of each rank if ranks are spread evenly, in blocks or in turns; else nothing.

    Nodes without ranks, or with processes whose rank is not known, are left out.
    """
    per, rest = divmod(min(size, 100_000), len(nodes) or 1)
    layouts: tuple[Callable[[int], int], ...] = (lambda rank: rank // per, lambda rank: rank % len(nodes))
    for layout in layouts if per and not rest else ():
        found: dict[int, list[NodeRanks]] = defaultdict(list)
        for node in nodes:
            for part in {layout(each.rank) for each in node.processes if each.rank is not None}:
                found[part].append(node)
        owners = [owner for part in found.values() for owner in part]
        if len(owners) == len({each.node for each in owners}) == len(found):
            names = {part: node.node for part, (node,) in found.items() if _ranks(node)}
            return {rank: names[layout(rank)] for rank in range(per * len(nodes)) if layout(rank) in names}
    return _between(nodes)


def _between(nodes: Sequence[NodeRanks]) -> dict[int, str]:
    """Return the node of each rank between a node's first and last one, if nodes do not interleave."""
    spans = sorted((min(own), max(own), node.node) for node in nodes if (own := _ranks(node)))
    if any(before[1] >= after[0] for before, after in pairwise(spans)):
        return {}
    return {rank: name for first, last, name in spans for rank in range(first, min(last, 100_000))}


def _ranks(node: NodeRanks) -> set[int]:
    """Return the ranks of a node; none if the rank of any process is not known."""
    found = {each.rank for each in node.processes if each.rank is not None}
    return found if all(each.rank is not None for each in node.processes) else set()
