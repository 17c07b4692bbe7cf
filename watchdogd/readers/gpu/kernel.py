"""What the NVIDIA driver reports in the kernel log: Xid errors, and GPUs that fell off the bus.

Numbers as in NVIDIA's Xid catalogue: those of the hardware, those that need a reset, and those (13, 43, 45)
that a fault of the application causes, which are left out. SXid lines speak of NVSwitches, not of GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FATAL = frozenset({46, 48, 61, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 154, 155, 156})
"""The GPU, or its link, is broken or needs a reset."""
_OF_THE_APPLICATION = frozenset({13, 43, 45})
_XID = re.compile(r"(?<!S)Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(?:, *)?(.*)")
_FALLEN = re.compile(
    r"GPU (?:at PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\S*:? .*fallen off the bus"
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{1,6})(\+\d\d:?\d\d|Z)")
_CTIME = re.compile(r"\[\w{3} (\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_STAMP = re.compile(r"\s*(?:\[\s*[\d.]+\]|\S+\s*:\S+\s*:|\[\w{3} \w{3} +\d)")


@dataclass(frozen=True, slots=True)
class Event:
    """One report on the GPU at `bus`; `xid` is None where the driver gave no number, `at` where no date.

    `fatal`: the GPU needs a reset or a replacement; else somebody should look at it.
    """

    bus: str
    xid: int | None
    text: str
    at: float | None = None

    @property
    def fatal(self) -> bool:
        """Whether the GPU cannot go on."""
        return self.xid is None or self.xid in FATAL

    def speaks_of(self, bus: str) -> bool:
        """Whether it is about the GPU whose bus a tool gives as `bus`, with another width of its domain."""
        return same_bus(bus, self.bus)


def read(text: str) -> tuple[Event, ...]:
    """The events, the first of each GPU and number: what follows a report belongs to it."""
    found: dict[tuple[str, int | None], Event] = {}
    for line in _joined(text.splitlines()):
        event = _event(line)
        if event and not (event.xid is None and any(bus == _canonical(event.bus) for bus, _ in found)):
            found.setdefault((_canonical(event.bus), event.xid), event)
    return tuple(found.values())


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines without a stamp of their own go on the line before."""
    found: list[str] = []
    for line in lines:
        if found and line[:1].isspace() and not _STAMP.match(line):
            found[-1] += " " + line.strip().removeprefix("NVRM:").strip()
        else:
            found.append(line)
    return found


def _event(line: str) -> Event | None:
    if match := _XID.search(line):
        number = int(match[2])
        if number in _OF_THE_APPLICATION:
            return None
        return Event(match[1], number, f"Xid {number}: {match[3].strip()}"[:300], _time(line))
    if match := _FALLEN.search(line):
        return Event(match[1], None, "it has fallen off the bus", _time(line))
    return None


def _time(line: str) -> float | None:
    """Seconds since the epoch of `dmesg --time-format iso` or `dmesg -T`; None of seconds since boot."""
    if match := _ISO.search(line):
        return datetime.fromisoformat(f"{match[1]}.{match[2].ljust(6, '0')}{match[3]}").timestamp()
    if match := _CTIME.search(line):
        text = " ".join(match[1].split())
        return datetime.strptime(text, "%b %d %H:%M:%S %Y").astimezone().timestamp()
    return None


def same_bus(bus: str, other: str) -> bool:
    """Whether both are written of one GPU, however wide their domains are."""
    return bool(bus) and _canonical(bus) == _canonical(other)


def _canonical(bus: str) -> str:
    """`0000:9b:00` of `00000000:9B:00.0`."""
    parts = bus.lower().partition(".")[0].split(":")
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]]) if len(parts) == 3 else bus.lower()
