"""Cells of the columns that checks declare, as texts of this moment, for the page and `status`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdogd.batch.run_models import plugin_of
from watchdogd.declaration import Column
from watchdogd.plugin import DIVERGED, Status
from watchdogd.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    Seen = Mapping[str, Any]
    """One result, as status.json has it."""

STATE_WORDS = {
    "hung": "stalled",
    "doubtful": "running?",
    "none": "not running",
    "absent": "not running",
    "?": "unknown",
}
"""States that are shown under another word."""
ROUND = 60.0
"""Seconds between rounds if not known."""


def columns_of(status: Mapping[str, Any]) -> dict[str, Column]:
    """Return the columns that checks declare, by title, in their order."""
    columns = [
        Column(**each) for declared in status.get("declared", {}).values() for each in declared["columns"]
    ]
    return {column.title: column for column in sorted(columns, key=lambda column: column.order)}


def cells_of(
    results: Iterable[Seen], columns: Mapping[str, Column], now: float, every: float = ROUND
) -> dict[str, str]:
    """Return the text of each column with any value, in the order of the columns.

    The age of a result older than two rounds is shown once, beside its first text.
    """
    found: dict[str, str] = {}
    for seen in results:
        age = dated("", seen, now, every)
        for title, text in seen.get("cells", {}).items():
            column = columns.get(title)
            if column is None or title in found:
                continue
            found[title] = f"{text}{age}" if not column.time else _gone(text, column, now)
            age = age if column.time else ""
    return {title: found[title] for title in columns if title in found}


def in_words(cells: Mapping[str, str], columns: Mapping[str, Column]) -> dict[str, str]:
    """Return the cells as they stand alone, beside their titles: `log` `1s ago`, `job ends` `in 3h29m`."""
    words = {"": "{}", "since": "{} ago", "until": "in {}"}
    return {title: words[columns[title].time].format(text) for title, text in cells.items()}


def dated(figures: str, seen: Seen, now: float, every: float) -> str:
    """Return the figures, with their age if they are older than two rounds."""
    age = max(now - time_of(seen["at"]), 0.0)
    return f"{figures} ({compact(age)} ago)" if age > 2 * every else figures


def _gone(text: str, column: Column, now: float) -> str:
    """Return the time since or until the time in a cell."""
    try:
        gone = now - time_of(text)
    except ValueError:
        return text
    return compact(gone if column.time == "since" else -gone)


def compact(seconds: float) -> str:
    """Return a duration for a cell: `2d23h`, `41m`, `24s`."""
    whole = max(seconds, 0.0)
    return format_duration(whole if whole < 60 else whole - whole % 60)


def time_of(text: str) -> float:
    """Return a time in status.json as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True)
class DiskRoom:
    """Room of one disk, in bytes or inodes; `full_in`: seconds until it is full, None if it does not fill."""

    name: str
    subject: str
    status: str
    used: float
    total: float
    free: float
    unit: str
    full_in: float | None


def disks_of(status: Mapping[str, Any]) -> list[DiskRoom]:
    """Return the room of all disks as far as known, the worst first."""
    checks = disk_checks(status)
    rows = [row for seen in status["checks"] if seen["check"] in checks and (row := room_of(seen))]
    return sorted(rows, key=lambda row: -Status[row.status].severity)


def roomless(status: Mapping[str, Any]) -> list[Seen]:
    """Return the bad results of disks without figures (missing, read-only), the worst first."""
    checks = disk_checks(status)
    bad = [seen for seen in status["checks"] if seen["check"] in checks and seen["status"] != "OK"]
    return sorted(
        (seen for seen in bad if not room_of(seen)), key=lambda seen: -Status[seen["status"]].severity
    )


def disk_checks(status: Mapping[str, Any]) -> frozenset[str]:
    """Return the checks that belong to disks."""
    declared = (each["checks"] for each in status.get("declared", {}).values() if each["watches"] == "disk")
    return frozenset(check for checks in declared for check in checks if "/" in check)


def doubt(results: Iterable[Seen], status: Mapping[str, Any]) -> Seen | None:
    """Return the worst bad result that casts doubt on a run's progress, or None.

    Only checks that report its state or its progress count: a late checkpoint makes no run doubtful.
    """
    seen = list(results)
    telling = {each["check"] for each in seen if each.get("run_state") or each.get("progress")}
    for plugin, declared in status.get("declared", {}).items():
        if any(column["title"] == "progress" for column in declared["columns"]):
            telling |= {*declared["checks"], *(each["check"] for each in seen if plugin_of(each) == plugin)}
    bad = [each for each in seen if each["check"] in telling and each["status"] != "OK"]
    return max(bad, key=lambda each: Status[each["status"]].severity, default=None)


def shown_state(state: str, doubted: Seen | None, critical: Container[tuple[str, str]]) -> str:
    """Return a run's state for people: what `doubt` returns counts if it seems to run.

    `doubtful` until that is confirmed; then `failing`, or the fault in a word (`diverged`). `critical`: check
    and subject of the open incidents that are CRITICAL.
    """
    if state != "running" or doubted is None:
        return state
    if (doubted["check"], doubted["subject"] or "") not in critical:
        return "doubtful"
    return DIVERGED if doubted.get("kind") == DIVERGED else "failing"


def switch_line(switch: Mapping[str, Any]) -> tuple[str, str]:
    """Return the texts before and after the age of a set switch: by whom, and why."""
    what, reason = f"{switch['switch']} switch of {switch['run']}", switch["reason"]
    if switch.get("automatic"):
        return f"{what} pressed by watchdogd", f" ({reason})" if reason else ""
    return f"{what} set by {switch['by']}", f": {reason}" if reason else ""


def standstills(status: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return (check, subject) of the results by which a run is gone or stands still.

    Their incidents come before others of the same severity.
    """
    return frozenset(
        (seen["check"], seen["subject"] or "")
        for seen in status["checks"]
        if seen["status"] != "OK"
        and (seen.get("run_state") == "gone" or (seen.get("progress") or {}).get("stalled"))
    )


def room_of(seen: Seen) -> DiskRoom | None:
    """Return the room that a result reports, or None."""
    free, total, left = (seen["metrics"].get(name, {}).get("value") for name in ("free", "total", "full_in"))
    if free is None or not total:
        return None
    used = min(max(1 - free / total, 0.0), 1.0)
    unit = seen["metrics"]["free"]["unit"]
    return DiskRoom(seen["target"], seen["subject"] or "", seen["status"], used, total, free, unit, left)
