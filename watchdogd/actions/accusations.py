"""From what was seen on the nodes and by the Guards of a stalled run to suspects: pure, a source each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from watchdogd.actions.suspects import CAUSE
from watchdogd.batch.run_models import FAIR, SURE, WEAK, Suspect
from watchdogd.parsers.nccl_ras import ABSENT, AHEAD, INSTEAD, Accused
from watchdogd.plugins.gpu_health import activity
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.probe.noderanks import NodeRanks, RankProcess
from watchdogd.stacks import stacks
from watchdogd.stacks.stacks import Group, Process
from watchdogd.system.number import count

NCCL, GPU, GUARD, NODE = "NCCL", "GPU", "Guard", "node"


def of_nodes(nodes: Sequence[NodeRanks], silent: Collection[str]) -> Iterator[Suspect]:
    """Return what the nodes say, and what it says that some say nothing."""
    yield from _of_nccl(nodes)
    yield from _of_gpus(nodes)
    yield from _of_states(nodes)
    if not silent:
        yield from _of_lost(nodes)
    elif nodes:
        yield from (Suspect(NODE, "does not answer, while others do", FAIR, node=name) for name in silent)


def notes(nodes: Sequence[NodeRanks]) -> Iterator[str]:
    """Return what NCCL says where it accuses nobody."""
    heard = [each for each in nodes if each.ras]
    if any(each.moving for each in heard):
        yield "NCCL: its operation counts still grow"
    elif heard and not any(each.accused for each in heard):
        yield "NCCL: all ranks have launched the same operations: is it the network, or a GPU?"


def of_guards(processes: Sequence[Process], expected: Mapping[int, str]) -> Iterator[Suspect]:
    """Compare the ranks' steps, where their stacks stand, and who wrote nothing.

    `expected`: rank → node.
    """
    ranked = [each for each in processes if each.rank is not None]
    steps = {each.rank: each.step for each in ranked if each.step is not None}
    top = max(steps.values(), default=0)
    late = [each for each in ranked if each.step is not None and each.step < top]
    if 0 < 2 * len(late) <= len(steps):
        for each in late:
            what = f"is at step {each.step}, the others at {top}"
            yield Suspect(GUARD, what, SURE, each.rank, each.node, pid=each.pid)
    mute = sorted(expected.keys() - {each.rank for each in ranked})
    if ranked and 2 * len(mute) <= len(expected):
        for rank in mute:
            yield Suspect(GUARD, "does not answer its Guard's call", FAIR, rank, expected[rank])
    yield from _of_stacks(ranked)


def _of_stacks(ranked: Sequence[Process]) -> Iterator[Suspect]:
    """Accuse the few that stand elsewhere than all others.

    Those wait in a collective, or at one place, as they do in backward, where no Python frame says that it
    communicates.
    """
    picture = stacks.fold(ranked)
    waiting = [group for group in picture.others if group.waits_in] or [*picture.others[:1]]
    odd = [(each, group) for group in picture.odd for each in group.members]
    if not waiting or 2 * len(odd) > picture.ranks or len(picture.others) > len(waiting):
        return
    for each, group in odd:
        what = f"stands in {_place(group)}, the others in {_place(waiting[0])}"
        yield Suspect(GUARD, what, FAIR, each.rank, each.node, pid=each.pid)


def _place(group: Group) -> str:
    return group.waits_in or str(group.place or "no frame")


def world(nodes: Sequence[NodeRanks]) -> int | None:
    """Return how many ranks the run has, as its processes were told."""
    sizes = {count(each.env.get("WORLD_SIZE", "")) for node in nodes for each in node.processes} - {None}
    return sizes.pop() if len(sizes) == 1 else None


def _of_nccl(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    names = _names(nodes)
    known = {(node.node, pid): each for node in nodes for each in node.processes for pid in each.pids}
    size = world(nodes)
    for each in dict.fromkeys(each for node in nodes for each in node.accused):
        node = names.get(each.member.host, each.member.host)
        process = known.get((node, each.member.pid or 0))
        yield _accusation(each, node, process, size)


def _accusation(each: Accused, node: str, process: RankProcess | None, size: int | None) -> Suspect:
    """Accuse a rank: one of the run where the communicator spans it, else one that its process tells."""
    whole = each.size is not None and each.size == size
    rank = process.rank if process and process.rank is not None else each.member.rank if whole else None
    what, strength = _what(each)
    if rank is None and each.member.rank is not None:
        rest = f" of {each.size}" if each.size else ""
        what += f" (rank {each.member.rank}{rest} of communicator {each.communicator[:16]})"
    pid = process.pid if process else each.member.pid
    return Suspect(NCCL, what, strength, rank, node, each.member.gpu, pid)


def _what(each: Accused) -> tuple[str, int]:
    kind = "collective operation" if each.kind == "collective" else each.kind
    operation = f"{kind} {each.number}"
    if each.how == ABSENT:
        return "does not answer NCCL" + (", which has given it up" if each.member.dead else ""), SURE
    if each.how == INSTEAD:
        return f"has entered {each.other} in place of {operation}", SURE
    if each.how == AHEAD:
        return f"alone has entered {operation}", WEAK
    return f"is behind: it has not entered {operation}" + (
        f", and is {each.by} behind" if each.by > 1 else ""
    ), SURE


def _names(nodes: Sequence[NodeRanks]) -> dict[str, str]:
    """Nodes by address, where only one has it."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for address in node.addresses:
            found.setdefault(address, set()).add(node.node)
    return {address: min(names) for address, names in found.items() if len(names) == 1}


def _of_gpus(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    gpus = {f"{node.node}/{gpu.label}": (node.node, gpu) for node in nodes for gpu in node.gpus}
    moment = activity.classify([NamedGpu(name, gpu) for name, (_, gpu) in gpus.items()])
    if not moment.hung:
        return
    watts = max((each.gpu.power_w or 0.0 for each in moment.waiting), default=0.0)
    for each in moment.quiet:
        node, gpu = gpus[each.name]
        what = f"does nothing, while {len(moment.waiting)} wait at 100 % and {watts:.0f} W"
        yield Suspect(GPU, what, FAIR, node=node, gpu=gpu.index)


def _of_states(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse processes that are stopped, ended, or in the kernel: the last where most are not.

    All of them may write, and stand in the kernel for it.
    """
    every = [(node.node, each) for node in nodes for each in node.processes]
    asleep = [each for _, each in every if each.state.startswith("D")]
    for node, each in every:
        what, strength = _state(each.state)
        if what and (strength == SURE or 2 * len(asleep) <= len(every)):
            yield Suspect(CAUSE, what, strength, each.rank, node, pid=each.pid)


def _state(state: str) -> tuple[str, int]:
    if state.startswith("T"):
        return "is stopped by a signal", SURE
    if state.startswith("t"):
        return "is held by a debugger", SURE
    if state.startswith(("Z", "X")):
        return "has ended", SURE
    return (f"waits in the kernel: {state}", FAIR) if state.startswith("D") else ("", 0)


def _of_lost(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Ranks that no node has, where most are there."""
    size = world(nodes)
    there = {each.rank for node in nodes for each in node.processes if each.rank is not None}
    gone = sorted(set(range(min(size or 0, 100_000))) - there)
    if there and 2 * len(gone) <= len(there):
        yield from (Suspect(CAUSE, "has no process any more", SURE, rank) for rank in gone)
