"""amd-smi, all versions: `metric`, `static` and `list` as text, JSON or CSV, `monitor`, and its own table.

Forms as printed by amd-smi 24 to 27. Warnings and watch's banner may stand before the JSON, several documents
may follow one another (the last one counts), ROCm 7 wraps the list in `gpu_data`, a value is a number, a
`{"value", "unit"}` or "N/A". The exit code may be 2 with valid JSON. The boxes that it prints when asked for
nothing (ROCm 7), and `--csv`:

| 0000:0c:00.0    AMD Instinct MI300X | 13 %     60 °C   0           734/750 W |
|   0       0       2        SPX/NPS1 | 98 %       N/A        184976/196592 MB |

    gpu,gfx_activity,umc_activity,vcn_activity,socket_power,hotspot,mem,total_uncorrectable_count
    0,97,43,"['N/A', 'N/A']",687,71,52,0
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import rocm_smi, values
from watchdogd.parsers.gpu.models import CARVE_OUT, Gpu, Readout
from watchdogd.parsers.gpu.values import Facts
from watchdogd.system.number import count, digits

_FIRST = re.compile(
    r"\|\s*([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)\s+([^|\s]++(?: ++[^|\s]++)*?)\s*+\|"
    r"\s*(?:N/A|\S+ %)\s+(N/A|\S+ \S*C)\s+(\S+)\s+(?:([\d.]+|N/A)(?:/([\d.]+|N/A))? W|N/A)\s*\|",
    re.IGNORECASE,
)
_SECOND = re.compile(
    r"\|\s*(\d+)\s+\S+\s+\S+\s+[^\s|]++\s*+\|\s*(N/A|\S+ %)\s+\S+(?: %)?\s+"
    r"(?:([^\s/]++)/\s*([^\s/]++) ([KMGT]B)|N/A)\s*\|"
)


def _boxes(lines: Sequence[str]) -> dict[int, Facts]:
    """Read the boxes, two lines for each GPU; processes follow in a box of their own."""
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


def _csv_rows(lines: Sequence[str]) -> dict[int, Facts]:
    """Read `--csv` of metric, monitor, static and list: a line for each GPU, the last of several samples.

    Raise UnreadableError, with the line, if a line does not fit its header, or for a list of processes.
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


_ABSENT = re.compile(
    r"driver not initialized|not found in modules|unable to detect any gpu|driver_not_loaded"
    r"|no gpus? (?:found|detected)",
    re.IGNORECASE,
)
_OPENING = re.compile(r"^[ \t]*+[\[{]", re.MULTILINE)
_HEADER = re.compile(r"\s*GPU(?:\s+[A-Z0-9_%]+)+")
_ROW = re.compile(r"\s*\d+\s")
_UNIT = r"(?:%|°?C|[KMG]?Hz|m?[WVJ]|[KMGT]?i?B(?:/s)?|[KMG]b/s|ns)(?=\s|$)"
_CELL = re.compile(rf"N/A(?:\s{_UNIT})?|[\d.]+/\s*[\d.]+(?:\s?{_UNIT})?|-?[\d.]+(?:\s?{_UNIT})?|\S+")
_VIOLATION = re.compile(r"(?:throttle/)?(prochot|socket_thermal|vr_thermal|hbm_thermal)_violation_status")
_BAD_PAGES = re.compile(r"(?:ras/)?bad_page_threshold_exceeded")
_VIOLATION_COLUMNS = {
    "tviol": "thermal",
    "phot_tviol": "prochot",
    "vr_tviol": "vr thermal",
    "hbm_tviol": "hbm thermal",
}
_RULES = values.rules(r"""
uuid  text  (?:gpu_)?uuid  (?:asic/)?asic_serial
name  text  (?:asic/)?market_name
bus  text  (?:gpu_)?bdf  bus/bdf
partition  count  partition_id  partition/partition_id  xcp
utilisation  number  (?:usage/)?gfx_activity  gfx  gfx%  gfx_util(?:ization)?
power_w  number  (?:power/)?(?:current_)?socket_power  (?:power/)?average_socket_power  power(?:_usage)?
power_cap_w  number  (?:limit/(?:.*/)?)?(?:socket_)?power_limit  (?:limit/)?max_power
power_cap_w  number  limit/(?:.*/)?max_power_limit  power_cap
temperature_c  number  (?:temperature/)?hotspot  (?:temperature/)?edge  gpu_t(?:emp)?  hotspot_temperature
clock_mhz  number  (?:clock/)?gfx(?:_0)?/clk  gfx_cl(?:oc)?k
slowdown_c  number  (?:limit/)?slowdown_hotspot_temperature  (?:limit/)?slowdown_(?:edge_)?temperature
vram_used  MiB  (?:mem_usage/)?used_vram  vram_used
vram_total  MiB  (?:mem_usage/)?total_vram  vram_total
ecc_uncorrectable  count  (?:ecc/)?total_uncorrectable_count  double_(?:bit_)?ecc  blocks uncorrectable
""")


def read(text: str) -> Readout:
    """Return the GPUs in one output; that of `--rocm-smi` is read as rocm-smi's.

    Raise UnreadableError, with the line, if it is not this tool's.
    """
    if "ROCm System Management Interface" in text:
        return rocm_smi.read(text)
    lines = values.lines(text)
    sources = (_json(text), _text(lines), _monitor(lines), _boxes(lines), _csv_rows(lines))
    return values.readout("amd-smi", text, sources, _gpu, _ABSENT)


def _gpu(index: int, facts: values.Facts) -> Gpu:
    facts = {**_usage(facts), **_blocks(facts), **facts}
    active = values.throttling(facts, _VIOLATION) + tuple(
        reason for name, reason in _VIOLATION_COLUMNS.items() if (values.number(facts.get(name, "")) or 0) > 0
    )
    if "THROTTLED" in (facts.get(name, "").upper() for name in ("power/throttle_status", "throttle_status")):
        active = (*active, "throttled")
    bad = any(values.yes(cell) for name, cell in facts.items() if _BAD_PAGES.fullmatch(name))
    worn = "more bad pages of memory than its maker allows" if bad else ""
    gpu = values.gpu_of(facts, _RULES, index=index, throttled=active, worn=worn)
    return _shared(replace(gpu, ecc_volatile=gpu.ecc_uncorrectable), facts)


def _usage(facts: values.Facts) -> values.Facts:
    """Read monitor's newer column `3.0/191.7 GB`; for an APU that works in GTT, the column for GTT."""
    cell = facts.get("vram_usage") or facts.get("gtt_usage") or ""
    match = re.fullmatch(r"([\d.]+)/\s*([\d.]++)\s*(\w+)", cell)
    return {"vram_used": f"{match[1]} {match[3]}", "vram_total": f"{match[2]} {match[3]}"} if match else {}


def _blocks(facts: values.Facts) -> values.Facts:
    """Sum the counters of `--ecc-blocks`, for versions that do not print totals."""
    cells = [cell for name, cell in facts.items() if re.fullmatch(r"ecc_blocks/.*/uncorrectable_count", name)]
    counts = [count for cell in cells if (count := values.count(cell)) is not None]
    return {"blocks uncorrectable": str(sum(counts))} if counts else {}


def _shared(gpu: Gpu, facts: values.Facts) -> Gpu:
    """Use the machine's memory (GTT) for an APU, whose own memory is only a carve-out."""
    total = values.mebibytes(facts.get("mem_usage/total_gtt", ""))
    used = values.mebibytes(facts.get("mem_usage/used_gtt", ""))
    if gpu.vram_total is None or gpu.vram_total >= CARVE_OUT or not total or total < gpu.vram_total:
        return gpu
    return replace(gpu, vram_used=used, vram_total=total)


def _json(text: str) -> dict[int, values.Facts]:
    """Read all documents; later ones override earlier ones."""
    found: dict[int, values.Facts] = {}
    position = 0
    while begin := _OPENING.search(text, position):
        try:
            document, position = json.JSONDecoder().raw_decode(text, begin.end() - 1)
        except (ValueError, RecursionError) as error:
            raise values.broken_json("amd-smi", text, error) from None
        for entry in _entries(document):
            found[entry["gpu"]] = dict(_flat(entry))
    return found


def _entries(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects that hold a GPU's state."""
    if isinstance(document, dict):
        document = document.get("gpu_data", [document])
    for entry in document if isinstance(document, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("gpu"), int):
            if "process_list" in entry:
                raise UnreadableError("amd-smi lists processes here, not the state of GPUs")
            yield entry


def _flat(entry: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield nested values as `usage/gfx_activity`, `47 %`; skip lists, which are about single engines."""
    for name, inner in entry.items():
        if isinstance(inner, dict) and inner.keys() == {"value", "unit"}:
            yield above + name, "N/A" if inner["value"] == "N/A" else f"{inner['value']} {inner['unit']}"
        elif isinstance(inner, dict):
            yield from _flat(inner, f"{above}{name}/")
        elif not isinstance(inner, list):
            yield above + name, str(inner)


def _text(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Read indented `NAME: value` lines below `GPU: 0`; skip the continuation lines of wrapped lists."""
    found: dict[int, values.Facts] = {}
    index: int | None = None
    path: list[str] = []
    for line in lines:
        name, colon, cell = line.strip().partition(":")
        depth = (len(line) - len(line.lstrip())) // 4
        if line.startswith("GPU:") and (number := count(cell)) is not None:
            index, path = number, []
            found.setdefault(index, {})
        elif index is not None and colon and depth and re.fullmatch(r"\w+", name):
            path = [*path[: depth - 1], name.lower()]
            if cell.strip():
                found[index]["/".join(path)] = cell.strip()
    return found


def _monitor(lines: Sequence[str]) -> dict[int, values.Facts]:
    """Read the table `GPU POWER GPU_TEMP ...`, which processes may follow."""
    found: dict[int, values.Facts] = {}
    header: list[str] = []
    for line in lines:
        if line.startswith("PROCESS INFO"):
            break
        if _HEADER.fullmatch(line):
            header = line.lower().split()
        elif header and _ROW.match(line):
            cells = _CELL.findall(line)
            if len(cells) != len(header) or not cells[0].isdecimal():
                raise UnreadableError(f"a line of amd-smi monitor does not fit its header: '{line.strip()}'")
            found[digits(cells[0])] = dict(zip(header[1:], cells[1:], strict=True))
    return found
