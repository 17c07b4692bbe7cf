"""Suspects by the reports of NCCL's RAS on the nodes of a job. Pure.

Each node's RAS was asked separately. What only some of them report, or what is reported while any counts
still grow, is not certain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from watchdogd.batch.run_models import FAIR, SURE, WEAK, Suspect
from watchdogd.parsers.nccl_ras import ABSENT, AHEAD, BEHIND, ERROR, INSTEAD, STATE, Accused
from watchdogd.plugins.gpu_health import activity
from watchdogd.probe.node_ranks import LOOKS, NodeRanks, RankProcess
from watchdogd.stacks import stack_folding
from watchdogd.system.number import count

SOURCE = "NCCL"


def of_stalled(nodes: Sequence[NodeRanks], silent: Collection[str] = ()) -> Iterator[Suspect]:
    """Yield the ranks that RAS accuses of a stall.

    A rank that launched fewest may wait for its own GPU while others run ahead: it is uncertain if that GPU
    is busy, and improbable if that GPU waits.
    """
    nodes = _own(nodes, silent)
    places, charges = _Places.of(nodes, silent), _charges(nodes)
    moving = any(node.moving for node in nodes if node.ras)
    busy = {(node.node, gpu.index) for node in nodes for gpu in node.gpus if activity.is_busy(gpu)}
    held = held_up(nodes)
    apart, seen = unreached(nodes, silent), set()
    passed = _passed(nodes, places, held)
    late = {each.communicator for node in nodes for each in node.accused if each.how == BEHIND} - passed
    for node in nodes if charges else ():
        for each in node.accused:
            charge = each.how, each.process
            where = places.node_of(each.member.host)
            cut_off = each.how == ABSENT and {node.node, where} <= apart
            if charge in seen or cut_off or (each.how == AHEAD and each.communicator in late):
                continue
            seen.add(charge)
            agreed = all(charge in theirs for theirs in charges.values())
            sure = agreed and not each.unsure and not moving and not places.may_wait(each)
            its_gpu = (where, each.member.gpu) if each.how == BEHIND else None
            said = places.accusation(each, sure and its_gpu not in busy)
            if each.how == AHEAD and each.communicator in passed:
                what = f"has gone on to {each.kind} {each.number}, past one in which others wait"
                said = replace(said, what=what, strength=FAIR)
            yield replace(said, strength=WEAK) if its_gpu in held else said


def of_slow(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Yield the ranks that launched fewer operations than the others most of the time."""
    nodes = _own(nodes)
    places = _Places.of(nodes, ())
    for each in dict.fromkeys(each for node in nodes for each in node.lagging):
        yield places.accusation(each, sure=False)


def unreached(nodes: Sequence[NodeRanks], silent: Collection[str] = ()) -> set[str]:
    """Return the nodes that miss each other's processes although their own RAS sees these."""
    places, charges, missed = _Places.of(nodes, silent), _charges(nodes), defaultdict(set)
    for node in nodes:
        for each in node.accused:
            where = places.node_of(each.member.host)
            if each.how == ABSENT and where in charges and (ABSENT, each.process) not in charges[where]:
                missed[node.node].add(where)
    return {one for one, others in missed.items() if any(one in missed.get(other, ()) for other in others)}


def notes(nodes: Sequence[NodeRanks], silent: Collection[str] = ()) -> Iterator[str]:
    """Yield what NCCL reports without accusing anybody."""
    nodes = _own(nodes, silent)
    heard = [each for each in nodes if each.ras]
    if apart := unreached(nodes, silent):
        yield f"NCCL: the nodes do not reach one another: {stack_folding.names(apart)}"
    elif any(each.moving for each in heard):
        yield "NCCL: its operation counts still grow"
    elif any(each.accused for each in heard):
        return
    elif not all(each.even for each in heard):
        yield "NCCL: its communicators differ, and nobody stands out"
    elif heard and {each.total for each in heard} <= {0, world(nodes) or heard[0].total}:
        yield "NCCL: all ranks have launched the same operations: is it the network, or a GPU?"


def world(nodes: Sequence[NodeRanks]) -> int | None:
    """Return how many ranks the run has according to its processes' environment."""
    sizes = {count(each.env.get("WORLD_SIZE", "")) for node in nodes for each in node.processes} - {None}
    return sizes.pop() if len(sizes) == 1 else None


def held_up(nodes: Sequence[NodeRanks]) -> dict[tuple[str, int | None], tuple[int, ...]]:
    """Map (node, GPU) of GPUs that wait for others to the processes on them.

    A process that only waits is held up by others: one that is stuck leaves its GPU idle. GPUs shared by
    several ranks say nothing.
    """
    return {
        (node.node, gpu.index): gpu.pids
        for node in nodes
        for gpu in node.gpus
        if activity.waits(gpu)
        and (len(gpu.pids) == 1 or (not gpu.pids and len(node.processes) <= len(node.gpus)))
    }


def _passed(
    nodes: Sequence[NodeRanks], places: _Places, held: Collection[tuple[str, int | None]]
) -> set[str]:
    """Return the communicator of the whole run in which some are past the operation that all others wait in.

    By number these have launched that one too, so it was another operation. Only if no other communicator
    accuses anybody.
    """
    accused = [each for node in nodes for each in node.accused]
    at = {
        how: {(places.node_of(each.member.host), each.member.gpu) for each in accused if each.how == how}
        for how in (AHEAD, BEHIND)
    }
    others = at[BEHIND] or {(node.node, gpu.index) for node in nodes for gpu in node.gpus} - at[AHEAD]
    names = {each.communicator for each in accused}
    whole = all(each.how in at and each.size == places.size for each in accused)
    return names if at[AHEAD] and others and others <= set(held) and whole and len(names) == 1 else set()


def _own(nodes: Sequence[NodeRanks], silent: Collection[str] = ()) -> list[NodeRanks]:
    """Return the nodes, without answers about other nodes: another job's RAS uses that port."""
    known = {address for node in nodes for address in node.addresses}
    return [
        replace(node, ras="", accused=(), lagging=(), moving=False)
        if not silent and {each.member.host for each in (*node.accused, *node.lagging)} - known - {""}
        else node
        for node in nodes
    ]


def _size(nodes: Sequence[NodeRanks], silent: Collection[str]) -> int | None:
    """Return the number of ranks: from the environment, else from RAS if all nodes answered."""
    seen = max((node.total for node in nodes if node.ras), default=0)
    return world(nodes) or (None if silent else max(seen, sum(len(node.processes) for node in nodes)) or None)


def _charges(nodes: Sequence[NodeRanks]) -> dict[str, set[Hashable]]:
    """Map each node that answered to its RAS's accusations."""
    return {node.node: {(each.how, each.process) for each in node.accused} for node in nodes if node.ras}


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of a job's processes: `names` of nodes by address, for addresses of only one node."""

    names: dict[str, str]
    elsewhere: str
    shared: frozenset[str]
    processes: tuple[tuple[str, RankProcess], ...]
    size: int | None

    @classmethod
    def of(cls, nodes: Sequence[NodeRanks], silent: Collection[str]) -> _Places:
        found: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            for address in node.addresses:
                found[address].add(node.node)
        return cls(
            {address: min(names) for address, names in found.items() if len(names) == 1},
            next(iter(silent)) if len(silent) == 1 else "",
            frozenset(address for address, names in found.items() if len(names) > 1),
            tuple((node.node, each) for node in nodes for each in node.processes),
            _size(nodes, silent),
        )

    def node_of(self, host: str) -> str:
        """Return the node with this address; an unknown one belongs to the silent node, if there is one."""
        if host in self.names:
            return self.names[host]
        return self.elsewhere if self.elsewhere and host and host not in self.shared else host

    def may_wait(self, each: Accused) -> bool:
        """Return True if a rank that is behind in a part of the run may wait for another part's message.

        NCCL counts only collectives, not what ranks send one another, such as the stages of a pipeline.
        """
        return each.how == BEHIND and (each.size is None or each.size != self.size)

    def accusation(self, each: Accused, sure: bool) -> Suspect:
        """Accuse a rank of the run if its communicator spans the run, else the rank of its process.

        Process ids are those of containers, so several on one node may have the same.
        """
        member, node = each.member, self.node_of(each.member.host)
        here = [own for name, own in self.processes if name == node and member.pid in own.pids]
        process = here[0] if len(here) == 1 else None
        rank = process.rank if process else None
        whole = member.rank is not None and each.size is not None and each.size == self.size
        if whole and rank not in (None, member.rank):
            sure = False  # it may number its ranks in another order
        elif whole:
            rank, process = member.rank, None
            mine = [(name, own) for name, own in self.processes if own.rank == rank]
            if len(mine) == 1:
                known = node in {name for name, _ in self.processes}
                node, process = (node, None) if known and mine[0][0] != node else mine[0]
                sure = sure and process is not None
        pid = process.pid if process else None if here else member.pid
        what, strength = _what(each, part=self.may_wait(each))
        if rank is None and member.rank is not None:
            rest = f" of {each.size}" if each.size else ""
            what += f" (rank {member.rank}{rest} of communicator {each.communicator[:16]})"
        return Suspect(SOURCE, what, strength if sure else min(strength, FAIR), rank, node, member.gpu, pid)


def _what(each: Accused, *, part: bool) -> tuple[str, int]:
    if each.looks:
        return f"has launched fewer operations than the others in {each.looks} of {LOOKS} looks", FAIR
    kind = "collective operation" if each.kind == "collective" else each.kind
    operation = f"{kind} {each.number}"
    if each.how == ABSENT:
        return "does not answer NCCL" + (", which has given it up" if each.member.dead else ""), SURE
    if each.how == INSTEAD:
        return f"has entered {each.other} in place of {operation}", WEAK if each.held else SURE
    if each.how == AHEAD:
        return f"alone has entered {operation}", WEAK
    if each.how == STATE:
        return f"has a communicator in state {each.other}, the others in {each.kind}", FAIR
    if each.how == ERROR:
        return f"has reported to NCCL: {each.other}", FAIR
    where = f"is behind in a group of {each.size}" if part and each.size else "is behind"
    more = f", and is {each.by} behind" if each.by > 1 else ""
    return f"{where}: it has not entered {operation}{more}", WEAK if each.held else SURE
