"""Folding of a run's stacks: equal stacks form a group, and the odd ones out come first as suspects. Pure.

A rank that waits for the others stands in a collective; the one that holds them up stands elsewhere.
(Measured on a real hang: the waiting rank in synchronize at 100 % utilisation, the guilty one in its data
loader.) Several samples a few seconds apart show what moves and what stands still.
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
    """One process of the run, sampled once or several times.

    `rank`: None if its environment has none.
    `helper`: it works for another process of its rank (data loaders), or for no rank (launchers).
    `samples`: in order of time. `trouble`: why there are none; then `state` is its state in /proc, such as
        `D (disk sleep), waits in nfs_wait_bit_killable`.
    `step`: the last one that its Guard was told. `looks`: the Guard's own observations of its loop.
    """

    node: str
    pid: int
    rank: int | None = None
    helper: bool = False
    samples: tuple[StackDump, ...] = ()
    trouble: str = ""
    state: str = ""
    step: int | None = None
    looks: LoopLooks | None = None

    @property
    def stopped(self) -> bool:
        """True if a signal (SIGSTOP, SIGTSTP) stopped it: state T."""
        return self.state.startswith("T")


@dataclass(frozen=True, slots=True)
class Group:
    """Processes with the same stack. `moving` are those that stood elsewhere in another sample."""

    frames: tuple[Frame, ...]
    members: tuple[Process, ...]
    moving: tuple[Process, ...] = ()

    @property
    def waits_in(self) -> str:
        """Function of the collective or of the wait for the GPU in which the group stands; empty if none."""
        return _collective(self.frames)

    @property
    def place(self) -> Frame | None:
        """Innermost frame of the user's own code; if there is none, innermost frame of all."""
        return own_place(self.frames)


def _collective(frames: Sequence[Frame]) -> str:
    for frame in frames:
        if not frame.library:
            return ""
        if _COMMUNICATION.search(frame.file) and COLLECTIVE.fullmatch(frame.function.rpartition(".")[2]):
            return frame.function
    return ""


def own_place(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code; if there is none, the innermost of all."""
    return next((frame for frame in frames if not frame.library), frames[0] if frames else None)


def waits(frames: Sequence[Frame]) -> bool:
    """Return True if these frames may be waiting for other ranks: in a collective, or in backward."""
    return bool(_collective(frames)) or bool(frames and _AUTOGRAD.search(frames[0].file))


@dataclass(frozen=True, slots=True)
class StackSummary:
    """Stacks of the run at one moment.

    `odd` are the groups that are suspects, `others` the rest, both with the largest group last. `helpers` are
    groups too, the largest first; `unread` gave no stack. `seconds` is the time from the first sample to the
    last, 0 for a single sample.
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
        """Stopped processes, if they are the reason why there is no stack at all."""
        mute = [each for each in self.unread if not each.helper] or self.unread
        return tuple(mute) if mute and not self.ranks and all(each.stopped for each in mute) else ()


def fold(processes: Sequence[Process], seconds: float = 0.0) -> StackSummary:
    """Fold the processes. If none has a rank, each process that is no helper counts as a rank."""
    read = [each for each in processes if any(dump.threads for dump in each.samples)]
    unread = tuple(each for each in processes if not any(dump.threads for dump in each.samples))
    odd, others = _parted(_groups(each for each in read if not each.helper))
    helpers = _groups(each for each in read if each.helper)
    return StackSummary(odd, others, tuple(reversed(helpers)), unread, seconds)


def stands(dump: StackDump) -> tuple[Frame, ...]:
    """Return the Python frames of the main thread, innermost first.

    While PyTorch computes gradients, the main thread stands in backward and the work is done in a thread of
    autograd, whose frames are put first. Native frames do not count, since their addresses differ.
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
    """Group processes by the stack of their last sample, the smallest group first."""
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
    """Separate the odd ones out from the rest.

    If some wait in a collective and at most half of all stand elsewhere, the latter hold the others up.
    Otherwise all groups but the largest are odd; if the two largest are of equal size, all groups are.
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
    """Return numbers as `0-3,7,8`; `width` pads with zeros."""
    return ",".join(_span(first, last, width) for first, last in _spans(sorted(set(values))))


def names(values: Iterable[str]) -> str:
    """Return host names as Slurm lists them: `login1,node[01-16]`."""
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
    """Join names that differ in one number; `09` and `10` belong together."""
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
