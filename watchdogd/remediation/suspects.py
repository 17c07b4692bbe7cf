"""Suspects of a stall: from what each source saw on the nodes and by the Guards to a verdict. Pure.

What different sources say of one rank is put together: by its number, by its process, by its GPU. The one of
whom the strongest is said is named, and of several those whom most sources name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from watchdogd.batch.run_models import FAIR, SURE, WEAK, Suspect
from watchdogd.parsers.nccl_ras import ABSENT, AHEAD, INSTEAD, Accused
from watchdogd.plugins.gpu_health import activity
from watchdogd.plugins.gpu_health.activity import NamedGpu
from watchdogd.probe.node_ranks import LOOKS, NodeRanks, RankProcess
from watchdogd.stacks import stack_folding
from watchdogd.stacks.stack_folding import Group, Process
from watchdogd.system.number import count

CAUSE = "process"
"""The source that says why, where others that are as sure say what follows from it."""
BUSY, SLOW_CLOCK = 50.0, 0.8
"""Per cent of utilisation from which a GPU works; the share of the others' clock below which it is slow."""
NAMED = 8
"""Suspects that are named one by one; of more there is a range, or a number."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """One rank, process, GPU or node, by all that is known of it; `said` is of it, the strongest first."""

    said: tuple[Suspect, ...]
    rank: int | None = None
    node: str = ""
    gpu: int | None = None
    pid: int | None = None

    @property
    def weight(self) -> tuple[int, int]:
        """Return the strongest that is said, and how many sources say something."""
        return self.said[0].strength, len({each.source for each in self.said})

    def __str__(self) -> str:
        """Return `rank 137 (node n017, GPU 1)`."""
        places = [f"node {self.node}" if self.node else "", "" if self.gpu is None else f"GPU {self.gpu}"]
        if self.rank is None:
            places = places if self.pid is None else [f"process {self.pid}", *places]
            return ", ".join(filter(None, places)) or "somebody"
        places += [f"pid {self.pid}"] if self.gpu is None and self.pid is not None else []
        inside = ", ".join(filter(None, places))
        return f"rank {self.rank} ({inside})" if inside else f"rank {self.rank}"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """`culprits` are named, `others` are those of whom sources speak that name none of them."""

    culprits: tuple[Culprit, ...] = ()
    others: tuple[Culprit, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Which sources name a culprit, the strongest first."""
        return tuple(dict.fromkeys(said.source for each in self.culprits for said in each.said))

    @property
    def sure(self) -> bool:
        """Return whether the evidence is strong: one source is sure, or two agree, and none objects."""
        if not self.culprits or any(each.weight[0] > WEAK for each in self.others):
            return False
        strength, sources = self.culprits[0].weight
        return strength >= SURE or sources > 1

    def words(self) -> str:
        """Word it for a first line: who it is, what it does, and who says otherwise; empty: nobody."""
        if not self.culprits:
            return ""
        parts = [_sentence(self.culprits)]
        parts += [f"but by {said.source} {each} {said.what}" for each, said in self._contradiction()]
        return "; ".join(parts)

    def lines(self) -> Iterator[str]:
        """Return all that is said, one accusation a line."""
        for each in (*self.culprits, *self.others):
            for said in each.said:
                yield f"{said.source}: {each} {said.what}"

    def _contradiction(self) -> list[tuple[Culprit, Suspect]]:
        """Return the first whom each source accuses, where it is somebody else."""
        found: dict[str, tuple[Culprit, Suspect]] = {}
        for each in self.others:
            for said in each.said:
                found.setdefault(said.source, (each, said))
        return list(found.values())


def merge(suspects: Iterable[Suspect]) -> Suspicion:
    """Put together who is one, and judge."""
    found = sorted(map(_culprit, _joined(list(dict.fromkeys(suspects)))), key=_order)
    if not found:
        return Suspicion()
    best = found[0].weight
    named = [each for each in found if each.weight == best]
    heard = {said.source for each in named for said in each.said}
    others = [each for each in found if not heard & {said.source for said in each.said}]
    return Suspicion(tuple(named), tuple(others))


def _order(each: Culprit) -> tuple[int, int, int, str]:
    strength, sources = each.weight
    return -strength, -sources, -1 if each.rank is None else each.rank, each.node


def _keys(suspect: Suspect) -> Iterator[Hashable]:
    if suspect.rank is not None:
        yield "rank", suspect.rank
    if suspect.pid is not None:
        yield "pid", _short(suspect.node), suspect.pid
    if suspect.gpu is not None and suspect.node:
        yield "gpu", _short(suspect.node), suspect.gpu
    if suspect.rank is None and suspect.pid is None and suspect.gpu is None:
        yield "node", _short(suspect.node)


def _short(node: str) -> str:
    """Shorten a name to what stands before its domain; an address stays."""
    return node if node[:1].isdigit() or ":" in node else node.partition(".")[0]


def _joined(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """Join those who share a rank, a process or a GPU, also by way of a third; two ranks are two."""
    groups: dict[Hashable, list[Suspect]] = {}
    for suspect in sorted(suspects, key=lambda each: each.rank is None):
        group = [suspect]
        for key in _keys(suspect):
            other = groups.get(key, group)
            if other is not group and len({each.rank for each in (*group, *other)} - {None}) < 2:
                group = [*other, *group]
                groups |= dict.fromkeys((key for each in group for key in _keys(each)), group)
        for key in _keys(suspect):
            groups.setdefault(key, group)
    return list({id(group): group for group in groups.values()}.values())


def _culprit(said: Sequence[Suspect]) -> Culprit:
    said = sorted(said, key=lambda each: (-each.strength, each.source != CAUSE))
    return Culprit(
        tuple(said),
        next((each.rank for each in said if each.rank is not None), None),
        next((each.node for each in said if each.node), ""),
        next((each.gpu for each in said if each.gpu is not None), None),
        next((each.pid for each in said if each.pid is not None), None),
    )


def _sentence(culprits: Sequence[Culprit]) -> str:
    """Make one clause for all of whom the same is said first."""
    groups: dict[str, list[Culprit]] = defaultdict(list)
    for each in culprits:
        groups[each.said[0].what].append(each)
    return "; ".join(f"{who(group)} {what}" for what, group in groups.items())


def who(group: Sequence[Culprit]) -> str:
    """Return `rank 137 (node n017, GPU 1)`, `each of ranks 136-139 (node n017)`, `each of 70 ranks`."""
    if len(group) == 1:
        return str(group[0])
    ranks = [each.rank for each in group if each.rank is not None]
    nodes = stack_folding.names(each.node for each in group if each.node)
    where = f" ({'nodes' if len({each.node for each in group}) > 1 else 'node'} {nodes})" if nodes else ""
    if len(ranks) == len(group) and len(stack_folding.numbers(ranks)) <= 40 and len(where) <= 60:
        return f"each of ranks {stack_folding.numbers(ranks)}{where}"
    if len(group) <= NAMED:
        return "each of " + ", ".join(map(str, group))
    return f"each of {len(group)} {'ranks' if len(ranks) == len(group) else 'suspects'}"


NCCL, GPU, GUARD, NODE = "NCCL", "GPU", "Guard", "node"


def of_nodes(nodes: Sequence[NodeRanks], silent: Collection[str]) -> Iterator[Suspect]:
    """Return what the nodes say, and what it says that some say nothing."""
    yield from _of_nccl(nodes, [each for node in nodes for each in node.accused])
    yield from _of_gpus(nodes)
    yield from _of_states(nodes)
    if not silent:
        yield from _of_lost(nodes)
    elif nodes:
        yield from (Suspect(NODE, "does not answer, while others do", FAIR, node=name) for name in silent)


def of_slow(nodes: Sequence[NodeRanks], guards: Sequence[Process]) -> Iterator[Suspect]:
    """Return who may slow a run down that gets on.

    A stack is looked at once, so that it says little; steps of the Guards differ by the moment of their call.
    """
    yield from _of_nccl(nodes, [each for node in nodes for each in node.lagging])
    yield from _of_throttled(nodes)
    ranked = [each for each in guards if each.rank is not None]
    yield from (replace(each, strength=WEAK) for each in _of_stacks(ranked))


def _of_throttled(nodes: Sequence[NodeRanks]) -> Iterator[Suspect]:
    """Accuse GPUs that slow themselves down, and those at work with a clock far below the others'."""
    gpus = [(node.node, gpu) for node in nodes for gpu in node.gpus]
    slowed = [(node, gpu) for node, gpu in gpus if gpu.throttled]
    if 2 * len(slowed) <= len(gpus):
        for node, gpu in slowed:
            what = f"is throttled ({', '.join(gpu.throttled)})"
            yield Suspect(GPU, what, FAIR, node=node, gpu=gpu.index)
    busy = [(node, gpu) for node, gpu in gpus if (gpu.utilisation or 0.0) >= BUSY and gpu.clock_mhz]
    clocks = [gpu.clock_mhz or 0.0 for _, gpu in busy]
    usual = median(clocks) if len(clocks) >= 4 else 0.0
    for node, gpu in busy:
        if (gpu.clock_mhz or 0.0) < SLOW_CLOCK * usual and not gpu.throttled:
            what = f"works at {gpu.clock_mhz:.0f} MHz, the others at {usual:.0f} MHz"
            yield Suspect(GPU, what, FAIR, node=node, gpu=gpu.index)


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
    communicates. Another line of the same function says little: one rank alone may write the log, and wait
    for its GPU there.
    """
    folded = stack_folding.fold(ranked)
    waiting = [group for group in folded.others if group.waits_in] or [*folded.others[:1]]
    odd = [(each, group) for group in folded.odd for each in group.members]
    if not waiting or 2 * len(odd) > folded.ranks or len(folded.others) > len(waiting):
        return
    for each, group in odd:
        what = f"stands in {_place(group)}, the others in {_place(waiting[0])}"
        strength = WEAK if _function(group) == _function(waiting[0]) else FAIR
        yield Suspect(GUARD, what, strength, each.rank, each.node, pid=each.pid)


def _function(group: Group) -> tuple[str, str] | None:
    """Return the function of its own code in which it stands; None where it waits in a collective."""
    return (group.place.file, group.place.function) if group.place and not group.waits_in else None


def _place(group: Group) -> str:
    return group.waits_in or str(group.place or "no frame")


def world(nodes: Sequence[NodeRanks]) -> int | None:
    """Return how many ranks the run has, as its processes were told."""
    sizes = {count(each.env.get("WORLD_SIZE", "")) for node in nodes for each in node.processes} - {None}
    return sizes.pop() if len(sizes) == 1 else None


def _of_nccl(nodes: Sequence[NodeRanks], accused: Sequence[Accused]) -> Iterator[Suspect]:
    names = _names(nodes)
    known = {(node.node, pid): each for node in nodes for each in node.processes for pid in each.pids}
    size = world(nodes)
    for each in dict.fromkeys(accused):
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
    if each.looks:
        return f"has launched fewer operations than the others in {each.looks} of {LOOKS} looks", FAIR
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
    """Return nodes by address, where only one has it."""
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
    """Accuse ranks that no node has, where most are there."""
    size = world(nodes)
    there = {each.rank for node in nodes for each in node.processes if each.rank is not None}
    gone = sorted(set(range(min(size or 0, 100_000))) - there)
    if there and 2 * len(gone) <= len(there):
        yield from (Suspect(CAUSE, "has no process any more", SURE, rank) for rank in gone)
