"""GPU errors in the kernel log, by NVIDIA's and AMD's drivers: Xid errors, lost GPUs, memory errors, resets.

Some failures have no Xid: a failed call is logged with NVIDIA's own code (`[NV_ERR_RESET_REQUIRED]`), and a
GPU that cannot be started, or whose firmware does not answer, in a line of its own. Some lines name no GPU.

Xid numbers are those of NVIDIA's catalogue. Left out are those that an application causes (13, 43, 45), and
those without effect (121, 162, and 154 once the driver asks for nothing any more). SXid lines are about
NVSwitches, not GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from watchdogd.parsers.gpu.values import LONGEST
from watchdogd.system.number import digits, moment
from watchdogd.system.text import split_lines

FATAL = frozenset({46, 48, 61, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(155, 159)})
FATAL |= {167, 169, 171, 172}
"""Xids after which the GPU or its link is broken or needs a reset."""
NVLINK = frozenset(range(144, 151))
"""Xids of NVLink 5; their text says whether they are fatal."""
_HARMLESS = frozenset({13, 43, 45, 121, 162})
_RECOVERY = 154
_XID = re.compile(r"(?<!S)Xid \((?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F:.]+)\): (\d+)(?:, *)?(.*)")
_FALLEN = re.compile(
    r"GPU (?:at PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\S{0,8}:? .{0,300}?fallen off the bus"
)
_CODES = (
    "BROKEN_FB",
    "CARD_NOT_PRESENT",
    "ECC_ERROR",
    "GPU_IS_LOST",
    "GPU_MEMORY_ONLINING_FAILURE",
    "NVLINK_FABRIC_FAILURE",
    "RESET_REQUIRED",
)
"""NVIDIA's error codes (NV_ERR_...) that a healthy GPU never returns."""
_NVRM = re.compile(r"NVRM: (?:.*?\bGPU (?:at PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[.:\s])?")
_NVIDIA_REPORTS = (
    (re.compile(rf"(?<![\w ,])[\w ,]*+\[NV_ERR_(?:{'|'.join(_CODES)})\]"), True),
    (re.compile(r"RmInitAdapter failed(?:! \([\w:]+\))?"), True),
    (re.compile(r"GPU (?:is )?likely (?:needs to be reset|in a bad state and may need to be reset)"), True),
    (re.compile(r"heartbeat timed out", re.IGNORECASE), True),
    (re.compile(r"GPU does not have the necessary power cables connected"), True),
    (re.compile(r"GPU is probably locked"), False),
)
"""Messages without an Xid, and whether the GPU is broken after them; without a bus they name no GPU."""
NVIDIA_MARKS = (
    "Xid|fallen off|The NVIDIA GPU|installed in this system",
    f"NV_ERR_({'|'.join(_CODES)})|RmInitAdapter failed|GPU (is )?likely|[Hh]eartbeat timed out"
    "|necessary power cables|probably locked",
)
"""Patterns for grep -E that find NVIDIA's messages: those with an Xid, and the others (maybe many)."""
_AMD = re.compile(
    r"amdgpu(?: ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d))?: (?:amdgpu: )?(?:\[drm\] )?(?:\{\d+\})?(.*)"
)
AMD_MARKS = (
    "uncorrectable hardware error|device lost from bus|(GPU|ASIC) reset|GPU [Rr]ecovery|device wedged"
    "|unrecoverable state|GPU init|xceeds? (the )?threshold|reach(es)? threshold"
)
"""Pattern for grep -E that finds AMD's messages."""
_AMD_REPORTS = (
    (re.compile(r"device lost from bus", re.IGNORECASE), "it has been lost from the bus", True),
    (re.compile(r"GPU reset end with ret = -?[1-9]"), "its reset failed", True),
    (re.compile(r"ASIC reset failed"), "its reset failed", True),
    (re.compile(r"device wedged, needs recovery"), "it is wedged and was not recovered", True),
    (re.compile(r"Fatal error during GPU init"), "it could not be started", True),
    (
        re.compile(r"(?:RAS|Saved bad pages?) .*(?:exceeds?|reach(?:es)?) (?:the )?threshold"),
        "more bad pages of memory than its maker allows",
        True,
    ),
    (re.compile(r".*might be in (?:an )?unrecoverable state"), "its queues do not answer", False),
    (
        re.compile(r"uncorrectable hardware error ?\(\w+\) detected", re.IGNORECASE),
        "an uncorrectable error",
        True,
    ),
    (re.compile(r"GPU (?:reset(?:\(\d+\))?|recovery) failed", re.IGNORECASE), "its reset failed", True),
    (re.compile(r"GPU reset begin"), "it was reset", False),
)
_AMD_ERRORS = re.compile(
    r"(?:socket: \d+,? )?(?:die: \d+,? )?(\d+) (?:new )?uncorrectable hardware errors? detected in "
    r"(?:total in )?(\w+)"
)
_SLEEPS = 1_048_560
"""Added to AMD's counters at each reading while the memory sleeps."""
_OFF = "it has fallen off the bus"
_APART = 600.0
"""Seconds after which the same message counts as a new event."""
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[,.](\d{1,6})([+-]\d\d:?\d\d|Z)")
_CTIME = re.compile(r"\[\w{3} (\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_STAMP = re.compile(r"\s*(?:\[\s*[\d.]+\]|\S+\s*:\S+\s*:|\[\w{3} \w{3} +\d)")
_REST = re.compile(r"NVRM: (?:\(PCI ID.*|installed in this system.*|fallen off the bus.*)$")


@dataclass(frozen=True, slots=True)
class DriverEvent:
    """One message of a driver about the GPU at `bus` (empty: it names none).

    `xid` is None if the driver gave no number, `at` (seconds since the epoch) if the line has no date.
    `fatal`: the GPU needs a reset or a replacement; else somebody should look at it. `last` is when the
    message was repeated, if it was.
    """

    bus: str
    xid: int | None
    text: str
    at: float | None = None
    fatal: bool = True
    last: float | None = field(default=None, compare=False)

    def since(self, time: float) -> bool:
        """Return True if the message was logged, or repeated, after `time`."""
        return any(at is not None and at >= time for at in (self.at, self.last))

    def speaks_of(self, bus: str) -> bool:
        """Return True if it is about the GPU at `bus`; tools write the domain with 4 or 8 digits."""
        return same_bus(bus, self.bus)


def read(text: str) -> tuple[DriverEvent, ...]:
    """Return the events; messages of one GPU and kind within minutes are one event."""
    found: dict[tuple[str, object], list[DriverEvent]] = {}
    for line in _joined(split_lines(text)):
        event = _nvidia(line) or _amd(line)
        if event and not (event.text == _OFF and any(bus == _canonical(event.bus) for bus, _ in found)):
            same = found.setdefault((_canonical(event.bus), event.xid or event.text), [])
            if not same or _anew(same[-1], event):
                same.append(event)
            else:
                same[-1] = replace(same[-1], last=event.at)
    return tuple(events[-1] for events in found.values())


def _anew(before: DriverEvent, event: DriverEvent) -> bool:
    """Return True if this is a new event, not a repetition of the one before."""
    last = before.last or before.at
    return last is not None and event.at is not None and event.at - last > _APART


def _joined(lines: Sequence[str]) -> list[str]:
    """Join continuation lines: those without a time stamp, and those that complete a sentence."""
    found: list[str] = []
    for line in (each[:LONGEST] for each in lines):
        rest = _REST.search(line)
        if found and len(found[-1]) + len(line) > 2 * LONGEST:
            found.append(line)
        elif found and rest and "The NVIDIA GPU" in found[-1]:
            found[-1] += " " + rest[0].removeprefix("NVRM: ")
        elif found and line[:1].isspace() and not _STAMP.match(line):
            found[-1] += " " + line.strip().removeprefix("NVRM:").strip()
        else:
            found.append(line)
    return found


def _nvidia(line: str) -> DriverEvent | None:
    if match := _XID.search(line):
        number, said = digits(match[2]), match[3].strip()
        if number in _HARMLESS or (number == _RECOVERY and said.endswith("(None)")):
            return None
        return DriverEvent(match[1], number, f"Xid {number}: {said}"[:300], _time(line), _fatal(number, said))
    if match := _FALLEN.search(line):
        return DriverEvent(match[1], None, _OFF, _time(line))
    return _without_xid(line)


def _without_xid(line: str) -> DriverEvent | None:
    if not (driver := _NVRM.search(line)):
        return None
    for pattern, fatal in _NVIDIA_REPORTS:
        if said := pattern.search(line, driver.start()):
            return DriverEvent(driver[1] or "", None, said[0].strip(), _time(line), fatal)
    return None


def _fatal(number: int, said: str) -> bool:
    if number == _RECOVERY:
        return "(Drain" not in said
    return number in FATAL or (number in NVLINK and re.search(r"\bFatal\b", said) is not None)


def _amd(line: str) -> DriverEvent | None:
    match = _AMD.search(line)
    if not match:
        return None
    if (errors := _AMD_ERRORS.match(match[2])) and 0 < digits(errors[1]) < _SLEEPS:
        plural = "" if errors[1] == "1" else "s"
        text = f"{errors[1]} uncorrectable error{plural} in {errors[2]}"
        return DriverEvent(match[1] or "", None, text, _time(line))
    for pattern, words, fatal in _AMD_REPORTS:
        if pattern.match(match[2]):
            return DriverEvent(match[1] or "", None, words, _time(line), fatal)
    return None


def _time(line: str) -> float | None:
    """Return seconds since the epoch, from `dmesg --time-format iso` or `dmesg -T`; None for uptimes."""
    if match := _ISO.search(line):
        return moment(f"{match[1]}.{match[2].ljust(6, '0')[:6]}{match[3]}")
    if match := _CTIME.search(line):
        text = " ".join(match[1].split())
        return moment(text, "%b %d %H:%M:%S %Y")
    return None


def same_bus(bus: str, other: str) -> bool:
    """Return True if both are the bus of the same GPU, whatever the width of their domains."""
    return bool(bus) and _canonical(bus) == _canonical(other)


def _canonical(bus: str) -> str:
    """Return `0000:9b:00` for `00000000:9B:00.0`."""
    parts = bus.lower().partition(".")[0].split(":")
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]]) if len(parts) == 3 else bus.lower()
