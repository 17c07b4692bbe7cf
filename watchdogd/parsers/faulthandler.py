"""faulthandler's stacks, as a Guard writes them on request.

A Guard's file is `inbox/RUN.stacks.HOST.PID.txt`: one line of JSON that says who writes, then the text. The
format: Python's Lib/test/test_faulthandler.py; threads stand newest first, so the main thread is the last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from watchdogd.parsers.stack_models import Frame, LoopLooks, StackDump, Thread
from watchdogd.system.number import needed, real, whole
from watchdogd.system.smallfile import parse_json
from watchdogd.system.text import split_lines

_THREAD = re.compile(
    r"(?P<current>Current thread|Thread) (?P<id>0x[0-9a-fA-F]+)(?: \[(?P<name>[^\]]*)\])?"
    r" \(most recent call first\):\s*"
)
_FRAME = re.compile(r'  File "(?P<path>.*)", line (?P<line>\d+|\?\?\?)(?: in (?P<function>.*?\S))?\s*+')


@dataclass(frozen=True, slots=True)
class Handed:
    """One Guard's file: who wrote it, when (seconds since the epoch, its node's clock), and the stacks.

    `step` is the last that the training told it; None: none, or a Guard of an earlier version. `looks`: at
    where its loop stands; None where they are too few, or not of several ranks."""

    run: str
    host: str
    time: float
    dump: StackDump
    rank: int | None = None
    job: str = ""
    step: int | None = None
    looks: LoopLooks | None = None


def read(text: str) -> tuple[Thread, ...]:
    """Return the threads, the main one by that name where it is told apart; pass over lines that are none."""
    threads: list[tuple[re.Match[str], list[Frame]]] = []
    for line in split_lines(text):
        if head := _THREAD.fullmatch(line):
            threads.append((head, []))
        elif threads and (frame := _FRAME.fullmatch(line)):
            threads[-1][1].append(_frame(frame))
        elif line.strip() and threads and "<no Python frame>" not in line and "..." not in line:
            break  # the text of something else begins
    return tuple(
        Thread(
            id=head["id"],
            name="MainThread" if number == len(threads) else head["name"] or "",
            frames=tuple(frames),
        )
        for number, (head, frames) in enumerate(threads, 1)
    )


def handed(text: str) -> Handed | None:
    """Return a Guard's file; None where it is none, or not whole."""
    head, _, rest = text.partition("\n")
    try:
        who: dict[str, Any] = parse_json(head)
        rank = who.get("rank")
        threads = read(rest)
        return Handed(
            run=str(who["run"]),
            host=str(who["host"]),
            time=needed(real(who["time"])),
            dump=StackDump(needed(whole(who["pid"])), threads=threads),
            rank=rank if isinstance(rank, int) else None,
            job=str(who.get("job") or ""),
            step=whole(who.get("step")),
            looks=_looks(who) if "looks" in who else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _looks(who: dict[str, Any]) -> LoopLooks:
    """Return the looks of a Guard's first line. ValueError, KeyError or TypeError where they are none."""
    places = tuple(
        (needed(whole(times)), tuple(placed(str(path), line, str(name)) for name, path, line in place))
        for times, place in who["looks"]
    )
    seconds, steps = needed(real(who["step_seconds"])), needed(whole(who["steps"]))
    return LoopLooks(steps, seconds, places, who.get("synchronous") is True)


def _frame(match: re.Match[str]) -> Frame:
    return placed(match["path"], match["line"], match["function"] or "?")


def placed(path: str, line: object, function: str) -> Frame:
    return Frame(function, _short(path), whole(line), path)


def _short(path: str) -> str:
    """Shorten a path as py-spy does: what follows the folder of packages, else the bare name."""
    inside = re.split(r"/lib/python3[^/]*/(?:(?:site|dist)-packages/)?|/(?:site|dist)-packages/", path)
    return inside[-1] if len(inside) > 1 else path.rpartition("/")[2]
