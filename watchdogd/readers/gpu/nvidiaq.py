"""`nvidia-smi -q`: a tree of `Name : value`, one for each GPU, in the order of their numbers.

Forms of drivers 440 to 610; what was renamed is known under both names (Clocks Throttle/Event Reasons). MIG
devices stand in sections of their own. Since Hopper a temperature has no limit but a distance to it: T.Limit.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from watchdogd.readers.gpu import rules, value
from watchdogd.readers.gpu.gpu import Gpu, Readout
from watchdogd.system.number import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\S*|[0-9A-Fa-f]{8}:\S+)")
_ATTACHED = re.compile(r"Attached GPUs\s*:\s*(\d+)")
_POWER = r"(?:gpu )?power readings/"
_REASON = re.compile(
    r"clocks (?:throttle|event) reasons/(?:hw slowdown/)?((?:hw|sw) (?:thermal |power brake )?slowdown)",
    re.IGNORECASE,
)
_RULES = (
    rules.rule("uuid", value.text, r"gpu uuid"),
    rules.rule("name", value.text, r"product name"),
    rules.rule("utilisation", value.number, r"utilization/gpu"),
    rules.rule(
        "power_w", value.number, _POWER + r"instantaneous power draw", _POWER + r"(?:average )?power draw"
    ),
    rules.rule("power_cap_w", value.number, _POWER + r"(?:current |enforced )?power limit"),
    rules.rule("temperature_c", value.number, r"temperature/gpu current temp"),
    rules.rule("memory_temperature_c", value.number, r"temperature/memory current temp"),
    rules.rule("clock_mhz", value.megahertz, r"clocks/(?:sm|graphics)"),
    rules.rule("slowdown_c", value.number, r"temperature/gpu slowdown temp"),
    rules.rule("vram_used", value.mebibytes, r"fb memory usage/used"),
    rules.rule("vram_total", value.mebibytes, r"fb memory usage/total"),
    rules.rule("remap_failed", value.yes, r"remapped rows/remapping failure occurred"),
)
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
_PART_RULES = (
    rules.rule("mig", value.count, r"index"),
    rules.rule("uuid", value.text, r"(?:mig )?uuid"),
    rules.rule("vram_used", value.mebibytes, r"(?:shared )?fb memory usage/used"),
    rules.rule("vram_total", value.mebibytes, r"(?:shared )?fb memory usage/total"),
    rules.rule("ecc_volatile", value.count, r"ecc error.*/volatile.*/sram uncorrectable.*"),
)
_COUNTERS = (
    ("ecc_uncorrectable", "aggregate", r"(?:[sd]ram )?uncorrectable(?: .*)?|double bit/total"),
    ("ecc_volatile", "volatile", r"(?:[sd]ram )?uncorrectable(?: .*)?|double bit/total"),
    ("ecc_correctable", "aggregate", r"(?:[sd]ram )?correctable|single bit/total"),
)


def fits(lines: Sequence[str]) -> bool:
    """Whether this is the form of -q."""
    return any(_GPU.fullmatch(line) for line in lines)


def read(lines: Sequence[str]) -> Readout:
    """Its GPUs; incomplete where more are attached than follow."""
    trees: list[tuple[str, rules.Facts]] = []
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


def _grow(facts: rules.Facts, path: list[tuple[int, str]], line: str) -> None:
    """A line of the tree: what is indented deeper belongs to it, with or without a value of its own."""
    indent = len(line) - len(line.lstrip())
    name, colon, cell = line.partition(" : ")
    while path and path[-1][0] >= indent:
        path.pop()
    part = name.strip().lower()
    if part == "mig device":
        part = f"mig device {sum(each.endswith('/index') for each in facts if _PART.fullmatch(each))}"
    path.append((indent, part))
    if colon:
        facts["/".join(part for _, part in path)] = cell.strip()


def _gpu(index: int, bus: str, facts: rules.Facts) -> Gpu:
    counters = {field: _sum(facts, rf"ecc errors/{kind}/(?:{names})") for field, kind, names in _COUNTERS}
    worn = ", ".join(words for name, words in _WORN if value.yes(facts.get(name, "")))
    given = {"recovery": _recovery(facts), "fabric": _fabric(facts), "worn": worn, **counters}
    given["remap_pending"] = _any(cell for name, cell in facts.items() if _PENDING.fullmatch(name))
    gpu = rules.gpu(facts, _RULES, index=index, bus=bus, throttled=rules.throttling(facts, _REASON), **given)
    return gpu if gpu.slowdown_c is not None else replace(gpu, slowdown_c=_slowdown(gpu, facts))


def _any(cells: Iterable[str]) -> bool | None:
    """Whether one of them is a yes; None where none is a yes or a no."""
    told = [value.yes(cell) for cell in cells]
    return True in told if any(each is not None for each in told) else None


def _slowdown(gpu: Gpu, facts: rules.Facts) -> float | None:
    """Degrees at which it slows down: T.Limit tells how far it has from here to its limit, of which the
    slowdown lies below zero.
    """
    left = value.number(facts.get("temperature/gpu t.limit temp", ""))
    beyond = value.number(facts.get("temperature/gpu slowdown t.limit temp", ""))
    if gpu.temperature_c is None or left is None or beyond is None:
        return None
    return gpu.temperature_c + left - beyond


def _parts(gpu: Gpu, facts: rules.Facts) -> Iterator[Gpu]:
    """Its MIG devices."""
    sections: dict[str, rules.Facts] = {}
    for name, cell in facts.items():
        if match := _PART.fullmatch(name):
            sections.setdefault(name.partition("/")[0], {})[match[1]] = cell
    for section in sections.values():
        yield rules.gpu(section, _PART_RULES, index=gpu.index, bus=gpu.bus, name=gpu.name)


def _recovery(facts: rules.Facts) -> str:
    """What the driver asks for: in one line since 560, by two questions before."""
    for name in ("reset required", "drain and reset recommended"):
        if value.yes(facts.get(f"gpu reset status/{name}", "")):
            return name.removesuffix(" required").removesuffix(" recommended")
    asked = facts.get("gpu recovery action", "")
    return "" if value.absent(asked) or value.error(asked) else asked.lower()


def _fabric(facts: rules.Facts) -> str:
    """`in progress`, `failed`: how NVLink's fabric stands where it is not completed with success; else what
    is said of its health: `limited capacity, bandwidth degraded`.
    """
    words = [facts.get(f"fabric/{name}", "").lower() for name in ("state", "status")]
    told = [word for word in words if not value.absent(word) and word not in _WELL]
    return told[0] if told else ", ".join(_unhealthy(facts))


def _unhealthy(facts: rules.Facts) -> Iterator[str]:
    for name, cell in facts.items():
        said = f"{name.removeprefix('fabric/health/')}: {cell.lower()}"
        if (
            name.startswith("fabric/health/")
            and not value.absent(cell)
            and (bad := _UNHEALTHY.fullmatch(said))
        ):
            yield " ".join(word for word in bad.groups() if word and word != "summary")


def _sum(facts: rules.Facts, pattern: str) -> int | None:
    """Of all memories; None where not one is counted."""
    counts = [value.count(cell) for name, cell in facts.items() if re.fullmatch(pattern, name)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
