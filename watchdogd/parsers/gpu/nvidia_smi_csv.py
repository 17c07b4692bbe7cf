"""`nvidia-smi --query-gpu=... --format=csv`, with or without header and units, once or repeated (-l).

Columns are known by the header, else by the fields that were asked for, else by what their cells look like.
N/A comes with brackets and without, single cells hold error words, and some separators lack their blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import values
from watchdogd.parsers.gpu.models import Gpu, Readout

FIELDS = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "utilization.gpu",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "memory.used",
    "memory.total",
    "ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.volatile.total",
)
"""Fields to ask for. All drivers since 2016 know them: one unknown field makes the whole query fail."""
_FIELD = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)(?: \[[^\]]+\])?")
_KNOWN = re.compile(
    r"index|uuid|gpu_uuid|name|gpu_name|timestamp|(?:utilization|memory|power|temperature|ecc|clocks|pci|fan)\..+"
    r"|(?:remapped_rows|retired_pages|clocks_(?:throttle|event)_reasons)\..+"
)
_REASON = re.compile(
    r"clocks_(?:throttle|event)_reasons\.((?:hw|sw)_(?:thermal_|power_brake_)?slowdown)", re.IGNORECASE
)
_ACTIVE = re.compile(r"clocks_(?:throttle|event)_reasons\.active")
_BITS = {
    0x08: "hw slowdown",
    0x20: "sw thermal slowdown",
    0x40: "hw thermal slowdown",
    0x80: "hw power brake slowdown",
}
"""Bits of nvmlClocksEventReasons that slow a GPU down; the others are idleness, power capping, settings."""
_PARTS = re.compile(r"ecc\.errors\.uncorrected\.volatile\.(?:dram|sram)")
_RULES = values.rules(r"""
index  count  index
uuid  text  (?:gpu_)?uuid
name  text  (?:gpu_)?name
bus  text  (?:pci|gpu)[._]bus_id
utilisation  number  utilization\.gpu
power_w  number  power\.draw(?:\.instant)?  power\.draw\.average
power_cap_w  number  enforced\.power\.limit  power\.limit
temperature_c  number  temperature\.gpu
clock_mhz  number  clocks\.(?:current\.)?(?:sm|gr|graphics)
vram_used  MiB  memory\.used
vram_total  MiB  memory\.total
ecc_uncorrectable  count  ecc\.errors\.uncorrected\.aggregate\.total
ecc_volatile  count  ecc\.errors\.uncorrected\.volatile\.total
remap_pending  yes  remapped_rows\.pending  retired_pages\.pending
remap_failed  yes  remapped_rows\.failure
""")
_LOOKS = (
    (r"GPU-[0-9a-f-]{8,}", ("uuid",)),
    (r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d", ("pci.bus_id",)),
    (r"[\d.]+ %", ("utilization.gpu", "utilization.memory")),
    (r"[\d.]+ W", ("power.draw", "power.limit")),
    (r"\d+ MiB", ("memory.used", "memory.total", "memory.free")),
    (r"\d+", ("index", "temperature.gpu")),
    (r".*[A-Za-z]{3}.*", ("name",)),
)
"""Patterns of cells and the fields that look like that, in the order in which they are usually asked for.
Nothing is guessed if no column has a unit, since bare numbers could be anything."""


def read(lines: Sequence[str], asked: Sequence[str] = ()) -> Readout | None:
    """Return the GPUs, with the last sample of each; None if no line belongs to such a table.

    Without a column that identifies GPUs, all rows are of one GPU. Raise UnreadableError for a list of
    processes.
    """
    header: list[str] = []
    rows: list[list[str]] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if named := _header(cells):
            header = named
        elif line.strip() and (len(cells) > 1 or len(header or asked) == 1):
            rows.append(cells)
    if "process_name" in header:
        raise UnreadableError("nvidia-smi lists processes here, not GPUs")
    names = header or (list(asked) if rows and len(rows[0]) == len(asked) else _guess(rows))
    if not rows or not names:
        return None
    return Readout(_gpus(names, rows))


def _header(cells: Sequence[str]) -> list[str]:
    """Return the fields of a header line, without units; empty if it is not a header."""
    matches = [_FIELD.fullmatch(cell) for cell in cells]
    names = [match[1] for match in matches if match]
    return names if len(names) == len(cells) and any(_KNOWN.fullmatch(name) for name in names) else []


def _guess(rows: Sequence[Sequence[str]]) -> list[str]:
    """Guess the fields of a table without header from its cells; empty if it is not such a table."""
    if not rows or len({len(row) for row in rows}) != 1:
        return []
    names: list[str] = []
    for column in zip(*rows, strict=True):
        cells = [cell for cell in column if not values.is_absent(cell) and not values.error_word(cell)]
        fields = next((fields for looks, fields in _LOOKS if _all(looks, cells)), ())
        names.append(next((field for field in fields if field not in names), f"column {len(names)}"))
    return names if "utilization.gpu" in names or "memory.used" in names else []


def _all(looks: str, cells: Sequence[str]) -> bool:
    return bool(cells) and all(re.fullmatch(looks, cell) for cell in cells)


def _gpus(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[Gpu, ...]:
    found: dict[object, Gpu] = {}
    for row in rows:
        if len(row) != len(names):
            raise UnreadableError(f"a line of nvidia-smi's CSV does not fit its columns: '{', '.join(row)}'")
        gpu = _gpu(dict(zip(names, row, strict=True)))
        key = gpu.uuid or gpu.bus or gpu.index
        number = list(found).index(key) if key in found else len(found)
        found[key] = gpu if gpu.index is not None else replace(gpu, index=number)
    return tuple(found.values())


def _gpu(facts: values.Facts) -> Gpu:
    gpu = values.gpu_of(facts, _RULES, throttled=_throttled(facts))
    parts = [values.count(cell) for name, cell in facts.items() if _PARTS.fullmatch(name)]
    if gpu.ecc_volatile is None and any(part is not None for part in parts):
        gpu = replace(gpu, ecc_volatile=sum(part or 0 for part in parts))
    free = values.mebibytes(facts.get("memory.free", ""))
    if gpu.vram_total is None and gpu.vram_used is not None and free is not None:
        return replace(gpu, vram_total=gpu.vram_used + free)
    return gpu


def _throttled(facts: values.Facts) -> tuple[str, ...]:
    """Read the reasons from one column each, or from one column of bits."""
    named = values.throttling(facts, _REASON)
    masks = [cell for name, cell in facts.items() if _ACTIVE.fullmatch(name) and cell.startswith("0x")]
    bits = int(masks[0], 16) if masks and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", masks[0]) else 0
    return tuple(dict.fromkeys((*named, *(words for bit, words in _BITS.items() if bits & bit))))
