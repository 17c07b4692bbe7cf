"""Reports of NCCL's RAS subsystem (NCCL 2.24 and later), as text or JSON: what ranks have launched.

JSON (2.28.7 and later) lists every rank of every communicator. The text lists ranks one by one only where
they are a minority, and gives only the number of the others; up to 2.25 all kinds of operations were counted
together ("collective"). Unknown lines are skipped, since each release adds some.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.system.number import digits, whole
from watchdogd.system.smallfile import parse_json
from watchdogd.system.text import split_lines


@dataclass(frozen=True, slots=True)
class RasMember:
    """One rank of a communicator; or, if `rank` is None, a process.

    `host` is an address, `gpu` the number that nvidia-smi gives it; None or empty if not reported. `counts`
    is the number of launched operations by kind. `dead`: RAS has given the process up.
    """

    rank: int | None
    host: str = ""
    pid: int | None = None
    gpu: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)
    dead: bool = False

    @property
    def process(self) -> tuple[str, int | None, int | None] | None:
        """Host, process id and GPU: the same in all communicators. None if not known."""
        return (self.host, self.pid, self.gpu) if self.pid is not None else None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator, and what its members have launched.

    `size` is None if not reported. `launched` maps each kind of operation to how many ranks have launched how
    many. `absent` are the ranks that did not answer. `states` counts the ranks in each state; `odd` lists
    those whose state is reported one by one. `errors` are the errors that ranks reported.
    """

    name: str
    size: int | None = None
    members: tuple[RasMember, ...] = ()
    absent: tuple[RasMember, ...] = ()
    launched: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    odd: tuple[tuple[RasMember, str], ...] = ()
    errors: tuple[tuple[RasMember, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RasReport:
    """One report. `absent` are the processes that did not answer.

    `gpus` is the number of GPUs of the job, as far as its processes know of one another; 0 if not reported.
    """

    version: str = ""
    communicators: tuple[Communicator, ...] = ()
    absent: tuple[RasMember, ...] = ()
    gpus: int = 0

    @property
    def even(self) -> bool:
        """True if all ranks answer, without errors, and have launched the same."""
        return not self.absent and not any(
            each.absent or each.errors or any(len(ranks) > 1 for ranks in each.launched.values())
            for each in self.communicators
        )

    @property
    def counts(self) -> tuple[tuple[str, str, tuple[tuple[int, int], ...]], ...]:
        """All counts of operations: two reports differ here if anything was launched in between."""
        return tuple(
            (each.name, kind, tuple(sorted(ranks.items())))
            for each in self.communicators
            for kind, ranks in sorted(each.launched.items())
        )


def read(text: str) -> RasReport:
    """Read a report in either format, text or JSON. Raise UnreadableError if it is not a report of RAS."""
    return _read_json(text[place:]) if (place := _object(text)) >= 0 else _read_text(text)


def _object(text: str) -> int:
    """Return where the report's JSON object begins; -1 if there is none before the text format."""
    place = 0 if text.startswith("{") else text.find("\n{") + 1
    return place if text.startswith("{", place) and "NCCL version" not in text[:place] else -1


_ERRORS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
"""Values of ncclResult_t that are errors; 0 is success and 7 in progress."""


def _read_json(text: str) -> RasReport:
    """Read a report. Raise UnreadableError if it is not a report of RAS."""
    try:
        said = parse_json(text)
        comms = tuple(_communicator(each) for each in said["communicators"] if whole(each["size"]))
        return RasReport(str(said["nccl_version"]), comms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UnreadableError(f"no answer of NCCL's RAS: {text[:80]!r}") from None


def _communicator(said: Mapping[str, Any]) -> Communicator:
    size = whole(said["size"]) or 0
    there = [(each, member) for each in said["ranks"] if (member := _listed_member(each, size))]
    missing = [(each, member) for each in said["missing_ranks"] if (member := _listed_member(each, size))]
    states = [(member, _state(each["status"])) for each, member in there]
    states += [(member, "NOCOMM") for each, member in missing if not each["status"]["unresponsive"]]
    launched = {
        kind: Counter(member.counts[kind] for _, member in there if kind in member.counts)
        for kind in sorted({kind for _, member in there for kind in member.counts})
    }
    return Communicator(
        str(said["hash"]).removeprefix("0x"),
        size,
        tuple(member for _, member in there),
        tuple(member for each, member in missing if each["status"]["unresponsive"]),
        launched,
        Counter(state for _, state in states),
        tuple(states),
        tuple((member, error) for each, member in there for error in _errors(each["status"])),
    )


def _listed_member(said: Mapping[str, Any], size: int) -> RasMember | None:
    """Return a rank, or None if its number is not valid in a communicator of that size."""
    rank, pid, host = whole(said["rank"]), whole(said["pid"]), str(said["host"])
    gpu = whole(said.get("nvml_dev"))
    counts = {
        str(kind): number
        for kind, count in (said.get("collective_counts") or {}).items()
        if (number := whole(count)) is not None
    }
    if rank is None or not 0 <= rank < size:
        return None
    known = pid is not None and pid > 0
    return RasMember(
        rank,
        host.partition("%")[0] if known else "",
        pid if known else None,
        gpu if gpu is not None and gpu >= 0 else None,
        counts,
        bool(said["status"].get("considered_dead")),
    )


def _state(said: Mapping[str, Any]) -> str:
    if said["abort_flag"]:
        return "ABORT"
    if said["finalize_called"] or said["destroy_flag"]:
        return "FINALIZE"
    return "INIT" if said["init_state"] else "RUNNING"


def _errors(said: Mapping[str, Any]) -> Iterator[str]:
    for key in ("init_state", "async_error"):
        if error := _ERRORS.get(whole(said[key]) or 0):
            yield error
            return


_HEAD = re.compile(r"(?:NCCL version (\S+)|Job summary$|Communicators\.\.\.)")
_ROW = re.compile(r"\s*(\d+)  +\d+  +\d+  +[\d-]+  +(\d+)  +\d+  +(\w+)  +[A-Z,]+$")
_TOTALS = re.compile(r"\s*\d+  +\d+(?:  +\d+  +\d+)?  +(\d+)$")
_COMMUNICATOR = re.compile(r"#(\d+)-\d+ \(([0-9a-f]+)\) (\w+)$")
_KIND = re.compile(r"  Communicator ranks have different (\w+) operation counts$")
_STATUS = re.compile(r"  (\d+) ranks have status (\w+)$")
_REPORTED = re.compile(r"  \d+ ranks reported (.+)$")
_NONE = "have not launched any operations"
_RANKS = re.compile(rf"  (\d+) ranks (?:have launched up to operation (\d+)|{_NONE})$")
_RANK = re.compile(
    r"  Rank (\d+)(?: has launched up to operation (\d+)| has not launched (any) operations"
    r"| has status (\w+)| reported (.+?))?"
    r" -- "
    r"(?:GPU (\d+)(?: \(NVML (\d+)\))? managed by process (\d+) on node (\S+)|\[process)"
)
_PROCESS = re.compile(r"  Process (\d+) on node (\S+) managing GPUs? (\d[\d,]*)(?: \(NVML (\d[\d,]*)\))?")
_MISSING = re.compile(r"  The missing ranks?: (\d[\d,]*)$")


def _read_text(text: str) -> RasReport:
    """Read all complete lines (the last may be cut). Raise UnreadableError if it is not a report of RAS."""
    reading = _Reading()
    for line in split_lines(text[: text.rfind("\n") + 1]):
        reading.take(line.rstrip())
    if not reading.begun:
        raise UnreadableError(f"no answer of NCCL's RAS: {text[:80]!r}")
    return reading.report()


@dataclass(slots=True)
class _Section:
    """Section of the report about one communicator, while it is read."""

    name: str
    group: str
    members: dict[int, RasMember] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    launched: dict[str, dict[int, int]] = field(default_factory=dict)
    missing: dict[int, RasMember] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    odd: list[tuple[RasMember, str]] = field(default_factory=list)
    errors: list[tuple[RasMember, str]] = field(default_factory=list)

    def note(self, kind: str, launched: int, ranks: int) -> None:
        kinds = self.launched.setdefault(kind, {})
        kinds[launched] = kinds.get(launched, 0) + ranks

    def launch(self, member: RasMember, kind: str, launched: int) -> None:
        rank = member.rank or 0
        self.members.setdefault(rank, member)
        self.counts.setdefault(rank, {})[kind] = launched


class _Reading:
    """Reader that takes the report line by line."""

    def __init__(self) -> None:
        self.begun = False
        self._version = ""
        self._groups: dict[str, tuple[int, str]] = {}
        self._sections: dict[tuple[str, str], _Section] = {}
        self._absent: list[RasMember] = []
        self._gpus = 0
        self._now: _Section | None = None
        self._heads = self._kind = self._state = self._error = ""
        self._launch: int | None = None

    def take(self, line: str) -> None:
        if not line.startswith(" "):
            self._heading(line)
        elif self._heads == "(total)" and (totals := _TOTALS.match(line)):
            self._gpus = digits(totals[1])
        elif row := _ROW.match(line):
            self._groups[row[1]] = digits(row[2]), row[3]
        elif self._now is None or not self._said(line, self._now):
            self._other(line)

    def report(self) -> RasReport:
        found = [each for section in self._sections.values() if (each := self._communicator(section))]
        if len(self._absent) == 1:  # up to 2.25 one list has ranks, the other processes
            found = [replace(each, absent=tuple(map(self._known, each.absent))) for each in found]
        dead = {each.process for each in self._absent if each.dead}
        found = [
            replace(each, absent=tuple(replace(one, dead=one.process in dead) for one in each.absent))
            for each in found
        ]
        return RasReport(self._version, tuple(found), tuple(self._absent), self._gpus)

    def _communicator(self, section: _Section) -> Communicator | None:
        """Build a communicator without impossible ranks: 2.27 lists some out of uninitialised memory."""
        size, state = self._groups.get(section.group, (None, ""))
        if size == 0 or state == "NOCOMM":
            return None
        within = [
            RasMember(rank, each.host, each.pid, each.gpu, section.counts[rank])
            for rank, each in section.members.items()
            if _is_of(each, size)
        ]
        return Communicator(
            section.name,
            size,
            tuple(within),
            tuple(each for each in section.missing.values() if _is_of(each, size)),
            section.launched,
            section.states,
            tuple(each for each in section.odd if _is_of(each[0], size)),
            tuple(each for each in section.errors if _is_of(each[0], size)),
        )

    def _known(self, member: RasMember) -> RasMember:
        return replace(self._absent[0], rank=member.rank) if member.pid is None else member

    def _heading(self, line: str) -> None:
        if head := _HEAD.match(line):
            self.begun, self._version = True, head[1] or self._version
        if line:
            self._topic()
        if comm := _COMMUNICATOR.match(line):
            key = line.partition(" ")[0], comm[2]
            self._now = self._sections.setdefault(key, _Section(comm[2], comm[1]))
            self._heads = comm[3]
        elif line.isupper() or line.startswith("(total)"):
            self._now, self._heads = None, line.partition(" ")[0]

    def _topic(self, kind: str = "", state: str = "", error: str = "") -> None:
        self._kind, self._state, self._error, self._launch = kind, state, error, None

    def _said(self, line: str, now: _Section) -> bool:
        """Read a line about a communicator. Return False if it is something else."""
        if rank := _RANK.match(line):
            self._rank(rank, now)
        elif kind := _KIND.match(line):
            self._topic(kind=kind[1])
        elif state := _STATUS.match(line):
            self._topic(state=state[2])
            now.states[state[2]] = digits(state[1])
        elif error := _REPORTED.match(line):
            self._topic(error=error[1])
        elif self._kind and (ranks := _RANKS.match(line)):
            self._launch = digits(ranks[2] or "0")
            now.note(self._kind, self._launch, digits(ranks[1]))
        else:
            return False
        return True

    def _rank(self, rank: re.Match[str], now: _Section) -> None:
        number, gpu = digits(rank[1]), rank[7] or rank[6]
        pid = digits(rank[8]) if rank[8] else None
        member = RasMember(number, (rank[9] or "").partition("%")[0], pid, digits(gpu) if gpu else None)
        if self._heads == "INCOMPLETE":
            now.missing[number] = member
        elif rank[4]:
            self._topic(state=rank[4])
            now.states[rank[4]] = now.states.get(rank[4], 0) + 1
            now.odd.append((member, rank[4]))
        elif self._state:
            now.odd.append((member, self._state))
        elif error := rank[5] or self._error:
            now.errors.append((member, error))
        elif self._kind:
            self._launched(rank, member, now)

    def _launched(self, rank: re.Match[str], member: RasMember, now: _Section) -> None:
        launched = digits(rank[2]) if rank[2] else 0 if rank[3] else self._launch
        if rank[2] or rank[3]:
            now.note(self._kind, launched or 0, 1)
        if launched is not None:
            now.launch(member, self._kind, launched)

    def _other(self, line: str) -> None:
        if process := _PROCESS.match(line):
            gpu = (process[4] or process[3]).partition(",")[0]
            host, dead = process[2].partition("%")[0], self._heads == "DEAD"
            self._absent.append(RasMember(None, host, digits(process[1]), digits(gpu), dead=dead))
        elif self._now and (missing := _MISSING.match(line)):
            numbers = [digits(rank or "0") for rank in missing[1].split(",")]
            self._now.missing |= {number: RasMember(number) for number in numbers}


def _is_of(member: RasMember, size: int | None) -> bool:
    return size is None or (member.rank or 0) < size
