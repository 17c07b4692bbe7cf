"""The stacks of a run folded: equal ones together, the odd ones out first, since they are the suspects.

Pure. A rank that waits for the others stands in a collective; what holds them all up stands elsewhere
(measured on a real hang: the waiting rank in synchronize at 100 % utilisation, the guilty one in its data
loader). Several samples a few seconds apart tell what moves from what stands still.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from watchdogd.parsers.stack_models import Frame, LoopLooks, StackDump
from watchdogd.system.number import digits

COLLECTIVE = re.compile(
    r"_?(?:all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|gather|scatter|reduce|barrier"
    r"|monitored_barrier|synchronize|send|i?recv|recv_forward|recv_backward|wait|Allreduce|Allgather|Bcast"
    r"|Barrier|Alltoall|Reduce|Gather|Scatter|Wait)(?:_.*|v)?|waitRecv|waitWork",
)
_COMMUNICATION = re.compile(
    r"(?:^|/)(?:torch/(?:distributed|cuda|_C|nn/parallel|accelerator|xpu|npu)|deepspeed/comm|mpi4py|horovod"
    r"|accelerate/utils/operations|megatron/.*p2p_communication)"
)
_AUTOGRAD = re.compile(r"(?:^|/)torch/(?:autograd/|_tensor\.py)")
_LAST_NUMBER = re.compile(r"(?<!\d)(\d{1,18}+)(?!\d)(\D*+)\Z")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the run, looked at once or several times.

    `rank`: None where its environment names none. `helper`: it works for another process of its rank (data
    loaders) or for none (launchers). `samples` in order of time. `trouble`: why there are none; then `state`
    is its line of /proc (`D (disk sleep), waits in nfs_wait_bit_killable`). `step` is the last that its Guard
    was told, `looks` are its own at its loop.
    """

    node: str
    pid: int
    rank: int | None = None
    helper: bool = False
    command: str = ""
    samples: tuple[StackDump, ...] = ()
    trouble: str = ""
    state: str = ""
    step: int | None = None
    looks: LoopLooks | None = None

    @property
    def stopped(self) -> bool:
        """Return whether a signal stopped it (SIGSTOP, SIGTSTP): state T."""
        return self.state.startswith("T")


@dataclass(frozen=True, slots=True)
class Group:
    """Processes that stand on the same stack. `moving` are those that stood elsewhere in another sample."""

    frames: tuple[Frame, ...]
    members: tuple[Process, ...]
    moving: tuple[Process, ...] = ()

    @property
    def waits_in(self) -> str:
        """The collective, or the wait for the GPU, in which it stands; empty where in none."""
        return _collective(self.frames)

    @property
    def place(self) -> Frame | None:
        """Return where it stands, for people: the innermost frame of the user's own code, else of all."""
        return own_place(self.frames)


def _collective(frames: Sequence[Frame]) -> str:
    for frame in frames:
        if not frame.library:
            return ""
        if _COMMUNICATION.search(frame.file) and COLLECTIVE.fullmatch(frame.function.rpartition(".")[2]):
            return frame.function
    return ""


def own_place(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code, else of all."""
    return next((frame for frame in frames if not frame.library), frames[0] if frames else None)


def waits(frames: Sequence[Frame]) -> bool:
    """Return whether these frames may wait for other ranks: in a collective, or in backward."""
    return bool(_collective(frames)) or bool(frames and _AUTOGRAD.search(frames[0].file))


@dataclass(frozen=True, slots=True)
class StackSummary:
    """The run at one moment. `odd` are the suspects, `others` the rest, the largest group last in both.

    `helpers` are folded likewise, the largest first; `unread` gave no stack. `seconds` is the time between
    the first and the last sample, 0 where there was one.
    """

    odd: tuple[Group, ...]
    others: tuple[Group, ...]
    helpers: tuple[Group, ...] = ()
    unread: tuple[Process, ...] = ()
    seconds: float = 0.0

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.odd + self.others

    @property
    def ranks(self) -> int:
        return sum(len(group.members) for group in self.groups)

    @property
    def stopped(self) -> tuple[Process, ...]:
        """Return the processes that a signal stopped, where that is why none has a stack."""
        mute = [each for each in self.unread if not each.helper] or self.unread
        return tuple(mute) if mute and not self.ranks and all(each.stopped for each in mute) else ()


def fold(processes: Sequence[Process], seconds: float = 0.0) -> StackSummary:
    """Fold them. Where no process names a rank, each that is no helper counts as one."""
    read = [each for each in processes if any(dump.threads for dump in each.samples)]
    unread = tuple(each for each in processes if not any(dump.threads for dump in each.samples))
    odd, others = _parted(_groups(each for each in read if not each.helper))
    helpers = _groups(each for each in read if each.helper)
    return StackSummary(odd, others, tuple(reversed(helpers)), unread, seconds)


def stands(dump: StackDump) -> tuple[Frame, ...]:
    """Return where a process stands: the Python frames of its main thread, innermost first.

    While PyTorch computes gradients, the main thread stands in backward; what really runs is a thread of
    autograd, so that one's frames come before. Native frames do not count: their addresses differ.
    """
    main = dump.main
    frames = _python(main.frames) if main else ()
    if not frames or not _AUTOGRAD.search(frames[0].file):
        return frames
    for thread in dump.threads:
        if thread is not main and any(_COMMUNICATION.search(frame.file) for frame in thread.frames):
            return _python(thread.frames) + frames
    return frames


def _python(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    return tuple(frame for frame in frames if not frame.native) or frames


def _groups(processes: Iterable[Process]) -> tuple[Group, ...]:
    """Group processes by the stack of the last sample, the smallest group first."""
    members: dict[tuple[Frame, ...], list[Process]] = defaultdict(list)
    moving: dict[tuple[Frame, ...], list[Process]] = defaultdict(list)
    for process in processes:
        places = [stands(dump) for dump in process.samples if dump.threads]
        members[places[-1]].append(process)
        if any(place != places[-1] for place in places):
            moving[places[-1]].append(process)
    found = [Group(frames, _sorted(each), _sorted(moving[frames])) for frames, each in members.items()]
    return tuple(sorted(found, key=lambda group: (len(group.members), group.members[0].rank or 0)))


def _sorted(processes: list[Process]) -> tuple[Process, ...]:
    def key(process: Process) -> tuple[bool, int, str, int]:
        return process.rank is None, process.rank or 0, process.node, process.pid

    return tuple(sorted(processes, key=key))


def _parted(groups: tuple[Group, ...]) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Part the odd ones out from the rest.

    Where some wait in a collective and at most half of all stand elsewhere, these hold the others up. Else
    all but the largest group are odd; two largest of one size leave it open, and both are.
    """
    waiting = tuple(group for group in groups if group.waits_in)
    elsewhere = tuple(group for group in groups if not group.waits_in)
    if waiting and elsewhere and _size(elsewhere) <= _size(waiting):
        return elsewhere, waiting
    if len(groups) > 1 and len(groups[-1].members) == len(groups[-2].members):
        return groups, ()
    return groups[:-1], groups[-1:]


def _size(groups: tuple[Group, ...]) -> int:
    return sum(len(group.members) for group in groups)


def numbers(values: Iterable[int], width: int = 0) -> str:
    """Write numbers as `0-3,7,8`: three in a row become a range; `width` fills up with zeros."""
    return ",".join(_span(first, last, width) for first, last in _spans(sorted(set(values))))


def names(values: Iterable[str]) -> str:
    """Write host names as Slurm lists them, without their domains: `login1,node[01-16]`."""
    numbered: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    plain = []
    for name in dict.fromkeys(values):
        match = _LAST_NUMBER.search(name)
        if match:
            padded = len(match[1]) if match[1].startswith("0") else 0
            numbered[name[: match.start()], padded, match[2]].append(digits(match[1]))
        else:
            plain.append(name)
    return ",".join(sorted([*plain, *_joined(numbered)]))


def _joined(numbered: dict[tuple[str, int, str], list[int]]) -> Iterator[str]:
    """Join names that differ in one number; `09` and `10` go together."""
    for (prefix, width, suffix), found in list(numbered.items()):
        if width == 0:
            for other in [key for key in numbered if key[0] == prefix and key[2] == suffix and key[1]]:
                fitting = [number for number in found if len(str(number)) == other[1]]
                numbered[other] += fitting
                found[:] = [number for number in found if number not in fitting]
    for (prefix, width, suffix), found in numbered.items():
        if len(found) == 1:
            yield f"{prefix}{found[0]:0{width}d}{suffix}"
        elif found:
            yield f"{prefix}[{numbers(found, width)}]{suffix}"


def _spans(values: list[int]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for value in values:
        if spans and value == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], value)
        else:
            spans.append((value, value))
    return spans


def _span(first: int, last: int, width: int) -> str:
    if first == last:
        return f"{first:0{width}d}"
    return f"{first:0{width}d}{'-' if last > first + 1 else ','}{last:0{width}d}"
