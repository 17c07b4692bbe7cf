"""Stacks in faulthandler's format, which a Guard writes on request.

A Guard's file is `inbox/RUN.stacks.HOST.PID.txt`: one line of JSON that identifies the Guard, then the text.
The format is that of Python's Lib/test/test_faulthandler.py; the newest thread comes first, so the main
thread is last.
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
    r"(?:Current thread|Thread) (?P<id>0x[0-9a-fA-F]+)(?: \[(?P<name>[^\]]*)\])?"
    r" \(most recent call first\):\s*"
)
_FRAME = re.compile(r'  File "(?P<path>.*)", line (?P<line>\d+|\?\?\?)(?: in (?P<function>.*?\S))?\s*+')


@dataclass(frozen=True, slots=True)
class Handed:
    """A Guard's file: who wrote it, when (seconds since the epoch, its node's clock), and the stacks.

    `step` is the last one that the training reported; None if it reported none, or from an old Guard. `looks`
    are observations of its loop; None if they are too few, or not of several ranks.
    """

    run: str
    host: str
    time: float
    dump: StackDump
    rank: int | None = None
    job: str = ""
    step: int | None = None
    looks: LoopLooks | None = None


def read(text: str) -> tuple[Thread, ...]:
    """Return the threads, the last one as MainThread; other lines are skipped."""
    threads: list[tuple[re.Match[str], list[Frame]]] = []
    for line in split_lines(text):
        if head := _THREAD.fullmatch(line):
            threads.append((head, []))
        elif threads and (frame := _FRAME.fullmatch(line)):
            threads[-1][1].append(placed(frame["path"], frame["line"], frame["function"] or "?"))
        elif line.strip() and threads and "<no Python frame>" not in line and "..." not in line:
            break  # other text begins
    return tuple(
        Thread(
            id=head["id"],
            name="MainThread" if number == len(threads) else head["name"] or "",
            frames=tuple(frames),
        )
        for number, (head, frames) in enumerate(threads, 1)
    )


def handed(text: str) -> Handed | None:
    """Read a Guard's file; None if it is invalid or incomplete."""
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
    """Return the looks in a Guard's first line. Raise ValueError, KeyError or TypeError if invalid."""
    places = tuple(
        (needed(whole(times)), tuple(placed(str(path), line, str(name)) for name, path, line in place))
        for times, place in who["looks"]
    )
    seconds, steps = needed(real(who["step_seconds"])), needed(whole(who["steps"]))
    return LoopLooks(steps, seconds, places, who.get("synchronous") is True)


def placed(path: str, line: object, function: str) -> Frame:
    return Frame(function, _short(path), whole(line), path)


def _short(path: str) -> str:
    """Shorten a path as py-spy does: relative to the folder of packages, else just the file's name."""
    inside = re.split(r"/lib/python3[^/]*/(?:(?:site|dist)-packages/)?|/(?:site|dist)-packages/", path)
    return inside[-1] if len(inside) > 1 else path.rpartition("/")[2]
