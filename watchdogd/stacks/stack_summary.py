"""Folded stacks in words: one line for the alert, more for a closer look; also of the tracebacks in a log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from watchdogd.parsers.faulthandler import placed
from watchdogd.parsers.logs.log_lines import LogLine
from watchdogd.parsers.stack_models import Frame, StackDump, Thread
from watchdogd.stacks import stack_folding
from watchdogd.stacks.stack_folding import Group, Process, StackSummary
from watchdogd.system.number import digits
from watchdogd.units import format_duration

_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+), in (\S+)')
_LOST = re.compile(r"gloo|nccl|peer|socket|connection|\bDist\w+Error", re.IGNORECASE)
"""An exception of who waits for others: what else a rank wrote a traceback of, it survived, or came later."""
_NUMBER = re.compile(r"(?:[Rr]ank ?)?(\d{1,6})")


def read(lines: Iterable[LogLine]) -> list[Process]:
    """Return the ranks, each with the stack of its first traceback."""
    found: dict[int, list[Frame]] = {}
    ended: set[int] = set()
    for line in lines:
        match = _NUMBER.fullmatch(line.rank)
        if match is None or (rank := digits(match[1])) in ended:
            continue
        if line.text.startswith("Traceback (most recent"):
            found[rank] = []
        elif rank in found and (frame := _FRAME.match(line.text)):
            found[rank].insert(0, placed(frame[1], frame[2], frame[3]))
        elif found.get(rank) and not line.text.startswith(" "):
            if _LOST.search(line.text):
                ended.add(rank)
            else:
                del found[rank]
    return [_process(rank, found[rank]) for rank in sorted(ended)]


def _process(rank: int, frames: list[Frame]) -> Process:
    thread = Thread(name="MainThread", frames=tuple(frames))
    return Process("", 0, rank, samples=(StackDump(threads=(thread,)),))


def odd_one(lines: Iterable[LogLine]) -> str:
    """Return `rank 1 stood in step (train.py:7), the others in all_reduce`; empty if no rank stands out."""
    folded = stack_folding.fold(read(lines))
    odd = [each for group in folded.odd for each in group.members]
    if len(odd) != 1 or folded.ranks < 3 or len(folded.others) != 1 or not folded.others[0].waits_in:
        return ""
    place = folded.odd[0].waits_in or folded.odd[0].place
    return f"rank {odd[0].rank} stood in {place}, the others in {folded.others[0].waits_in}"


_NAMED = 3
"""How many groups the first line names."""
_HELPERS = 5
_NODES = 4


def summary(folded: StackSummary) -> str:
    """Summarise the stacks in one line.

    Example: `2 of 128 ranks stand elsewhere: node5 ranks 40,41 in next_batch (loader.py:88); 126 wait in
    all_reduce`.
    """
    if folded.stopped:
        return f"no stacks: {unreadable(folded)}: {_continued(folded.stopped)}"
    line = _ranks(folded)
    missing = len(folded.unread)
    unread = f"{missing} {_plural(missing, 'process', 'processes')} could not be read" if missing else ""
    return "; ".join(filter(None, [line, unread]))


def lines(folded: StackSummary) -> Iterator[str]:
    """Yield the whole report: the summary, each group with its stack, helpers in short, unread processes."""
    yield summary(folded)
    for group in folded.groups:
        yield ""
        yield f"{_count(group)} {_verb(group)}{_motion(group, folded.seconds)}: {who(group.members)}"
        yield from (f"    {frame}" for frame in _display(group))
    if folded.helpers:
        yield ""
        yield from _helpers(folded.helpers)
    if folded.unread and len(folded.unread) > len(folded.stopped):
        yield ""
        yield "not read:"
        yield from (f"    {_unread(process)}" for process in folded.unread)


def unreadable(picture: StackSummary) -> str:
    """Return why the first unread process could not be read, in a few words; empty if all could."""
    if len(picture.stopped) > 1:
        return f"{len(picture.stopped)} processes are stopped (state T)"
    for process in picture.stopped or picture.unread:
        word = {"T": "is stopped", "D": "hangs in the kernel", "Z": "is dead"}.get(process.state[:1])
        return f"the process {word} (state {process.state[0]})" if word else process.trouble
    return ""


def who(members: Sequence[Process]) -> str:
    """Return `node5 ranks 40,41`, `node[5-6] ranks 40-55`, or process ids if there are no ranks."""
    nodes = stack_folding.names(process.node for process in members)
    ranks = [process.rank for process in members if process.rank is not None]
    if len(ranks) == len(members):
        return f"{nodes} {_plural(len(ranks), 'rank', 'ranks')} {stack_folding.numbers(ranks)}"
    if len({process.node for process in members}) > _NODES:
        return nodes
    pids: dict[str, list[int]] = {process.node: [] for process in members}
    for process in members:
        pids[process.node].append(process.pid)
    return ", ".join(
        f"{node} {_plural(len(each), 'pid', 'pids')} {','.join(map(str, sorted(each)))}"
        for node, each in pids.items()
    )


def _ranks(folded: StackSummary) -> str:
    total = folded.ranks
    if not total:
        return "no stack of a rank"
    moving = sum(len(group.moving) for group in folded.groups)
    within = format_duration(folded.seconds)
    if moving == total:
        return f"all {total} ranks move: none stood on one stack for {within}"
    if not folded.odd:
        (group,) = folded.others
        return f"{f'all {total} ranks' if total > 1 else 'the rank'} {_verb(group)} in {_where(group)}"
    if not folded.others:
        return f"{total} ranks stand in {len(folded.odd)} places: {_named(folded.odd)}"
    count = sum(len(group.members) for group in folded.odd)
    stand = _plural(count, "stands", "stand")
    return f"{count} of {total} ranks {stand} elsewhere: {_named(folded.odd)}; {_rest(folded)}"


def _named(groups: Sequence[Group]) -> str:
    named = "; ".join(
        f"{who(group.members)} in {_from(group)}{' (moving)' if group.moving else ''}"
        for group in groups[:_NAMED]
    )
    left = sum(len(group.members) for group in groups[_NAMED:])
    return f"{named}; {left} more" if left else named


def _rest(folded: StackSummary) -> str:
    return ", ".join(
        f"{len(group.members)} {_verb(group)} in {_where(group)}"
        for group in sorted(folded.others, key=lambda group: -len(group.members))[:_NAMED]
    )


def _where(group: Group) -> str:
    return group.waits_in or str(group.place or "no frame")


def _from(group: Group) -> str:
    """Return where a suspect stands; in a collective also its caller, which the others do not share."""
    return f"{group.waits_in}, called by {group.place}" if group.waits_in else _where(group)


def _verb(group: Group) -> str:
    one = len(group.members) == 1
    return ("waits" if one else "wait") if group.waits_in else ("stands" if one else "stand")


def _count(group: Group) -> str:
    return f"{len(group.members)} {_plural(len(group.members), 'rank', 'ranks')}"


def _motion(group: Group, seconds: float) -> str:
    if not seconds:
        return ""
    if not group.moving:
        return f", still for {format_duration(seconds)}"
    return f", {len(group.moving)} moving" if len(group.moving) < len(group.members) else ", moving"


def _display(group: Group) -> tuple[Frame, ...]:
    """Return the first member's native frames if it has any, else the group's frames."""
    main = group.members[0].samples[-1].main
    native = main is not None and any(frame.native for frame in main.frames)
    return main.frames if main is not None and native else group.frames


def _helpers(groups: Sequence[Group]) -> Iterator[str]:
    total = sum(len(group.members) for group in groups)
    yield f"{total} helper {_plural(total, 'process', 'processes')} (data loaders, launchers):"
    for group in groups[:_HELPERS]:
        yield f"    {len(group.members)} in {group.frames[0] if group.frames else 'no frame'}"
    left = sum(len(group.members) for group in groups[_HELPERS:])
    if left:
        yield f"    {left} elsewhere"


def _unread(process: Process) -> str:
    rank = "" if process.rank is None else f" rank {process.rank}"
    place = f"{process.node} pid {process.pid}{rank}" if process.pid else process.node
    state = "" if process.stopped else process.state
    return "; ".join(filter(None, [f"{place}: {process.trouble}", state]))


def _continued(stopped: Sequence[Process]) -> str:
    """Return the command that continues stopped processes, for each node: `kill -CONT 88 89 on n1`."""
    pids: dict[str, list[int]] = {}
    for each in stopped:
        pids.setdefault(each.node, []).append(each.pid)
    here = os.uname().nodename
    return ", ".join(
        f"kill -CONT {' '.join(map(str, sorted(found)))}{'' if node == here else f' on {node}'}"
        for node, found in list(pids.items())[:_NODES]
    ) + (f" and on {len(pids) - _NODES} more nodes" if len(pids) > _NODES else "")


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
