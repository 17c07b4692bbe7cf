"""`nvidia-smi --query-gpu=... --format=csv`: a header, then a line for each GPU.

N/A comes with brackets and without, single cells hold error words, and some separators lack their blank.
"""

from __future__ import annotations

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
_RULES = values.rules(r"""
index  count  index
uuid  text  uuid
name  text  name
bus  text  pci\.bus_id
utilisation  number  utilization\.gpu
power_w  number  power\.draw
power_cap_w  number  power\.limit
temperature_c  number  temperature\.gpu
vram_used  MiB  memory\.used
vram_total  MiB  memory\.total
ecc_uncorrectable  count  ecc\.errors\.uncorrected\.aggregate\.total
ecc_volatile  count  ecc\.errors\.uncorrected\.volatile\.total
""")


def read(lines: Sequence[str]) -> Readout | None:
    """Return the GPUs; None if no line belongs to such a table."""
    header: list[str] = []
    found: list[Gpu] = []
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        names = [cell.partition(" [")[0] for cell in cells]
        if not header and set(FIELDS).issuperset(names):
            header = names
        elif header and line.strip():
            if len(cells) != len(header):
                raise UnreadableError(f"a line of nvidia-smi's CSV does not fit its header: '{line.strip()}'")
            gpu = values.gpu_of(dict(zip(header, cells, strict=True)), _RULES)
            found.append(gpu if gpu.index is not None else replace(gpu, index=len(found)))
    return Readout(tuple(found)) if found else None
