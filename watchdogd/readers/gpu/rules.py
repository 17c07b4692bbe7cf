"""From named cells to a Gpu: each field has patterns for the names under which tools give it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from watchdogd.readers.gpu import value
from watchdogd.readers.gpu.gpu import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Facts = dict[str, str]
"""What one tool says of one GPU: cells by their names."""

_LONGEST = 300
"""Letters of a cell's name that are compared; no tool has longer ones."""


_MOST = {
    "utilisation": 100.0,
    "vram_percent": 100.0,
    "power_w": 20_000.0,
    "power_cap_w": 20_000.0,
    "temperature_c": 250.0,
    "memory_temperature_c": 250.0,
    "slowdown_c": 250.0,
    "ecc_uncorrectable": 1_048_559.0,
}
"""What no GPU exceeds: above it a cell is a register full of ones (65535, 4294967295), by which drivers say
that they do not know. AMD's error counters add 1048560 at each look while their memory sleeps."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Where one field of a Gpu may stand, best place first, and how its cell is read (None: not there)."""

    field: str
    names: tuple[re.Pattern[str], ...]
    read: Callable[[str], Any]


def rule(field: str, read: Callable[[str], Any], *names: str) -> Rule:
    """A Rule; names are whole ones, as patterns, in any case."""
    return Rule(field, tuple(re.compile(name, re.IGNORECASE) for name in names), read)


def gpu(facts: Mapping[str, str], rules: Sequence[Rule], **given: Any) -> Gpu:
    """The Gpu of which `facts` speak; what `given` says is not looked for."""
    found = dict(given)
    for each in rules:
        if found.get(each.field) is None and (read := _first(each, facts)) is not None:
            found[each.field] = read
    return _sane(Gpu(**found, **_errors(facts, found)))


def _sane(gpu: Gpu) -> Gpu:
    """Without memory in use that is more than there is."""
    used, total = gpu.vram_used, gpu.vram_total
    return replace(gpu, vram_used=None) if used is not None and total is not None and used > total else gpu


def _first(each: Rule, facts: Mapping[str, str]) -> Any:
    """The first cell under one of the rule's names that can be read: N/A never hides a number."""
    for pattern in each.names:
        for name, cell in facts.items():
            if (
                pattern.fullmatch(name[:_LONGEST])
                and (read := each.read(cell)) is not None
                and _possible(each, read)
            ):
                return read
    return None


def _possible(each: Rule, read: Any) -> bool:
    return each.field not in _MOST or read <= _MOST[each.field]


def _errors(facts: Mapping[str, str], found: Mapping[str, Any]) -> dict[str, Any]:
    """Error words: of the whole GPU where it has no live reading left, else of single readings."""
    wrong = {name: word for name, cell in facts.items() if (word := value.error(cell))}
    serious = [word for name, word in wrong.items() if "fan" not in name.lower()]
    alive = found.get("utilisation") is not None or found.get("power_w") is not None
    gone = next((word for word in serious if value.fatal(word)), "")
    if gone or (serious and not alive):
        return {"trouble": gone or serious[0]}
    return {"doubts": tuple(f"{name}: {word}" for name, word in wrong.items())}


def throttling(facts: Mapping[str, str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The reasons (`pattern`'s first group) whose cells say that they are active."""
    matches = [(pattern.fullmatch(name[:_LONGEST]), cell) for name, cell in facts.items()]
    return tuple(match[1].replace("_", " ").lower() for match, cell in matches if match and value.yes(cell))
