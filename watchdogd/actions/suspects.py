"""Who holds a run up, of all that several sources say: pure, from accusations to a verdict in words.

What different sources say of one rank is put together: by its number, by its process, by its GPU. The one of
whom the strongest is said is named, and of several those whom most sources name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchdogd.batch.run_models import SURE, WEAK, Suspect
from watchdogd.stacks import ranges

CAUSE = "process"
"""The source that says why, where others that are as sure say what follows from it."""
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
        """`rank 137 (node n017, GPU 1)`."""
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
    """One clause for all of whom the same is said first."""
    groups: dict[str, list[Culprit]] = defaultdict(list)
    for each in culprits:
        groups[each.said[0].what].append(each)
    return "; ".join(f"{who(group)} {what}" for what, group in groups.items())


def who(group: Sequence[Culprit]) -> str:
    """`rank 137 (node n017, GPU 1)`, `each of ranks 136-139 (node n017)`, `each of 70 ranks`."""
    if len(group) == 1:
        return str(group[0])
    ranks = [each.rank for each in group if each.rank is not None]
    nodes = ranges.names(each.node for each in group if each.node)
    where = f" ({'nodes' if len({each.node for each in group}) > 1 else 'node'} {nodes})" if nodes else ""
    if len(ranks) == len(group) and len(ranges.numbers(ranks)) <= 40 and len(where) <= 60:
        return f"each of ranks {ranges.numbers(ranks)}{where}"
    if len(group) <= NAMED:
        return "each of " + ", ".join(map(str, group))
    return f"each of {len(group)} {'ranks' if len(ranks) == len(group) else 'suspects'}"
