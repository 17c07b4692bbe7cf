"""nvidia-smi, all versions, in the forms that the probe asks for: -q, CSV, table; and how it gives up."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.readers.gpu import kernel, nvidiacsv, nvidiaq, nvidiatable, value
from watchdogd.readers.gpu.gpu import Gpu, Readout, merged
from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABSENT = re.compile(
    r"couldn't communicate with the NVIDIA driver|no devices were found|driver not loaded", re.IGNORECASE
)
_BLIND = re.compile(
    r"\s*(?:failed to initialize nvml|insufficient permissions|field .* is not a valid field)", re.IGNORECASE
)
_HANDLE = re.compile(
    r"unable to determine the device handle for gpu\s*"
    r"(?:(\d+):\s+)?(?:([0-9a-f]+:[0-9a-f]{2}:[0-9a-f.]+):?\s*)?(.*)",
    re.IGNORECASE,
)
_RESET = re.compile(r"\s*(?:NVML: |Failed to initialize NVML: )?(GPU requires reset)\.?", re.IGNORECASE)
_INFOROM = re.compile(r"warning: (inforom is corrupted) at gpu ([0-9a-f:.]+)", re.IGNORECASE)


def read(text: str, asked: Sequence[str] = ()) -> Readout:
    """The GPUs in one output; `asked` are the fields of --query-gpu, for CSV without a header.

    A GPU that has fallen off the bus is one in `trouble`; others may be hidden behind it. UnreadableError,
    with the line, where nothing is said of GPUs: a driver that does not fit its library, no permission.
    """
    lines = value.lines(text)
    lost = tuple(_lost(match) for line in lines if (match := _HANDLE.search(line)))
    rest = [line for line in lines if not _HANDLE.search(line)]
    found = _gpus(rest, asked)
    if not lost and not (found and found.gpus):
        lost = tuple(Gpu(trouble=match[1]) for line in lines if (match := _RESET.fullmatch(line)))
    if lost:
        return merged(Readout(lost, complete=False), found or Readout())
    if found:
        return replace(found, gpus=tuple(_marked(gpu, lines) for gpu in found.gpus))
    said = next((line.strip() for line in lines if _BLIND.match(line)), "")
    missing = next((line.strip() for line in lines if _ABSENT.search(line)), "")
    if missing and not said:
        return Readout(absent=missing)
    raise UnreadableError(f"nvidia-smi says nothing of GPUs: '{said or value.first_line(text)}'")


def _gpus(lines: Sequence[str], asked: Sequence[str]) -> Readout | None:
    if nvidiaq.fits(lines):
        return nvidiaq.read(lines)
    if nvidiatable.fits(lines):
        return nvidiatable.read(lines)
    if any(_BLIND.match(line) or _ABSENT.search(line) for line in lines):
        return None
    return nvidiacsv.read(lines, asked)


def _lost(match: re.Match[str]) -> Gpu:
    reason = match[3].strip().rstrip(".") or "no device handle"
    return Gpu(digits(match[1]) if match[1] else None, bus=match[2] or "", trouble=reason)


def _marked(gpu: Gpu, lines: Sequence[str]) -> Gpu:
    """With the warning about it that stands beside the table."""
    for line in lines:
        match = _INFOROM.match(line)
        if match and gpu.mig is None and kernel.same_bus(gpu.bus, match[2]):
            return replace(gpu, inforom=f"its {match[1]}")
    return gpu
