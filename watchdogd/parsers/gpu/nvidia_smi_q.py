"""`nvidia-smi -q`: a tree of `Name : value` for each GPU, in the order of their numbers.

Formats of drivers 440 to 610; renamed sections are known by both names (Clocks Throttle/Event Reasons). MIG
devices have sections of their own. Since Hopper, temperatures come without a limit but with the distance to
it (T.Limit).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from watchdogd.parsers.gpu import values
from watchdogd.parsers.gpu.models import Gpu, Readout
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


def read(lines: Sequence[str]) -> Readout:
    """Return the GPUs; incomplete if more are attached than listed."""
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
