"""Recipients of a signal to a program: the program, or the processes below it that handle the signal.

A launcher or shell that does not handle SIGUSR1 would die of it and leave its ranks running alone.
"""

from __future__ import annotations

import os
import re
import signal

TYPE_CHECKING = False  # without importing typing: see watchdogd/cli/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HARMLESS = frozenset({signal.SIGCONT, signal.SIGWINCH})
"""Signals that end nobody who does not handle them (signal(7))."""


def recipients(pid: int, number: int) -> list[int]:
    """Return the process itself if it survives the signal, else the nearest below that handle it.

    If none does, return all of them, the program first, since its exit code then names the signal: they end
    together, and none is orphaned. But return none if one of them ignores the signal and would go on alone.
    """
    if number in HARMLESS or takes(pid, number):
        return [pid]
    below = _below()
    if found := [*_nearest(pid, number, below)]:
        return found
    everybody = [pid, *_descendants(pid, below)]
    return [] if any(_set(each, "Ign", number) for each in everybody) else everybody


def takes(pid: int, number: int) -> bool:
    """Return True if a process handles a signal, or blocks it to wait for it (proc(5): SigCgt, SigBlk).

    True if that cannot be read: then nobody else is to get it instead.
    """
    return _set(pid, "(?:Cgt|Blk)", number) is not False


def _set(pid: int, masks: str, number: int) -> bool | None:
    """Return True if a signal is in one of a process's masks; None if they cannot be read."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            found = re.findall(rf"^Sig{masks}:\s*(\w+)", file.read(), re.MULTILINE)
    except OSError:
        return None
    return any(int(mask, 16) >> (number - 1) & 1 for mask in found)


def _nearest(pid: int, number: int, below: Mapping[int, list[int]]) -> Iterator[int]:
    """Yield the nearest that handle it, not the processes below those: they pass on what these need."""
    for child in below.get(pid, ()):
        if takes(child, number):
            yield child
        else:
            yield from _nearest(child, number, below)


def _descendants(pid: int, below: Mapping[int, list[int]]) -> Iterator[int]:
    for child in below.get(pid, ()):
        yield child
        yield from _descendants(child, below)


def _below() -> dict[int, list[int]]:
    """Map each process of this machine to its children (proc(5))."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has just ended
        found.setdefault(parent, []).append(int(name))
    return found
