"""Reports of NCCL's RAS subsystem (2.24 and later) on a job, as the text that people read.

It tells of every communicator how many operations of each kind its ranks have launched, and names ranks only
where they are fewer than half: of the others it gives numbers. Until 2.25 all kinds were counted as one
("collective"). Lines that are not known are passed over: each release has others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdogd.errors import UnreadableError
from watchdogd.system.number import digits

BEHIND, AHEAD, INSTEAD, ABSENT = "behind", "ahead", "instead", "absent"
_HEAD = re.compile(r"(?:NCCL version (\S+)|Job summary$|Communicators\.\.\.)")
_ROW = re.compile(r"\s*(\d+)  +\d+  +\d+  +[\d-]+  +(\d+)  +\d+  +\w+  +[A-Z,]+$")
_COMMUNICATOR = re.compile(r"#(\d+)-(\d+) \(([0-9a-f]+)\) (\w+)$")
_KIND = re.compile(r"  Communicator ranks have different (\w+) operation counts$")
_NONE = "have not launched any operations"
_RANKS = re.compile(rf"  (\d+) ranks (?:have launched up to operation (\d+)|{_NONE})$")
_RANK = re.compile(
    r"  Rank (\d+)(?: has launched up to operation (\d+)| has not launched (any) operations| has status \w+)?"
    r" -- "
    r"(?:GPU (\d+)(?: \(NVML (\d+)\))? managed by process (\d+) on node (\S+)|\[process)"
)
_PROCESS = re.compile(r"  Process (\d+) on node (\S+) managing GPUs? (\d[\d,]*)(?: \(NVML (\d[\d,]*)\))?")
_MISSING = re.compile(r"  The missing ranks?: (\d[\d,]*)$")
_TIMEOUTS = re.compile(r"  Encountered (\d+) communication timeouts?")


@dataclass(frozen=True, slots=True)
class RasMember:
    """One rank of a communicator, or (`rank` None) a process.

    `gpu` is as nvidia-smi counts it, `host` an address; what is not told is None or empty. `counts`:
    operations launched, by kind. `dead`: given up.
    """

    rank: int | None
    host: str = ""
    pid: int | None = None
    gpu: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    dead: bool = False

    @property
    def process(self) -> tuple[str, int | None, int | None] | None:
        """Host, process and GPU, the same in all communicators; None where they are not known."""
        return (self.host, self.pid, self.gpu) if self.pid is not None else None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator and what its members launched.

    `size` is None where it is not told. `launched`: how many ranks launched how many operations, by kind.
    `absent` did not answer."""

    name: str
    size: int | None = None
    members: tuple[RasMember, ...] = ()
    absent: tuple[RasMember, ...] = ()
    launched: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer. `absent` are processes that did not answer; `timeouts`: how often RAS waited in vain."""

    version: str = ""
    communicators: tuple[Communicator, ...] = ()
    absent: tuple[RasMember, ...] = ()
    timeouts: int = 0

    @property
    def counts(self) -> tuple[object, ...]:
        """Numbers of operations: a later answer differs where anything was launched meanwhile."""
        return tuple(
            (each.name, kind, tuple(sorted(ranks.items())))
            for each in self.communicators
            for kind, ranks in sorted(each.launched.items())
        )


@dataclass(frozen=True, slots=True)
class Accused:
    """A rank that holds others up, and `how`.

    behind: it has not entered operation `number` of `kind`, which the others have, `by` are missing;
    ahead: it alone has entered `number`; instead: it entered `other` in place of that; absent: no answer.
    `looks`: in how many of several looks it was behind, where counts grow.
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


def read(text: str) -> RasReport:
    """UnreadableError where it is no answer of RAS."""
    reading = _Reading()
    for line in text.splitlines():
        reading.take(line.rstrip())
    if not reading.begun:
        raise UnreadableError(f"no answer of NCCL's RAS: {text[:80]!r}")
    return reading.report()


def accused(report: RasReport) -> tuple[Accused, ...]:
    """Return the ranks that hold others up; none where all have launched the same.

    A rank that is behind in one communicator only since it waits in another one is held up itself.
    """
    found: list[Accused] = []
    waiting: dict[object, set[str]] = defaultdict(set)
    for each in report.communicators:
        said, ahead = _unequal(each)
        found += said
        for member in ahead:
            waiting[member.process].add(each.name)
    causes = [each for each in found if not _is_held_up(each, waiting)] or found
    named = {each.member.process for each in causes}
    gone = [Accused(ABSENT, each) for each in report.absent if each.process not in named]
    return _once([*causes, *gone])


def _is_held_up(each: Accused, waiting: Mapping[object, set[str]]) -> bool:
    process = each.member.process
    return (
        each.how == BEHIND and process is not None and bool(waiting.get(process, set()) - {each.communicator})
    )


def _once(found: Sequence[Accused]) -> tuple[Accused, ...]:
    """Keep for each process the accusation that says most: no answer, another operation, most behind."""
    order = {ABSENT: 0, INSTEAD: 1, BEHIND: 2, AHEAD: 3}
    best: dict[object, Accused] = {}
    for each in sorted(found, key=lambda each: (order[each.how], -each.by)):
        best.setdefault(each.member.process or (each.communicator, each.member.rank), each)
    return tuple(replace(each, member=replace(each.member, counts={})) for each in best.values())


def _unequal(comm: Communicator) -> tuple[list[Accused], list[RasMember]]:
    """Whom one communicator accuses, and who waits in it."""
    absent = [Accused(ABSENT, each, comm.name, comm.size) for each in comm.absent]
    behind: dict[int | None, Accused] = {}
    ahead: dict[int | None, tuple[RasMember, str]] = {}
    few: list[Accused] = []
    for kind, ranks in sorted(comm.launched.items()):
        if len(ranks) < 2:
            continue
        top, total = max(ranks), sum(ranks.values())
        late = [each for each in comm.members if kind in each.counts and each.counts[kind] < top]
        first = [each for each in comm.members if each.counts.get(kind) == top]
        ahead |= {each.rank: (each, kind) for each in first}
        if 2 * (total - ranks[top]) <= total:
            for each in late:
                own = each.counts[kind]
                behind[each.rank] = Accused(BEHIND, each, comm.name, comm.size, kind, own + 1, top - own)
        else:
            few += [Accused(AHEAD, each, comm.name, comm.size, kind, top) for each in first]
    swapped = [
        replace(each, how=INSTEAD, other=f"{ahead[rank][1]} {ahead[rank][0].counts[ahead[rank][1]]}")
        if rank in ahead
        else each
        for rank, each in behind.items()
    ]
    alone = [each for each in few if each.member.rank not in behind]
    waits = [each for rank, (each, _) in ahead.items() if rank not in behind]
    return [*absent, *swapped, *alone], waits


class _Reading:
    """The text form, a line at a time."""

    def __init__(self) -> None:
        self.begun = False
        self._version = ""
        self._sizes: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._members: dict[str, dict[int, RasMember]] = {}
        self._launched: dict[str, dict[str, dict[int, int]]] = {}
        self._missing: dict[str, dict[int, RasMember]] = {}
        self._absent: list[RasMember] = []
        self._timeouts = 0
        self._hash = self._section = self._kind = ""
        self._launch: int | None = None

    def take(self, line: str) -> None:
        if not line.startswith(" "):
            self._heading(line)
        elif row := _ROW.match(line):
            self._sizes[row[1]] = digits(row[2])
        elif kind := _KIND.match(line):
            self._kind, self._launch = kind[1], None
        elif self._kind and (ranks := _RANKS.match(line)):
            self._launch = digits(ranks[2] or "0")
            self._note(self._launch, digits(ranks[1]))
        elif rank := _RANK.match(line):
            self._rank(rank)
        else:
            self._other(line)

    def report(self) -> RasReport:
        names = dict.fromkeys([*self._launched, *self._members, *self._missing])
        found = [
            Communicator(
                name,
                self._sizes.get(self._names.get(name, "")),
                tuple(self._members.get(name, {}).values()),
                tuple(self._missing.get(name, {}).values()),
                self._launched.get(name, {}),
            )
            for name in names
        ]
        if len(self._absent) == 1:  # until 2.25 one list has their numbers, the other their processes
            found = [replace(each, absent=tuple(map(self._known, each.absent))) for each in found]
        return RasReport(self._version, tuple(found), tuple(self._absent), self._timeouts)

    def _known(self, member: RasMember) -> RasMember:
        return replace(self._absent[0], rank=member.rank) if member.pid is None else member

    def _heading(self, line: str) -> None:
        if head := _HEAD.match(line):
            self.begun, self._version = True, head[1] or self._version
        if line:
            self._kind, self._launch = "", None
        if comm := _COMMUNICATOR.match(line):
            self._hash, self._section = comm[3], comm[4]
            self._names[comm[3]] = comm[1]
        elif line.isupper():
            self._hash, self._section = "", line

    def _rank(self, rank: re.Match[str]) -> None:
        number, gpu = digits(rank[1]), rank[5] or rank[4]
        pid = digits(rank[6]) if rank[6] else None
        member = RasMember(number, rank[7] or "", pid, digits(gpu) if gpu else None)
        if self._section == "INCOMPLETE" and self._hash:
            self._missing.setdefault(self._hash, {})[number] = member
        elif self._kind and self._hash:
            launched = digits(rank[2]) if rank[2] else 0 if rank[3] else self._launch
            if rank[2] or rank[3]:
                self._note(launched or 0, 1)
            if launched is not None:
                known = self._members.setdefault(self._hash, {}).get(number, member)
                self._members[self._hash][number] = replace(
                    known, counts={**known.counts, self._kind: launched}
                )

    def _note(self, launched: int, ranks: int) -> None:
        kinds = self._launched.setdefault(self._hash, {}).setdefault(self._kind, {})
        kinds[launched] = kinds.get(launched, 0) + ranks

    def _other(self, line: str) -> None:
        if process := _PROCESS.match(line):
            gpu = (process[4] or process[3]).partition(",")[0]
            dead = self._section == "DEAD"
            self._absent.append(RasMember(None, process[2], digits(process[1]), digits(gpu), dead=dead))
        elif missing := _MISSING.match(line):
            for rank in missing[1].split(","):
                self._missing.setdefault(self._hash, {})[digits(rank or "0")] = RasMember(digits(rank or "0"))
        elif times := _TIMEOUTS.match(line):
            self._timeouts = digits(times[1])
