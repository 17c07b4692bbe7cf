"""Suspects of a stall: from the accusations of all sources to a verdict. Pure.

Accusations of one rank by different sources are joined: by its number, its process, its GPU. The suspect with
the strongest accusation is named; of several, those whom most sources name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchdogd.batch.run_models import ASIDE, SURE, WEAK, Suspect
from watchdogd.stacks import stack_folding

CAUSE = "process"
"""The source that knows the reason, where other equally certain ones only see consequences."""
NAMED = 8
"""Suspects that are named one by one; more are given as a range or a number."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """One rank, process, GPU or node, as far as known; `said`: accusations of it, strongest first."""

    said: tuple[Suspect, ...]
    rank: int | None = None
    node: str = ""
    gpu: int | None = None
    pid: int | None = None

    @property
    def weight(self) -> tuple[int, int]:
        """Return the strength of its strongest accusation, and how many sources accuse it."""
        return self.said[0].strength, len({each.source for each in self.said if each.strength > ASIDE})

    @property
    def is_node(self) -> bool:
        """True if nothing but its node is known."""
        return self.rank is None and self.gpu is None and self.pid is None

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
    """Verdict: `culprits` are named; `others` are accused too."""

    culprits: tuple[Culprit, ...] = ()
    others: tuple[Culprit, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that name a culprit, strongest first."""
        return tuple(dict.fromkeys(said.source for each in self.culprits for said in each.said))

    @property
    def sure(self) -> bool:
        """True if the evidence is strong: one source is certain, or two agree, and none objects."""
        if not self.culprits or any(said.strength > WEAK for _, said in self._objections()):
            return False
        said = [each for each in self.culprits[0].said if each.strength > WEAK]
        return self.culprits[0].weight[0] >= SURE or len({each.source for each in said}) > 1

    def words(self) -> str:
        """Return it for a first line: who, doing what, and who contradicts; empty if nobody is accused."""
        if not self.culprits:
            return ""
        parts = [_sentence(self.culprits)]
        parts += [f"but by {said.source} {each} {said.what}" for each, said in self._contradiction()]
        return "; ".join(parts)

    def lines(self) -> Iterator[str]:
        """Return all accusations, one on each line."""
        for each in (*self.culprits, *self.others):
            for said in each.said:
                yield f"{said.source}: {each} {said.what}"

    def _contradiction(self) -> list[tuple[Culprit, Suspect]]:
        """Return the first one accused by each source that accuses somebody else."""
        found: dict[str, tuple[Culprit, Suspect]] = {}
        for each, said in self._objections():
            found.setdefault(said.source, (each, said))
        return list(found.values())

    def _objections(self) -> Iterator[tuple[Culprit, Suspect]]:
        """Yield accusations of others by sources that say less, or nothing, about the culprits.

        It is no objection if a source accuses several and another one names the culprit among them, or if it
        accuses the culprit's node.
        """
        heard: dict[str, int] = {}
        for said in (said for each in self.culprits for said in each.said):
            heard[said.source] = max(heard.get(said.source, 0), said.strength)
        nodes = {short(each.node) for each in self.culprits}
        for each in self.others:
            for said in each.said:
                about_node = each.is_node and short(each.node) in nodes
                if said.strength > heard.get(said.source, 0) and not about_node:
                    yield each, said


def merge(suspects: Iterable[Suspect]) -> Suspicion:
    """Join accusations of the same suspect, and judge."""
    found = sorted(map(_culprit, _joined(list(dict.fromkeys(suspects)))), key=_order)
    if not found:
        return Suspicion()
    best = found[0].weight
    heard = {said.source for said in found[0].said}
    named = [each for each in found if each.weight == best and heard & {said.source for said in each.said}]
    return Suspicion(tuple(named), tuple(each for each in found if each not in named))


def _order(each: Culprit) -> tuple[int, int, int, str]:
    strength, sources = each.weight
    return -strength, -sources, -1 if each.rank is None else each.rank, each.node


def _keys(suspect: Suspect) -> Iterator[Hashable]:
    if suspect.rank is not None:
        yield "rank", suspect.rank
    if suspect.pid is not None:
        yield "pid", short(suspect.node), suspect.pid
    if suspect.gpu is not None and suspect.node:
        yield "gpu", short(suspect.node), suspect.gpu
    if suspect.rank is None and suspect.pid is None and suspect.gpu is None:
        yield "node", short(suspect.node)


def short(node: str) -> str:
    """Return a host name without its domain; an address stays as it is."""
    return node if node[:1].isdigit() or ":" in node else node.partition(".")[0]


def _joined(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """Join those with the same rank, process or GPU, also via a third one; two ranks stay two."""
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
    """Return one clause for all suspects with the same first accusation."""
    groups: dict[str, list[Culprit]] = defaultdict(list)
    for each in culprits:
        groups[each.said[0].what].append(each)
    return "; ".join(f"{who(group)} {what}" for what, group in groups.items())


def who(group: Sequence[Culprit]) -> str:
    """Return `rank 137 (node n017, GPU 1)`, `each of ranks 136-139 (node n017)`, `each of 70 ranks`."""
    if len(group) == 1:
        return str(group[0])
    kind, told = _numbers(group)
    names = stack_folding.names(each.node for each in group if each.node)
    where = f" ({'nodes' if len({each.node for each in group}) > 1 else 'node'} {names})" if names else ""
    if told and len(told) <= 40 and len(where) <= 60:
        return f"each of {kind} {told}{where}"
    if len(group) <= NAMED:
        return "each of " + ", ".join(map(str, group))
    return f"each of {len(group)} {kind}"


def _numbers(group: Sequence[Culprit]) -> tuple[str, str]:
    """Return what they are, and their numbers, where those tell who they are."""
    ranks = [each.rank for each in group if each.rank is not None]
    gpus = [each.gpu for each in group if each.gpu is not None]
    if len(ranks) == len(group):
        return "ranks", stack_folding.numbers(ranks)
    if not ranks and len(gpus) == len(group):
        alone = len({each.node for each in group}) == 1
        return "GPUs", stack_folding.numbers(gpus) if alone else ""
    return ("nodes" if all(each.is_node for each in group) else "suspects"), ""
