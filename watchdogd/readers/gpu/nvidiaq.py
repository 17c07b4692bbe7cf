"""`nvidia-smi -q`: a tree of `Name : value`, one for each GPU, in the order of their numbers.

Forms of drivers 440 to 610; what was renamed is known under both names (Clocks Throttle/Event Reasons).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd.readers.gpu import rules, value
from watchdogd.readers.gpu.gpu import Gpu, Readout

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    rules.rule("slowdown_c", value.number, r"temperature/gpu slowdown temp"),
    rules.rule("vram_used", value.mebibytes, r"fb memory usage/used"),
    rules.rule("vram_total", value.mebibytes, r"fb memory usage/total"),
    rules.rule("remap_pending", value.yes, r"remapped rows/pending", r"retired pages/pending page blacklist"),
    rules.rule("remap_failed", value.yes, r"remapped rows/remapping failure occurred"),
)
_WELL = ("completed", "success")
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
            attached = int(match[1])
        elif trees and line.startswith(" ") and not line.strip().startswith("[...]"):
            _grow(trees[-1][1], path, line)
    gpus = tuple(_gpu(index, bus, facts) for index, (bus, facts) in enumerate(trees))
    return Readout(gpus, complete=len(gpus) >= attached)


def _grow(facts: rules.Facts, path: list[tuple[int, str]], line: str) -> None:
    """A line of the tree: what is indented deeper belongs to it, with or without a value of its own."""
    indent = len(line) - len(line.lstrip())
    name, colon, cell = line.partition(" : ")
    while path and path[-1][0] >= indent:
        path.pop()
    path.append((indent, name.strip().lower()))
    if colon:
        facts["/".join(part for _, part in path)] = cell.strip()


def _gpu(index: int, bus: str, facts: rules.Facts) -> Gpu:
    counters = {field: _sum(facts, rf"ecc errors/{kind}/(?:{names})") for field, kind, names in _COUNTERS}
    given = {"recovery": _recovery(facts), "fabric": _fabric(facts), **counters}
    return rules.gpu(facts, _RULES, index=index, bus=bus, throttled=rules.throttling(facts, _REASON), **given)


def _recovery(facts: rules.Facts) -> str:
    """What the driver asks for: in one line since 560, by two questions before."""
    for name in ("reset required", "drain and reset recommended"):
        if value.yes(facts.get(f"gpu reset status/{name}", "")):
            return name.removesuffix(" required").removesuffix(" recommended")
    asked = facts.get("gpu recovery action", "")
    return "" if value.absent(asked) or value.error(asked) else asked.lower()


def _fabric(facts: rules.Facts) -> str:
    """`in progress`, `failed`: how it stands where NVLink's fabric is not completed with success."""
    words = [facts.get(f"fabric/{name}", "").lower() for name in ("state", "status")]
    return next((word for word in words if not value.absent(word) and word not in _WELL), "")


def _sum(facts: rules.Facts, pattern: str) -> int | None:
    """Of all memories; None where not one is counted."""
    counts = [value.count(cell) for name, cell in facts.items() if re.fullmatch(pattern, name)]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
