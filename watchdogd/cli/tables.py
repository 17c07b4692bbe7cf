"""The tables that `watchdogd status` prints: a row a run, a row or two a disk, from their latest results."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from watchdogd.cli.output import one_line
from watchdogd.runstate import of_checks
from watchdogd.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Seen = Mapping[str, Any]
    """One result, as status.json has it."""

BAR = 16
"""Signs that a disk's bar is long."""
STYLES = {"CRITICAL": "bold red", "WARNING": "yellow", "UNKNOWN": "magenta"}
"""How a result is coloured, by its status."""
ROUND = 60.0
"""Seconds from one round to the next where nobody said."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_STATE_STYLES = {
    "running": "green",
    "starting": "cyan",
    "suspended": "yellow",
    "waiting": "cyan",
    "hung": "bold red",
    "gone": "bold red",
}


@dataclass(frozen=True, slots=True)
class Results:
    """The latest results of one run or disk by plugin and subject; `every`: seconds from round to round."""

    by_plugin: Mapping[str, Mapping[str, Seen]]
    now: float
    every: float = ROUND

    def of(self, plugin: str, subject: str = "") -> Seen | None:
        """What the plugin said last, or None."""
        return self.by_plugin.get(plugin, {}).get(subject)

    def number(self, plugin: str, metric: str, subject: str = "") -> float | None:
        """A metric's value, or None where it was not measured."""
        seen = self.of(plugin, subject)
        value = (seen or {}).get("metrics", {}).get(metric, {}).get("value")
        return None if value is None else float(value)

    def age(self, plugin: str, subject: str = "") -> float:
        """Seconds since it was said: checks have cadences of their own."""
        seen = self.of(plugin, subject)
        return max(self.now - time_of(seen["at"]), 0.0) if seen else 0.0

    def dated(self, figures: str, plugin: str, subject: str = "") -> str:
        """The figures, with their age where they are older than two rounds: much may have changed since."""
        age = self.age(plugin, subject)
        return f"{figures} ({_compact(age)} ago)" if figures and age > 2 * self.every else figures


def kind_of(seen: Seen) -> str:
    """What its check looks at: a `run`, a `disk`, or neither: `check`."""
    if seen["run"] and seen["check"] != seen["target"]:
        return "run"
    return "disk" if seen["check"] == f"{seen['target']}/disk_quota" else "check"


def results_of(kind: str, checks: Iterable[Seen], now: float, every: float = ROUND) -> dict[str, Results]:
    """Those of each run, or of each disk, by its name, in the order of the configuration."""
    found: dict[str, dict[str, dict[str, Seen]]] = defaultdict(lambda: defaultdict(dict))
    for seen in checks:
        if kind_of(seen) == kind:
            name = seen["run"] if kind == "run" else seen["target"]
            found[name][seen["check"].rpartition("/")[2]][seen["subject"] or ""] = seen
    return {name: Results(by_plugin, now, every) for name, by_plugin in found.items()}


def run_table(runs: Mapping[str, Results]) -> Table:
    """A row a run; columns of which nothing is known are left out."""
    columns = {
        "run": [Text(one_line(name), overflow="ellipsis", no_wrap=True) for name in runs],
        "state": [_state(found) for found in runs.values()],
        "progress": [Text(_progress(found)) for found in runs.values()],
        "rate": [Text(_rate(found)) for found in runs.values()],
        "left": [Text(_left(found)) for found in runs.values()],
        "log": [Text(_log(found)) for found in runs.values()],
        "GPUs": [Text(_gpus(found)) for found in runs.values()],
        "mem left": [Text(_memory(found)) for found in runs.values()],
    }
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    told = {title: cells for title, cells in columns.items() if title == "run" or any(map(str, cells))}
    for title in told:
        right = title in ("rate", "left", "log", "mem left")
        table.add_column(title, no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    table.columns[0].min_width = 8
    for row in zip(*told.values(), strict=True):
        table.add_row(*row)
    return table


def _state(found: Results) -> Text:
    """The run's state; green only where it runs and nobody doubts that it gets on."""
    state = of_checks(seen for subjects in found.by_plugin.values() for seen in subjects.values())
    log = found.of("log_staleness")
    doubted = state == "running" and log is not None and log["status"] != "OK"
    return Text(state, style="yellow" if doubted else _STATE_STYLES.get(state, ""))


def _progress(found: Results) -> str:
    done, total = (found.number("log_staleness", name) for name in ("progress", "total"))
    if done is None:
        epoch, batch = (found.number("log_staleness", name) for name in ("epoch", "batch"))
        told = "" if epoch is None or batch is None else f"epoch {epoch:.0f}, batch {batch:.0f}"
    else:
        told = f"{done:.10g}" + (f"/{total:.10g} {100 * done / total:.0f} %" if total else "")
    return found.dated(told, "log_staleness")


def _rate(found: Results) -> str:
    seconds = found.number("log_staleness", "iteration_time")
    if not seconds:
        return ""
    number, unit = (seconds, "s/it") if seconds >= 1 else (1 / seconds, "it/s")
    return f"{number:.{1 if number < 10 else 0}f} {unit}"


def _left(found: Results) -> str:
    left = found.number("job_liveness", "time_left")
    return "" if left is None else _compact(left - found.age("job_liveness"))


def _log(found: Results) -> str:
    age = found.number("log_staleness", "age")
    return "" if age is None else _compact(age + found.age("log_staleness"))


def _gpus(found: Results) -> str:
    """`8: 97 % 412 W`"""
    count = found.number("gpu_health", "gpus")
    figures = [
        f"{value:.0f} {unit}"
        for name, unit in (("utilisation", "%"), ("power", "W"))
        if (value := found.number("gpu_health", name)) is not None
    ]
    return found.dated("" if count is None else f"{count:.0f}: {' '.join(figures)}", "gpu_health")


def _memory(found: Results) -> str:
    """What is left on the node that has the least."""
    nodes = found.by_plugin.get("memory_leak", {})
    left = {node: found.number("memory_leak", "left", node) for node in nodes}
    known = [(value, node) for node, value in left.items() if value is not None]
    if not known:
        return ""
    least, node = min(known)
    return found.dated(format_size(least), "memory_leak", node)


def disk_table(disks: Mapping[str, Results]) -> Table:
    """A row for the bytes of each, one for its inodes."""
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    table.add_column("disk", no_wrap=True, overflow="ellipsis", min_width=8)
    for title in ("", "", "used", "free", ""):
        table.add_column(title, no_wrap=True, justify="right" if title else "left")
    for name, found in disks.items():
        for row in _disk(name, found):
            table.add_row(*row)
    return table


def _disk(name: str, found: Results) -> Iterator[tuple[str | Text, ...]]:
    """A row for bytes, one for inodes; one sentence where neither is known."""
    shown = False
    for subject, seen in found.by_plugin.get("disk_quota", {}).items():
        free, total = (found.number("disk_quota", metric, subject) for metric in ("free", "total"))
        if free is None or not total:
            continue
        shown, used = True, min(max(1 - free / total, 0.0), 1.0)
        left = found.number("disk_quota", "full_in", subject)
        age = found.age("disk_quota", subject)
        full = "" if left is None else f"full in {_compact(left - age)}"
        size = f"{free:,.0f}" if seen["metrics"]["free"]["unit"] != "B" else format_size(free)
        style = STYLES.get(seen["status"], "")
        yield (
            one_line(name),
            subject,
            Text(bar(used), style=style or "green"),
            f"{100 * used:.0f} %",
            found.dated(size, "disk_quota", subject),
            full,
        )
    if not shown:
        told = next(iter(found.by_plugin.get("disk_quota", {}).values()), None)
        yield one_line(name), "", Text(told["status"] if told else "not looked at yet", style="magenta")


def bar(share: float, width: int = BAR) -> str:
    """A share from 0 to 1 as a bar, an eighth of a sign exact: `███▌────`."""
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn + "─" * (width - len(drawn))


def _compact(seconds: float) -> str:
    """A duration for a cell: `2d23h`, `41m`, `24s`."""
    whole = max(seconds, 0.0)
    return format_duration(whole if whole < 60 else whole - whole % 60)


def time_of(text: str) -> float:
    """Seconds since the epoch of a time in status.json."""
    return datetime.fromisoformat(text).timestamp()
