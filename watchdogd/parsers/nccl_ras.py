"""Reports of NCCL's RAS subsystem (2.24 and later) on a job, and whom they accuse.

They tell of every communicator how many operations of each kind its ranks have launched. Ranks launch ahead
of what their GPUs do, so that only who has launched fewest holds the others up: they all wait for that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from watchdogd.parsers import nccl_ras_json, nccl_ras_text
from watchdogd.parsers.nccl_ras_models import Communicator, RasMember, RasReport

BEHIND, AHEAD, INSTEAD, ABSENT = "behind", "ahead", "instead", "absent"
STATE, ERROR = "state", "error"
_FIRST = (ABSENT, INSTEAD, BEHIND, ERROR, STATE, AHEAD)
"""What says most, first."""
_ALIKE = 8
"""Processes of whom communicators disagree that are all accused: of more it is those of most."""
_HOLDING = (ABSENT, INSTEAD, BEHIND)
_BAD_STATES = ("ABORT", "NOCOMM", "INIT")
_EFFECT = "Remote process error"
"""What those report whose peer has failed."""


@dataclass(frozen=True, slots=True)
class Accused:
    """A rank that holds others up, and `how`.

    behind: it has not entered operation `number` of `kind`, which the others have, `by` are missing;
    ahead: it has entered `number`, and most, or the only other, have not; absent: no answer;
    instead: it entered `other` in place of that;
    state: it is in state `other`, most are in `kind`; error: it has reported `other`.
    `looks`: in how many of several looks it was behind, where counts grow. `unsure`: it may be held up
    itself, or something else contradicts; `held`: it rather is.
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
        """The process, else the rank in the communicator."""
        return self.member.process or (self.communicator, self.member.rank)

    @property
    def charge(self) -> Hashable:
        """The charge by which two looks are compared."""
        return self.how, self.process, self.communicator, self.kind, self.number, self.other


def read(text: str) -> RasReport:
    """Read either form. UnreadableError where it is no answer of RAS."""
    return nccl_ras_json.read(text[place:]) if (place := _object(text)) >= 0 else nccl_ras_text.read(text)


def _object(text: str) -> int:
    """Return where a JSON object begins a line before any line of the text form does; else -1."""
    place = 0 if text.startswith("{") else text.find("\n{") + 1
    return place if text.startswith("{", place) and "NCCL version" not in text[:place] else -1


def agreed(reports: Sequence[RasReport]) -> tuple[Accused, ...]:
    """Return whom the first look and the last accuse alike, in communicators whose counts stand still.

    One look alone is not sure, nor is any while something moves.
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
    """Return the communicators whose counts differ between the first look and the last."""
    return {name for name, *_ in set(reports[0].counts) ^ set(reports[-1].counts)} if reports else set()


def _without(report: RasReport, names: set[str]) -> RasReport:
    return replace(
        report, communicators=tuple(each for each in report.communicators if each.name not in names)
    )


def accused(report: RasReport) -> tuple[Accused, ...]:
    """Return the ranks that hold others up; none where all have launched the same."""
    found: list[tuple[int, Accused]] = []
    waiting: dict[Hashable, set[int]] = defaultdict(set)
    for place, comm in enumerate(report.communicators):
        found += [(place, each) for each in (*_absent(comm), *_unequal(comm), *_troubled(comm))]
        for member in _waiting(comm):
            waiting[member.process].add(place)
    free = [(place, each) for place, each in found if not _is_held_up(place, each, waiting)] or found
    unlisted = {place: _unlisted(comm) for place, comm in enumerate(report.communicators)}
    return _once(_causes(free, unlisted))


def _is_held_up(place: int, each: Accused, waiting: Mapping[Hashable, set[int]]) -> bool:
    """Return whether it is behind in one communicator only since it waits in another one."""
    process = each.member.process
    return each.how == BEHIND and process is not None and bool(waiting.get(process, set()) - {place})


def _unlisted(comm: Communicator) -> float:
    """Return how many of its ranks RAS does not name."""
    return inf if comm.size is None else comm.size - len(comm.members) - len(comm.absent)


def _causes(found: Sequence[tuple[int, Accused]], unlisted: Mapping[int, float]) -> list[Accused]:
    """Part those in whom the communicators agree most from those who may wait for them.

    Ranks that RAS does not list may wait in one communicator and be behind in the next. So where different
    ones accuse different processes, it is who does not answer, else who is behind in most of them, and not
    for sure. A few others are accused alike where they are more than can wait for those.
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
    """Keep for each process the accusation that says most: no answer, another operation, most behind."""
    best: dict[Hashable, Accused] = {}
    for each in sorted(found, key=lambda each: (_FIRST.index(each.how), -each.by)):
        best.setdefault(each.process, each)
    return tuple(replace(each, member=replace(each.member, counts={})) for each in best.values())


def _absent(comm: Communicator) -> Iterator[Accused]:
    """Accuse who does not answer; where most do not, it is the one that was asked who is cut off."""
    if comm.size is None or 2 * len(comm.absent) <= comm.size:
        doubt = comm.size is not None and 2 * len(comm.absent) == comm.size
        for each in comm.absent:
            yield Accused(ABSENT, each, comm.name, comm.size, unsure=doubt)


def _troubled(comm: Communicator) -> Iterator[Accused]:
    """Accuse the few in a state that is none to work in, and the few that report an error of their own."""
    usual = max(comm.states, key=lambda state: comm.states[state], default="")
    for each, state in comm.odd:
        if state in _BAD_STATES and state != usual and 2 * comm.states[state] <= sum(comm.states.values()):
            yield Accused(STATE, each, comm.name, comm.size, usual, other=state, unsure=True)
    errors = [(each, error) for each, error in comm.errors if error != _EFFECT]
    if comm.size is None or 2 * len(errors) <= comm.size:
        for each, error in errors:
            yield Accused(ERROR, each, comm.name, comm.size, other=error, unsure=True)


def _waiting(comm: Communicator) -> Iterator[RasMember]:
    """Return who waits here: who has launched what others have not, and is itself behind in nothing."""
    uneven = {kind: min(ranks) for kind, ranks in comm.launched.items() if len(ranks) > 1}
    for each in comm.members:
        own = {kind: each.counts[kind] for kind in uneven if kind in each.counts}
        if own and all(count > uneven[kind] for kind, count in own.items()):
            yield each


def _unequal(comm: Communicator) -> list[Accused]:
    """Accuse who launched fewest.

    Where most did, those who launched most may do what nobody else does; so may the other one of two.
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
            scattered = 2 * ranks[usual] < total  # nothing that most have in common
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
    """Hold to who launched more of all kinds that it went on: where each entered what the other did not."""
    sums = [sum(each.member.counts.values()) for each in swapped]
    if [each.how for each in swapped] != [INSTEAD, INSTEAD] or len(set(sums)) == 1:
        return swapped
    return [
        replace(each, unsure=True, held=launched == max(sums))
        for each, launched in zip(swapped, sums, strict=True)
    ]


def _usual(ranks: Mapping[int, int]) -> int:
    """Return what at least half of the ranks have launched, of two halves the greater."""
    seen = 0
    for launched in sorted(ranks):
        seen += ranks[launched]
        if 2 * seen > sum(ranks.values()):
            return launched
    return max(ranks)
