"""Places where ranks stood when they ended, by the traceback that it wrote to the log. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from watchdogd.parsers.faulthandler import placed
from watchdogd.parsers.logs.log_lines import LogLine
from watchdogd.parsers.stack_models import Frame, StackDump, Thread
from watchdogd.stacks import stack_folding
from watchdogd.stacks.stack_folding import Process
from watchdogd.system.number import digits

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
