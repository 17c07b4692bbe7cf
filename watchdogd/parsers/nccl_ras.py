"""Ranks that reports of NCCL's RAS subsystem make suspect. Pure.

For each communicator a report gives the number of operations of each kind that its ranks have launched. Ranks
launch operations ahead of their GPUs, so a rank that has launched more is not to blame: the ranks that have
launched fewest hold up the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from watchdogd.parsers.nccl_ras_reports import Communicator, RasMember, RasReport

BEHIND, AHEAD, INSTEAD, ABSENT = "behind", "ahead", "instead", "absent"
STATE, ERROR = "state", "error"
_FIRST = (ABSENT, INSTEAD, BEHIND, ERROR, STATE, AHEAD)
"""Accusations from the strongest to the weakest."""
_ALIKE = 8
"""If communicators accuse different processes, all are equally suspect up to this many; beyond it, those that
most communicators accuse."""
_HOLDING = (ABSENT, INSTEAD, BEHIND)
_BAD_STATES = ("ABORT", "NOCOMM", "INIT")
_EFFECT = "Remote process error"
"""Error that ranks report if a peer of theirs has failed: a consequence, not a cause."""


@dataclass(frozen=True, slots=True)
class Accused:
    """A rank that holds others up, and `how`.

    BEHIND: it has not entered operation `number` of `kind`, which the others have; it lacks `by` operations.
    AHEAD: it has entered operation `number`; most others (or the only other one) have not.
    INSTEAD: it has entered `other` in place of that operation.
    ABSENT: it does not answer.
    STATE: it is in state `other`, while most ranks are in state `kind`.
    ERROR: it has reported the error `other`.

    `looks` counts the reports, out of several, in which it was behind, for communicators whose counts grow.
    `unsure`: other evidence contradicts this, or the rank may itself be waiting; `held`: it probably is
    waiting.
    """

    how: str
    member: RasMember
    communicator: str = ""
    size: int | None = None
    kind: str = ""
    number: int = 0
    by: int = 0
    other: str = ""
    looks: int = 0
    unsure: bool = False
    held: bool = False

    @property
    def process(self) -> Hashable:
        """The process; if unknown, the rank in its communicator."""
        return self.member.process or (self.communicator, self.member.rank)

    @property
    def charge(self) -> Hashable:
        """Key by which accusations of two reports are compared."""
        return self.how, self.process, self.communicator, self.kind, self.number, self.other


def agreed(reports: Sequence[RasReport]) -> tuple[Accused, ...]:
    """Return the accusations on which the first and the last report agree.

    Communicators whose counts changed in between are left out. With a single report, or while anything still
    moves, every accusation is unsure.
    """
    if not reports:
        return ()
    first, last = reports[0], reports[-1]
    moved = moving(reports)
    before = {each.charge for each in accused(_without(first, moved))}
    doubt = bool(moved) or len(reports) < 2
    return tuple(
        replace(each, unsure=each.unsure or doubt)
        for each in accused(_without(last, moved))
        if each.charge in before
    )


def moving(reports: Sequence[RasReport]) -> set[str]:
    """Return the communicators whose counts differ between the first and the last report."""
    return {name for name, *_ in set(reports[0].counts) ^ set(reports[-1].counts)} if reports else set()


def _without(report: RasReport, names: set[str]) -> RasReport:
    return replace(
        report, communicators=tuple(each for each in report.communicators if each.name not in names)
    )


def accused(report: RasReport) -> tuple[Accused, ...]:
    """Return the ranks that hold others up, according to one report; none if all have launched the same."""
    found: list[tuple[int, Accused]] = []
    waiting: dict[Hashable, set[int]] = defaultdict(set)
    for place, comm in enumerate(report.communicators):
        found += [(place, each) for each in (*_absent(comm), *_unequal(comm), *_troubled(comm))]
        for member in _waiting(comm):
            waiting[member.process].add(place)
    free = [(place, each) for place, each in found if not _is_held_up(place, each, waiting)] or found
    unlisted = {
        place: inf if comm.size is None else comm.size - len(comm.members) - len(comm.absent)
        for place, comm in enumerate(report.communicators)
    }
    return _once(_causes(free, unlisted))


def _is_held_up(place: int, each: Accused, waiting: Mapping[Hashable, set[int]]) -> bool:
    """Return True if the process is behind in one communicator only because it waits in another."""
    process = each.member.process
    return each.how == BEHIND and process is not None and bool(waiting.get(process, set()) - {place})


def _causes(found: Sequence[tuple[int, Accused]], unlisted: Mapping[int, float]) -> list[Accused]:
    """Separate the most likely causes from processes that may merely wait for them (`held`).

    A rank that RAS does not list may wait in one communicator and therefore be behind in the next. So if
    communicators accuse different processes, the cause is the process that does not answer, else the one that
    is behind in most communicators, and only as `unsure`. A few processes are all accused alike if there are
    more of them than ranks that could wait for the cause.
    """
    strong = [(place, each) for place, each in found if each.how in _HOLDING]
    by_comm: dict[int, set[Hashable]] = defaultdict(set)
    comms: dict[Hashable, set[int]] = defaultdict(set)
    absent = {each.process for _, each in strong if each.how == ABSENT}
    for place, each in strong:
        by_comm[place].add(each.process)
        comms[each.process].add(place)
    if len({frozenset(processes) for processes in by_comm.values()}) < 2:
        return [each for _, each in found]
    weight = {process: (process in absent, len(places)) for process, places in comms.items()}
    most = max(weight.values())
    first = {process for process, each in weight.items() if each == most}
    waiting = sum(unlisted[place] for place in {place for process in first for place in comms[process]})
    alike = waiting < len(comms) - len(first) and len(comms) <= _ALIKE
    return [
        replace(each, unsure=True, held=each.how in _HOLDING and each.process not in first and not alike)
        for _, each in found
    ]


def _once(found: Sequence[Accused]) -> tuple[Accused, ...]:
    """Keep the strongest accusation of each process; of equal ones, the furthest behind."""
    best: dict[Hashable, Accused] = {}
    for each in sorted(found, key=lambda each: (_FIRST.index(each.how), -each.by)):
        best.setdefault(each.process, each)
    return tuple(replace(each, member=replace(each.member, counts={})) for each in best.values())


def _absent(comm: Communicator) -> Iterator[Accused]:
    """Accuse ranks that do not answer; if most do not, the rank that was asked is the one cut off."""
    if comm.size is None or 2 * len(comm.absent) <= comm.size:
        doubt = comm.size is not None and 2 * len(comm.absent) == comm.size
        for each in comm.absent:
            yield Accused(ABSENT, each, comm.name, comm.size, unsure=doubt)


def _troubled(comm: Communicator) -> Iterator[Accused]:
    """Accuse ranks in a bad state or with an error of their own, as long as they are a minority."""
    usual = max(comm.states, key=lambda state: comm.states[state], default="")
    for each, state in comm.odd:
        if state in _BAD_STATES and state != usual and 2 * comm.states[state] <= sum(comm.states.values()):
            yield Accused(STATE, each, comm.name, comm.size, usual, other=state, unsure=True)
    errors = [(each, error) for each, error in comm.errors if error != _EFFECT]
    if comm.size is None or 2 * len(errors) <= comm.size:
        for each, error in errors:
            yield Accused(ERROR, each, comm.name, comm.size, other=error, unsure=True)


def _waiting(comm: Communicator) -> Iterator[RasMember]:
    """Yield the ranks that wait here: they have launched something others have not, and lag in nothing."""
    uneven = {kind: min(ranks) for kind, ranks in comm.launched.items() if len(ranks) > 1}
    for each in comm.members:
        own = {kind: each.counts[kind] for kind in uneven if kind in each.counts}
        if own and all(count > uneven[kind] for kind, count in own.items()):
            yield each


def _unequal(comm: Communicator) -> list[Accused]:
    """Accuse the ranks that have launched fewest operations.

    If those are the majority, accuse the ranks that have launched most: they may do something that no other
    rank does. Of two ranks, either may be at fault.
    """
    behind: dict[int | None, Accused] = {}
    ahead: dict[int | None, tuple[int, str]] = {}
    few: list[Accused] = []
    for kind, ranks in sorted(comm.launched.items()):
        if len(ranks) < 2:
            continue
        low, top, usual, total = min(ranks), max(ranks), _usual(ranks), sum(ranks.values())
        first = [each for each in comm.members if each.counts.get(kind) == top]
        ahead |= {each.rank: (top, kind) for each in first}
        if 2 * ranks[low] <= total:
            charge = kind, low + 1, usual - low
            scattered = 2 * ranks[usual] < total  # no count that most have in common
            for each in comm.members:
                if each.counts.get(kind) == low:
                    behind[each.rank] = Accused(BEHIND, each, comm.name, comm.size, *charge, unsure=scattered)
        if 2 * ranks[low] > total or total == len(ranks) == 2:
            few += [Accused(AHEAD, each, comm.name, comm.size, kind, top) for each in first]
    swapped = [
        replace(each, how=INSTEAD, other=f"{ahead[rank][1]} {ahead[rank][0]}") if rank in ahead else each
        for rank, each in behind.items()
    ]
    swapped = _of_two(swapped) if len(comm.members) == 2 else swapped
    return [*swapped, *(each for each in few if each.member.rank not in behind)]


def _of_two(swapped: list[Accused]) -> list[Accused]:
    """Mark the rank that launched more in total as held up, if each of two entered what the other did not."""
    sums = [sum(each.member.counts.values()) for each in swapped]
    if [each.how for each in swapped] != [INSTEAD, INSTEAD] or len(set(sums)) == 1:
        return swapped
    return [
        replace(each, unsure=True, held=launched == max(sums))
        for each, launched in zip(swapped, sums, strict=True)
    ]


def _usual(ranks: Mapping[int, int]) -> int:
    """Return the number of launched operations that at least half of the ranks reached (the upper median)."""
    seen = 0
    for launched in sorted(ranks):
        seen += ranks[launched]
        if 2 * seen > sum(ranks.values()):
            return launched
    return max(ranks)
