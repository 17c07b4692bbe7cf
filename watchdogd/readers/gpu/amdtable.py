"""The two flat forms of amd-smi: the boxes that it prints when asked for nothing (ROCm 7), and `--csv`.

| 0000:0c:00.0    AMD Instinct MI300X | 13 %     60 °C   0           734/750 W |
|   0       0       2        SPX/NPS1 | 98 %       N/A        184976/196592 MB |

    gpu,gfx_activity,umc_activity,vcn_activity,socket_power,hotspot,mem,total_uncorrectable_count
    0,97,43,"['N/A', 'N/A']",687,71,52,0
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.system.number import count, digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.readers.gpu.rules import Facts

_FIRST = re.compile(
    r"\|\s*([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\s+([^|\s]++(?: ++[^|\s]++)*?)\s*+\|"
    r"\s*(?:N/A|\S+ %)\s+(N/A|\S+ \S*C)\s+(\S+)\s+(?:([\d.]+|N/A)(?:/([\d.]+|N/A))? W|N/A)\s*\|",
    re.IGNORECASE,
)
_SECOND = re.compile(
    r"\|\s*(\d+)\s+\S+\s+\S+\s+[^\s|]++\s*+\|\s*(N/A|\S+ %)\s+\S+(?: %)?\s+"
    r"(?:([^\s/]++)/\s*([^\s/]++) ([KMGT]B)|N/A)\s*\|"
)


def boxes(lines: Sequence[str]) -> dict[int, Facts]:
    """Two lines a GPU; processes follow in a box of their own."""
    found: dict[int, Facts] = {}
    first: Facts = {}
    for line in lines:
        if match := _FIRST.fullmatch(line):
            names = ("bdf", "asic/market_name", "hotspot_temperature", "double_ecc", "power", "power_cap")
            first = {name: cell for name, cell in zip(names, match.groups(), strict=True) if cell}
        elif first and (match := _SECOND.fullmatch(line)):
            facts = {**first, "gfx": match[2]}
            if match[5]:
                facts |= {"vram_used": f"{match[3]} {match[5]}", "vram_total": f"{match[4]} {match[5]}"}
            found[digits(match[1])], first = facts, {}
    return found


def rows(lines: Sequence[str]) -> dict[int, Facts]:
    """`--csv` of metric, monitor, static and list: a line a GPU, of several samples the last.

    UnreadableError, with the line, where one does not fit its header, or where it lists processes.
    """
    found: dict[int, Facts] = {}
    header: list[str] = []
    for line in lines:
        names = line.strip().lower().split(",")
        if "gpu" in names[:2] and len(names) > 1:
            header = names
            if "pid" in names:
                raise UnreadableError("amd-smi lists processes here, not the state of GPUs")
        elif header and "," in line:
            cells = next(csv.reader([line]))
            if len(cells) != len(header):
                raise UnreadableError(f"a line of amd-smi --csv does not fit its header: '{line[:200]}'")
            facts = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            if (index := count(facts.pop("gpu"))) is not None:
                found[index] = facts
    return found
