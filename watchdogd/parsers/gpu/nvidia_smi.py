"""nvidia-smi of all versions, in the formats that the probe asks for: -q, CSV, table; and its error messages.

The table that it prints without arguments has three lines for each GPU, and boxes for MIG devices:

|   0  NVIDIA A40          On   | 00000000:44:00.0 Off |                    0 |
|  0%   30C    P8    14W / 300W |      0MiB / 46068MiB |      0%      Default |
|                               |                      |                  N/A |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import kernel_log, nvidia_smi_csv, nvidia_smi_q, values
from watchdogd.parsers.gpu.models import Gpu, Readout, merged
from watchdogd.system.number import digits

_HEAD = re.compile(r"\s*(\d+)\s{1,20}(\S.{0,98}?)\s{1,99}(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*")
_SENSORS = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+(?: Error)?)\s*/\s*(\S+(?: Error)?)\s*")
_BUS = re.compile(r"\s*(?:[^\s:]++:|N/A\s+N/A\b).*")
_MEMORY = re.compile(r"\s*(\S+)\s*/\s*(\S+)\s*")
_MIG = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*")
_PROCESSES = re.compile(r"\|\s+Processes:")
_TABLE_RULES = values.rules(r"""
name  text  name
bus  text  bus
utilisation  number  utilisation
power_w  number  power
power_cap_w  number  power cap
temperature_c  number  temperature
vram_used  MiB  memory used
vram_total  MiB  memory total
ecc_volatile  count  ecc
""")


def _read_table(lines: Sequence[str]) -> Readout:
    """Return the GPUs, followed by the MIG devices."""
    found: list[Gpu] = []
    facts: values.Facts = {}
    number = 0
    for line in lines:
        if _PROCESSES.match(line):
            break
        cells = _row(line)
        if cells and (mig := _MIG.fullmatch(cells[0])):
            found.append(_mig(mig, cells))
        elif cells and (head := _HEAD.fullmatch(cells[0])):
            number = digits(head[1])
            facts = {"name": head[2], "bus": cells[1].split()[0], "ecc": cells[2].strip()}
            found.append(values.gpu_of(facts, _TABLE_RULES, index=number))
        elif facts and len(cells := _cells(line)) == 3:
            facts |= _more(cells)
            found[-1] = values.gpu_of(facts, _TABLE_RULES, index=number)
        else:
            facts = {}
    return Readout(tuple(found))


def _cells(line: str) -> list[str]:
    return line.split("|")[1:-1] if line.startswith("|") and line.endswith("|") else []


def _row(line: str) -> list[str]:
    """Return the cells if the line is the first one of a GPU or of a MIG device, else none."""
    cells = _cells(line)
    if len(cells) == 3 and _HEAD.fullmatch(cells[0]) and _BUS.fullmatch(cells[1]):
        return cells
    return cells if len(cells) >= 4 and _MIG.fullmatch(cells[0]) and _MEMORY.fullmatch(cells[1]) else []


def _more(cells: Sequence[str]) -> values.Facts:
    """Read the second line of a GPU, or the third (whose last cell is the MIG mode)."""
    sensors, memory = _SENSORS.fullmatch(cells[0]), _MEMORY.fullmatch(cells[1])
    if sensors is None:
        return {"mig": cells[2].strip()}
    facts = {
        "fan": sensors[1],
        "temperature": sensors[2],
        "power": sensors[4],
        "power cap": sensors[5],
        "utilisation": next(iter(cells[2].split()), ""),
    }
    return {**facts, "memory used": memory[1], "memory total": memory[2]} if memory else facts


def _mig(match: re.Match[str], cells: Sequence[str]) -> Gpu:
    """Read a MIG device (`GPU GI CI Dev`); its memory is in the first line, the second has BAR1."""
    memory = _MEMORY.fullmatch(cells[1])
    ecc = cells[2].split()
    return Gpu(
        digits(match[1]),
        mig=digits(match[4]),
        vram_used=values.mebibytes(memory[1]) if memory else None,
        vram_total=values.mebibytes(memory[2]) if memory else None,
        ecc_volatile=values.count(ecc[-1]) if ecc else None,
    )


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
    """Return the GPUs in one output; `asked` are the fields of --query-gpu, for CSV without a header.

    A GPU that has fallen off the bus is returned with `trouble`; it may hide others. Raise UnreadableError,
    with the line, if there is nothing about GPUs: driver and library do not match, no permission.
    """
    lines = values.lines(text)
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
    raise UnreadableError(f"nvidia-smi says nothing of GPUs: '{said or values.first_line(text)}'")


def _gpus(lines: Sequence[str], asked: Sequence[str]) -> Readout | None:
    if nvidia_smi_q.fits(lines):
        return nvidia_smi_q.read(lines)
    if any(_row(line) for line in lines):
        return _read_table(lines)
    if any(_BLIND.match(line) or _ABSENT.search(line) for line in lines):
        return None
    return nvidia_smi_csv.read(lines, asked)


def _lost(match: re.Match[str]) -> Gpu:
    reason = match[3].strip().rstrip(".") or "no device handle"
    return Gpu(digits(match[1]) if match[1] else None, bus=match[2] or "", trouble=reason)


def _marked(gpu: Gpu, lines: Sequence[str]) -> Gpu:
    """Add the warning about this GPU that stands beside the table."""
    for line in lines:
        match = _INFOROM.match(line)
        if match and gpu.mig is None and kernel_log.same_bus(gpu.bus, match[2]):
            return replace(gpu, inforom=f"its {match[1]}")
    return gpu
