"""nvidia-smi of all versions, in the formats that the probe asks for: -q, CSV, table; and its error messages.

The table that it prints without arguments has three lines for each GPU, and boxes for MIG devices:

|   0  NVIDIA A40          On   | 00000000:44:00.0 Off |                    0 |
|  0%   30C    P8    14W / 300W |      0MiB / 46068MiB |      0%      Default |
|                               |                      |                  N/A |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from watchdogd.errors import UnreadableError
from watchdogd.parsers.gpu import kernel_log, nvidia_smi_csv, values
from watchdogd.parsers.gpu.models import Gpu, Readout, merged
from watchdogd.system.number import digits

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\S*|[0-9A-Fa-f]{8}:\S+)")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*(\d+)")
_REASON = re.compile(
    r"clocks (?:throttle|event) reasons/(?:hw slowdown/)?((?:hw|sw) (?:thermal |power brake )?slowdown)",
    re.IGNORECASE,
)
_RULES = values.rules(r"""
uuid  text  gpu uuid
name  text  product name
utilisation  number  utilization/gpu
power_w  number  (?:gpu )?power readings/instantaneous power draw
power_w  number  (?:gpu )?power readings/(?:average )?power draw
power_cap_w  number  (?:gpu )?power readings/(?:current |enforced )?power limit
temperature_c  number  temperature/gpu current temp
clock_mhz  MHz  clocks/(?:sm|graphics)
slowdown_c  number  temperature/gpu slowdown temp
vram_used  MiB  fb memory usage/used
vram_total  MiB  fb memory usage/total
remap_failed  yes  remapped rows/remapping failure occurred
""")
_WELL = ("completed", "success")
_UNHEALTHY = re.compile(
    r"(summary): (unhealthy|limited capacity)|(bandwidth): (degraded)"
    r"|(incorrect configuration): (?!none|false)(.+)|((?:route|access) .*): (?:true|yes)"
)
_PENDING = re.compile(
    r"remapped rows/pending|retired pages/pending page blacklist|ecc errors/(?:channel|tpc) repair pending"
)
_WORN = (
    ("ecc errors/unrepairable memory", "memory that cannot be repaired"),
    ("ecc errors/aggregate/sram threshold exceeded", "more SRAM errors than its maker allows"),
)
_PART = re.compile(r"mig device \d+/(.*)")
_PART_RULES = values.rules(r"""
mig  count  index
uuid  text  (?:mig )?uuid
vram_used  MiB  (?:shared )?fb memory usage/used
vram_total  MiB  (?:shared )?fb memory usage/total
ecc_volatile  count  ecc error.*/volatile.*/sram uncorrectable.*
""")
_COUNTERS = (
    ("ecc_uncorrectable", "aggregate", r"(?:[sd]ram )?uncorrectable(?: .*)?|double bit/total"),
    ("ecc_volatile", "volatile", r"(?:[sd]ram )?uncorrectable(?: .*)?|double bit/total"),
)


def fits(lines: Sequence[str]) -> bool:
    return any(_GPU.fullmatch(line) for line in lines)


def read_q(lines: Sequence[str]) -> Readout:
    """Return the GPUs of `nvidia-smi -q`, a tree of `Name : value` for each; incomplete if more are attached.

    Formats of drivers 440 to 610; renamed sections are known by both names (Clocks Throttle/Event Reasons).
    MIG devices have sections of their own. Since Hopper, temperatures come without a limit but with the
    distance to it (T.Limit).
    """
    trees: list[tuple[str, values.Facts]] = []
    path: list[tuple[int, str]] = []
    attached = 0
    for line in lines:
        if match := _GPU.fullmatch(line):
            trees.append((match[1], {}))
            path = []
        elif match := _ATTACHED.match(line):
            attached = digits(match[1])
        elif trees and line.startswith(" ") and not line.strip().startswith("[...]"):
            _grow(trees[-1][1], path, line)
    gpus = [_gpu(index, bus, facts) for index, (bus, facts) in enumerate(trees)]
    parts = [part for gpu, (_, facts) in zip(gpus, trees, strict=True) for part in _parts(gpu, facts)]
    return Readout((*gpus, *parts), complete=len(gpus) >= attached)


def _grow(facts: values.Facts, path: list[tuple[int, str]], line: str) -> None:
    """Add a line to the tree: deeper indented lines belong to it, whether it has a value or not."""
    indent = len(line) - len(line.lstrip())
    name, colon, cell = line.partition(" : ")
    while path and path[-1][0] >= indent:
        path.pop()
    part = name.strip().lower()
    if part == "mig device":
        part = f"mig device {sum(each.endswith('/index') for each in facts if _PART.fullmatch(each))}"
    path.append((indent, part))
    if colon:
        key, before = "/".join(part for _, part in path), ""
        if part == "process id":
            before = facts.get(key, "") + " "
        facts[key] = before + cell.strip()


def _gpu(index: int, bus: str, facts: values.Facts) -> Gpu:
    counters = {field: _sum(facts, rf"ecc errors/{kind}/(?:{names})") for field, kind, names in _COUNTERS}
    worn = ", ".join(words for name, words in _WORN if values.yes(facts.get(name, "")))
    given: dict[str, Any] = {"recovery": _recovery(facts), "fabric": _fabric(facts), "worn": worn, **counters}
    given["pids"] = tuple(filter(None, map(values.count, facts.get("processes/process id", "").split())))
    given["remap_pending"] = _any(cell for name, cell in facts.items() if _PENDING.fullmatch(name))
    gpu = values.gpu_of(
        facts, _RULES, index=index, bus=bus, throttled=values.throttling(facts, _REASON), **given
    )
    return gpu if gpu.slowdown_c is not None else replace(gpu, slowdown_c=_slowdown(gpu, facts))


def _any(cells: Iterable[str]) -> bool | None:
    """Return True if one of the cells is a yes; None if none is a yes or a no."""
    flags = [values.yes(cell) for cell in cells]
    return True in flags if any(each is not None for each in flags) else None


def _slowdown(gpu: Gpu, facts: values.Facts) -> float | None:
    """Return the temperature (degrees Celsius) at which the GPU slows down, or None.

    T.Limit is the distance from the present temperature to the limit; the slowdown T.Limit is below zero.
    """
    left = values.number(facts.get("temperature/gpu t.limit temp", ""))
    beyond = values.number(facts.get("temperature/gpu slowdown t.limit temp", ""))
    if gpu.temperature_c is None or left is None or beyond is None:
        return None
    return gpu.temperature_c + left - beyond


def _parts(gpu: Gpu, facts: values.Facts) -> Iterator[Gpu]:
    sections: dict[str, values.Facts] = {}
    for name, cell in facts.items():
        if match := _PART.fullmatch(name):
            sections.setdefault(name.partition("/")[0], {})[match[1]] = cell
    for section in sections.values():
        yield values.gpu_of(section, _PART_RULES, index=gpu.index, bus=gpu.bus, name=gpu.name)


def _recovery(facts: values.Facts) -> str:
    """Return what the driver asks for: one line since driver 560, two yes/no lines before."""
    for name in ("reset required", "drain and reset recommended"):
        if values.yes(facts.get(f"gpu reset status/{name}", "")):
            return name.removesuffix(" required").removesuffix(" recommended")
    asked = facts.get("gpu recovery action", "")
    return "" if values.is_absent(asked) or values.error_word(asked) else asked.lower()


def _fabric(facts: values.Facts) -> str:
    """Return the state of NVLink's fabric (`in progress`, `failed`); empty if complete and healthy.

    If it is complete but not healthy, return its health: `limited capacity, bandwidth degraded`.
    """
    words = [facts.get(f"fabric/{name}", "").lower() for name in ("state", "status")]
    states = [word for word in words if not values.is_absent(word) and word not in _WELL]
    return states[0] if states else ", ".join(_unhealthy(facts))


def _unhealthy(facts: values.Facts) -> Iterator[str]:
    for name, cell in facts.items():
        said = f"{name.removeprefix('fabric/health/')}: {cell.lower()}"
        if (
            name.startswith("fabric/health/")
            and not values.is_absent(cell)
            and (bad := _UNHEALTHY.fullmatch(said))
        ):
            yield " ".join(word for word in bad.groups() if word and word != "summary")


def _sum(facts: values.Facts, pattern: str) -> int | None:
    """Sum the counters of all memories; None if there is none."""
    counts = [values.count(cell) for name, cell in facts.items() if re.fullmatch(pattern, name)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


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
    sensors, usage = _SENSORS.fullmatch(cells[0]), _MEMORY.fullmatch(cells[1])
    if sensors is None:
        return {"mig": cells[2].strip()}
    facts = {
        "fan": sensors[1],
        "temperature": sensors[2],
        "power": sensors[4],
        "power cap": sensors[5],
        "utilisation": next(iter(cells[2].split()), ""),
    }
    return {**facts, "memory used": usage[1], "memory total": usage[2]} if usage else facts


def _mig(match: re.Match[str], cells: Sequence[str]) -> Gpu:
    """Read a MIG device (`GPU GI CI Dev`); its memory is in the first line, the second has BAR1."""
    usage = _MEMORY.fullmatch(cells[1])
    ecc = cells[2].split()
    return Gpu(
        digits(match[1]),
        mig=digits(match[4]),
        vram_used=values.mebibytes(usage[1]) if usage else None,
        vram_total=values.mebibytes(usage[2]) if usage else None,
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
    if fits(lines):
        return read_q(lines)
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
