"""Which rank fell silent first, where many write one log, or each its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.readers import trainlog
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

RANKS = 512
SLACK = 300.0
"""Seconds before the last progress: who fell silent earlier had nothing more to say, as after a start."""


def note(rank: str, number: float | None, memory: dict[str, Any], at: float) -> None:
    """One line of a rank: [its last number or None, counts of all lines at its last line and the one before,
    time of the last]."""
    ranks: dict[str, Any] = memory.setdefault("ranks", {})
    if rank not in ranks and len(ranks) >= RANKS:
        return
    before = ranks.get(rank, [None, 0, 0, 0.0])
    count = memory["lines"] = memory.get("lines", 0) + 1
    ranks[rank] = [before[0] if number is None else number, count, before[1], at]


def first_rank(memory: Mapping[str, Any], moved: float) -> str:
    """The rank that stopped before all others in a log that they share, or empty; `moved`: last progress.

    By the numbers that the ranks tell, where all do; else it is the one after whose last line every other
    wrote two lines more.
    """
    ranks = {
        rank: seen for rank, seen in memory.get("ranks", {}).items() if seen[3] >= moved - SLACK and seen[2]
    }
    if len(ranks) < 2:
        return ""
    if all(seen[0] is not None for seen in ranks.values()):
        first, second = sorted(ranks.items(), key=lambda item: float(item[1][0]))[:2]
        if first[1][0] < second[1][0]:
            at = _number(memory, first[1][0])
            return f"the first to stop of {len(ranks)} was {_rank(first[0])}, at {at}"
        return ""
    first_name, seen = min(ranks.items(), key=lambda item: int(item[1][1]))
    if all(other[2] > seen[1] for name, other in ranks.items() if name != first_name):
        return f"the first to stop of {len(ranks)} was {_rank(first_name)}"
    return ""


def first_file(memory: Mapping[str, Any], begin: float, moved: float) -> str:
    """With a log for each node or rank: the one that fell silent before the others, in this job."""
    since = max(begin, moved - SLACK)
    places = [place for place in memory.get("files", {}).values() if place[4] >= since]
    if len(places) < 2:
        return ""
    first, second = sorted(places, key=lambda place: float(place[4]))[:2]
    if second[4] - first[4] < 1.0:
        return ""
    return f"the first to stop of {len(places)} was {first[0]} at {iso(first[4])}"


def _number(memory: Mapping[str, Any], number: float) -> str:
    """As it stands in the log."""
    series = memory.get("report", {}).get("series", "")
    return trainlog.words(series, number) if trainlog.in_epoch(series, number) else f"{number:.10g}"


def _rank(name: str) -> str:
    """`3`, `rank3` and `Rank 3` are rank 3; `node1:3` stays."""
    bare = name.removeprefix("rank").removeprefix("Rank ")
    return f"rank {bare}" if bare.isdecimal() else name
