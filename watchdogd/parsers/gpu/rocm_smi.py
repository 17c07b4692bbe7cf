"""rocm-smi 1.4 to 7.2: the concise table, `--show...` blocks, --showhw, --showrasinfo, JSON and CSV.

All formats become named cells for each card, whatever option printed them. The exit code means nothing: it is
0 without a driver, and 2 with good data.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import values
from watchdogd.parsers.gpu.models import Gpu, Readout
from watchdogd.system.number import count, digits

_ABSENT = re.compile(
    r"driver not initialized|not found in modules"
    r"|no (?:amd )?gpus? (?:devices? )?(?:found|detected|specified)",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"GPU\[(\d+)\]\s*:\s*+(.+?):\s+(.*)")
_RAS_TITLE = re.compile(r"GPU\[(\d+)\]\s*:\s*RAS INFO", re.IGNORECASE)
_RAS_ROW = re.compile(r"\s*(\w+)\s+(?!DISABLED)[A-Z]+\s+\d+\s+(\d+)")
_CARD = re.compile(r"card(\d+)")
_NUMA = re.compile(r",\s+")
_GAP = re.compile(r"\s{2,}")
_RULES = values.rules(r"""
uuid  text  unique id  gpu uuid
name  text  card series  device name
bus  text  pci bus  bus
partition  count  partition id
utilisation  number  gpu use \(%\)  gpu%
power_w  number  (?:current socket|average).* power \(w\)  avgpwr  power
power_cap_w  number  max graphics package power \(w\)  pwrcap
temperature_c  number  temperature \(sensor junction\) \(c\)  temperature \(sensor edge\) \(c\)
temperature_c  number  temp(?: \(.*\))?
clock_mhz  MHz  sclk(?: clock (?:speed|level))?:?
vram_used  bytes  vram total used memory \(b\)
vram_total  bytes  vram total memory \(b\)
vram_percent  number  vram%  gpu memory allocated \(vram%\)
ecc_uncorrectable  count  ras uncorrectable
""")


def read(text: str) -> Readout:
    """Return the GPUs in one output. Raise UnreadableError, with the line, if it is not this tool's."""
    lines = values.lines(text)
    sources = (_json(text), _csv(lines), _table(lines), _blocks(lines), _ras(lines))
    found = values.readout("rocm-smi", text, sources, _gpu, _ABSENT)
    return replace(found, complete=_complete(text)) if found.gpus else found


def _complete(text: str) -> bool:
    """Return False if the closing banner is missing: the tool was killed, or the output cut."""
    return "ROCm System Management Interface" not in text or "End of ROCm SMI Log" in text


def _gpu(index: int, facts: values.Facts) -> Gpu:
    """Build a Gpu, in `trouble` if its driver hangs.

    Such a card has the performance level `unknown`, no sensors, and 0 % that mean nothing.
    """
    partition = facts.get("Partitions", "").split(",")
    if len(partition) == 3 and partition[1] not in ("N/A", "SPX"):
        facts = {**facts, "partition id": partition[2]}
    gpu = values.gpu_of(facts, _RULES, index=index)
    gpu = replace(gpu, ecc_volatile=gpu.ecc_uncorrectable)
    level = (facts.get("Perf") or facts.get("Performance Level") or "").lower()
    if level == "unknown" and gpu.temperature_c is None and gpu.power_w is None and not gpu.partition:
        trouble = "its driver no longer answers: no sensor, performance level unknown"
        return Gpu(index, uuid=gpu.uuid, name=gpu.name, bus=gpu.bus, trouble=trouble)
    return gpu


def _json(text: str) -> dict[int, values.Facts]:
    """Read `{"card0": {...}, "system": {...}}`, whatever precedes it."""
    begin = re.search(r"^[ \t]*+\{", text, re.MULTILINE)
    if not begin:
        return {}
    try:
        document: Any = json.JSONDecoder().raw_decode(text[begin.end() - 1 :])[0]
    except (ValueError, RecursionError) as error:
        raise values.broken_json("rocm-smi", text, error) from None
    return {
        digits(match[1]): {str(name): str(cell) for name, cell in facts.items()}
        for card, facts in document.items()
        if (match := _CARD.fullmatch(card)) and isinstance(facts, dict)
    }


def _csv(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Read `device,...` and a line for each card; several such tables may follow one another."""
    found: dict[int, values.Facts] = defaultdict(dict)
    header: list[str] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] == "device":
            header = cells[1:]
        elif header and (match := _CARD.fullmatch(cells[0])):
            if len(cells) - 1 > len(header):
                raise UnreadableError(f"a line of rocm-smi --csv has too many cells: '{line[:200]}'")
            found[digits(match[1])].update(zip(header, cells[1:], strict=False))
    return found


def _table(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Read the concise table and --showhw: columns named by the header, cells two blanks apart."""
    found: dict[int, values.Facts] = defaultdict(dict)
    header: list[str] = []
    for line in lines:
        cells = _GAP.split(_NUMA.sub(",", line.strip()))
        if cells[0] in ("GPU", "Device") and len(cells) > 3:
            header = cells
        elif header and count(cells[0]) is not None and line[:1].isdecimal():
            if len(cells) != len(header):
                raise UnreadableError(f"a line of rocm-smi's table does not fit its header: '{line[:200]}'")
            found[digits(cells[0])].update(zip(header[1:], cells[1:], strict=True))
    return found


def _blocks(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Read `GPU[0] : Name: value` of any --show option; values may contain colons."""
    found: dict[int, values.Facts] = defaultdict(dict)
    for line in lines:
        if (match := _BLOCK.match(line)) and not line.startswith("ERROR"):
            facts = found[digits(match[1])]
            if values.is_absent(facts.get(name := match[2].rstrip(), "")):
                facts[name] = match[3].strip()
    return found


def _ras(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Sum the uncorrectable errors in `--showrasinfo`, a table for each GPU: `UMC ENABLED 0 0`.

    DISABLED blocks are skipped: they count nothing, and print whatever was in memory.
    """
    counts: dict[int, int] = {}
    index = None
    for line in lines:
        if title := _RAS_TITLE.match(line):
            index = digits(title[1])
        elif index is not None and (row := _RAS_ROW.fullmatch(line)):
            counts[index] = counts.get(index, 0) + digits(row[2])
    return {number: {"ras uncorrectable": str(errors)} for number, errors in counts.items()}
