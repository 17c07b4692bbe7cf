"""The components of a het job (`123+0`, `123+1`) as the one job that they are: `123`. Pure."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from watchdogd.batch.models import Ending, Job
from watchdogd.system.number import count

if TYPE_CHECKING:
    from collections.abc import Iterable

_Part = TypeVar("_Part", Job, Ending)
_PLAIN = frozenset({"COMPLETED", "CANCELLED"})


def living(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs, each het job once: as its first component that lives, with the nodes of all."""
    found = []
    for parts in _grouped(jobs):
        first = parts[0]
        if "+" in first.id:
            count = sum(part.node_count for part in parts)
            number, nodes = _whole(parts)
            first = dataclasses.replace(first, id=number, raw_id=number, nodes=nodes, node_count=count)
        found.append(first)
    return tuple(found)


def over(endings: Iterable[Ending], jobs: Iterable[Job]) -> tuple[Ending, ...]:
    """The endings, each het job once, as its worst component ended, and none of one that lives in part.

    `jobs` are the living, as `living` gives them.
    """
    alive = {job.id for job in jobs}
    found = []
    for parts in _grouped(endings):
        first = parts[0]
        if "+" in first.id:
            worst = min(parts, key=lambda part: (part.well, part.state in _PLAIN))
            number, nodes = _whole(parts)
            first = dataclasses.replace(worst, id=number, raw_id=number, nodes=nodes)
            if first.id in alive:
                continue
        found.append(first)
    return tuple(found)


def _whole(parts: list[Job] | list[Ending]) -> tuple[str, str]:
    """Number and nodes of the whole; both its id and its raw id are that of its first component."""
    number = parts[0].id.partition("+")[0]
    nodes = dict.fromkeys(part.nodes for part in parts if part.nodes)
    return number, ",".join(nodes)


def _grouped(parts: Iterable[_Part]) -> list[list[_Part]]:
    """What belongs together, by its components' order; the groups in the order of their first."""
    groups: dict[tuple[str, float], list[_Part]] = {}
    for index, part in enumerate(parts):
        number, plus, _ = part.id.partition("+")
        key = (number, part.submitted_at or 0.0) if plus else ("", float(index))
        groups.setdefault(key, []).append(part)
    return [sorted(group, key=_offset) for group in groups.values()]


def _offset(part: Job | Ending) -> int:
    return count(part.id.partition("+")[2]) or 0
