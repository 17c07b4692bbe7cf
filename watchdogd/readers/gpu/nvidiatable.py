"""The table that nvidia-smi prints when asked for nothing: boxes of three lines a GPU, and of MIG devices.

|   0  NVIDIA A40          On   | 00000000:44:00.0 Off |                    0 |
|  0%   30C    P8    14W / 300W |      0MiB / 46068MiB |      0%      Default |
|                               |                      |                  N/A |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd.readers.gpu import rules, value
from watchdogd.readers.gpu.gpu import Gpu, Readout
from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = re.compile(r"\s*(\d+)\s{1,20}(\S.{0,98}?)\s{1,99}(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*")
_SENSORS = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+(?: Error)?)\s*/\s*(\S+(?: Error)?)\s*")
_BUS = re.compile(r"\s*(?:[^\s:]++:|N/A\s+N/A\b).*")
_MEMORY = re.compile(r"\s*(\S+)\s*/\s*(\S+)\s*")
_MIG = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*")
_PROCESSES = re.compile(r"\|\s+Processes:")
_RULES = (
    rules.rule("name", value.text, "name"),
    rules.rule("bus", value.text, "bus"),
    rules.rule("utilisation", value.number, "utilisation"),
    rules.rule("power_w", value.number, "power"),
    rules.rule("power_cap_w", value.number, "power cap"),
    rules.rule("temperature_c", value.number, "temperature"),
    rules.rule("vram_used", value.mebibytes, "memory used"),
    rules.rule("vram_total", value.mebibytes, "memory total"),
    rules.rule("ecc_volatile", value.count, "ecc"),
)


def fits(lines: Sequence[str]) -> bool:
    """Whether a row of this table is there."""
    return any(_row(line) for line in lines)


def read(lines: Sequence[str]) -> Readout:
    """Its GPUs, and its MIG devices after them."""
    found: list[Gpu] = []
    facts: rules.Facts = {}
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
            found.append(rules.gpu(facts, _RULES, index=number))
        elif facts and len(cells := _cells(line)) == 3:
            facts |= _more(cells)
            found[-1] = rules.gpu(facts, _RULES, index=number)
        else:
            facts = {}
    return Readout(tuple(found))


def _cells(line: str) -> list[str]:
    return line.split("|")[1:-1] if line.startswith("|") and line.endswith("|") else []


def _row(line: str) -> list[str]:
    """The cells of a first line of a GPU or of a MIG device, or none."""
    cells = _cells(line)
    if len(cells) == 3 and _HEAD.fullmatch(cells[0]) and _BUS.fullmatch(cells[1]):
        return cells
    return cells if len(cells) >= 4 and _MIG.fullmatch(cells[0]) and _MEMORY.fullmatch(cells[1]) else []


def _more(cells: Sequence[str]) -> rules.Facts:
    """The second line of a GPU, or the third, whose last cell is the MIG mode."""
    sensors, memory = _SENSORS.fullmatch(cells[0]), _MEMORY.fullmatch(cells[1])
    if sensors is None:
        return {"mig": cells[2].strip()}
    facts = {
        "fan": sensors[1],
        "temperature": sensors[2],
        "power": sensors[4],
        "power cap": sensors[5],
        "utilisation": cells[2].split()[0],
    }
    return {**facts, "memory used": memory[1], "memory total": memory[2]} if memory else facts


def _mig(match: re.Match[str], cells: Sequence[str]) -> Gpu:
    """`GPU GI CI Dev`; the memory of the first line is the device's, that of the second BAR1."""
    memory = _MEMORY.fullmatch(cells[1])
    ecc = cells[2].split()
    return Gpu(
        digits(match[1]),
        mig=digits(match[4]),
        vram_used=value.mebibytes(memory[1]) if memory else None,
        vram_total=value.mebibytes(memory[2]) if memory else None,
        ecc_volatile=value.count(ecc[-1]) if ecc else None,
    )
