"""The numbers that a training tells, taken in one by one: progress, loss, pace, skipped iterations.

All is kept as plain values in a check's memory: `report` (the last progress), `loss`, `level` and `curve`
(the loss over the numbers), `pace`, `skips`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from watchdogd.checks import level
from watchdogd.readers import measures

if TYPE_CHECKING:
    from watchdogd.readers.trainlog import Report

SKIPS = 20
"""Last progress reports of which it is known whether iterations were skipped."""
_CURVE = 64


def note_progress(report: Report, text: str, memory: dict[str, Any], at: float) -> None:
    """Take in that the number grew, in the line `text`."""
    for key in ("phase", "cause", "ended"):
        memory.pop(key, None)
    memory["known"] = True
    _note_resume(report, memory)
    told = memory.get("report")
    if told and told["series"] == report.series and report.number < told["number"]:
        _rewind(memory, report.number, anew=report.number < told["number"] / 2)
    taken = measures.seconds(text)
    _note_pace(report.series, measures.cost(text, taken), memory)
    _note_skips(text, memory)
    memory["report"] = {
        "series": report.series,
        "number": report.number,
        "total": report.total,
        "coarse": report.coarse,
        "seldom": report.seldom,
        "at": at,
        "seconds": taken,
    }


def _note_resume(report: Report, memory: dict[str, Any]) -> None:
    """Whether the job goes back behind where the one before it was, by the same count."""
    before = memory.get("before")
    if not isinstance(before, list):  # an earlier version kept no series
        memory.pop("before", None)
    elif before[0] == report.series:
        del memory["before"]
        if report.number < before[1]:
            _rewind(memory, report.number, anew=report.number < before[1] / 2)


def _rewind(memory: dict[str, Any], number: float, *, anew: bool) -> None:
    """A resume begins at an earlier number: its loss is held against the level that was reached there."""
    curve = [point for point in memory.get("curve", ()) if point[0] <= number]
    memory["curve"] = curve
    if curve and "level" in memory:
        memory["level"] = {**memory["level"], "best": curve[-1][1]}
    else:
        memory.pop("level", None)
    if anew:
        memory.pop("pace", None)


def _note_pace(series: str, found: tuple[str, float] | None, memory: dict[str, Any]) -> None:
    """Seconds for a token, a sample or an iteration: a ramp-up of the batch size is no slowness."""
    if found is None or (found[0] == "iteration" and memory.get("lengths", [0, 0, False])[2]):
        return
    name = f"{series} {found[0]}"
    if memory.get("pace", {}).get("series", name) == name:
        memory["pace"] = {**level.take(memory.get("pace", {}), found[1]), "series": name}


def note_length(text: str, memory: dict[str, Any]) -> None:
    """Where what is worked on becomes longer or shorter by a tenth, an iteration is no measure of pace.

    Kept in `lengths`: the least and the greatest so far, and whether it is so.
    """
    value = measures.length(text)
    if value is None or value <= 0:
        return
    least, most, _ = memory.get("lengths", (value, value, False))
    least, most = min(least, value), max(most, value)
    memory["lengths"] = [least, most, most > 1.1 * least]
    if memory["lengths"][2] and memory.get("pace", {}).get("series", "").endswith(" iteration"):
        del memory["pace"]


def _note_skips(text: str, memory: dict[str, Any]) -> None:
    """Whether this report's iterations were skipped (their gradients overflowed)."""
    skipped = measures.skipped(text)
    if skipped is None:
        return
    state = memory.get("skips", {"last": [], "seen": 0, "total": None})
    new = skipped.count if not skipped.running else max(skipped.count - (state["total"] or 0), 0)
    first = skipped.running and state["total"] is None
    memory["skips"] = {
        "last": [*state["last"], int(new > 0 and not first)][-SKIPS:],
        "seen": state["seen"] + 1,
        "total": skipped.count if skipped.running else None,
    }


def note_loss(value: float, memory: dict[str, Any], at: float, name: str = "", *, falls: bool = True) -> None:
    """One loss; a number moves the level, anything else is counted.

    `name`: what stands before it: another loss that is a number clears none that is not. `falls`: whether it
    is one that training makes fall.
    """
    state = memory.get("loss") or {"bad": 0, "good": None, "since": at}
    if math.isfinite(value) and state["bad"] and state.get("name", name) != name:
        return
    if math.isfinite(value):
        if not falls:
            memory["loss"] = {"bad": 0, "good": value, "since": at}
            memory["losses"] = memory.get("losses", 0) + 1
            return
        memory["level"] = level.take(memory.get("level", {}), value)
        _note_curve(memory)
        memory["losses"] = memory.get("losses", 0) + 1
        memory["loss"] = {"bad": 0, "good": value, "since": at}
    else:
        memory["loss"] = {
            "bad": state["bad"] + 1,
            "good": state["good"],
            "since": state["since"] if state["bad"] else at,
            "word": str(value),
            "name": name,
        }


def _note_curve(memory: dict[str, Any]) -> None:
    """The lowest level so far, by the training's number: thinned to some dozens of points."""
    state, report = memory["level"], memory.get("report")
    if state.get("age") or state.get("best") is None or not report:
        return
    curve = memory.get("curve", [])
    if len(curve) >= _CURVE:
        curve = curve[::2]
    memory["curve"] = [*curve, [report["number"], round(state["best"], 5)]]
