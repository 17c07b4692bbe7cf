"""What checks measured, as charts: which lines belong together, their names, what is forecast. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.history.record import STALLED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from watchdogd.page.timeline import Points

MOST = 600
"""Points that a line keeps: more than a screen shows."""
FEW = 8
"""Lines whose points are kept as they are; more of them share one grid of times, or a page would be huge."""
SLOTS = 150
"""Stretches of time of that grid: the lowest and the highest value of each are kept."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart; `dashed`: a forecast, or a limit."""

    label: str
    points: Points
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines that share an axis. `group` is the kind of thing that it shows, `target` whose it is."""

    id: str
    group: str
    target: str
    title: str
    unit: str
    lines: tuple[Line, ...]

    @property
    def figures(self) -> tuple[tuple[str, float, float, float], ...]:
        """Label, last, lowest and highest value of each line that was measured: the chart in words."""
        return tuple(
            (line.label, line.points[-1][1], min(_values(line)), max(_values(line)))
            for line in self.lines
            if not line.dashed
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a plugin's metric is shown. `rate`: what is shown is so much divided by it; 0: it itself."""

    group: str
    title: str
    unit: str = ""
    rate: float = 0.0


_KINDS = {
    ("log_staleness", "iteration_time"): _Kind("Progress", "iterations a minute", rate=60.0),
    ("log_staleness", "progress"): _Kind("Progress", "iteration"),
    ("log_staleness", "epoch"): _Kind("Progress", "epoch"),
    ("log_staleness", "batch"): _Kind("Progress", "batch of the epoch"),
    ("log_staleness", "loss"): _Kind("Progress", "loss"),
    ("log_staleness", "age"): _Kind("Progress", "age of the log", "s"),
    ("memory_leak", "left"): _Kind("Memory", "memory left on each node", "B"),
    ("memory_leak", "anonymous"): _Kind("Memory", "memory held by processes", "B"),
    ("gpu_health", "utilisation"): _Kind("GPUs", "GPU utilisation of each node", "%"),
    ("gpu_health", "power"): _Kind("GPUs", "GPU power of each node", "W"),
    ("gpu_health", "temperature"): _Kind("GPUs", "temperature of each node's hottest GPU", "°C"),
    ("gpu_health", "vram"): _Kind("GPUs", "memory used of each node's fullest GPU", "%"),
    ("gpu_health", "gpus"): _Kind("GPUs", "GPUs that answer"),
}
GROUPS = ("Disks", "Progress", "Memory", "GPUs", "More")
"""In the order of the page."""
_IN_TIMELINE = ("job_liveness", "watchdogd")
"""Plugins whose numbers, as those of a run's progress (STALLED), the timeline shows."""


def charts_of(
    check: str, plugin: str, target: str, series: Mapping[tuple[str, str], Points]
) -> Iterator[Chart]:
    """The charts of one check; `plugin` is its plugin's name, `target` the run or disk it is about."""
    if plugin in _IN_TIMELINE:
        return
    if plugin == "disk_quota":
        yield from _disks(check, target, series)
        return
    for metric in dict.fromkeys(metric for _, metric in series if metric != STALLED):
        kind = _KINDS.get((plugin, metric), _Kind("More", metric))
        lines = tuple(_lines(metric, target, series, kind.rate))
        if lines:
            yield Chart(f"{check}.{metric}", kind.group, target, kind.title, kind.unit, lines)


def _lines(metric: str, target: str, series: Mapping[tuple[str, str], Points], rate: float) -> Iterator[Line]:
    """A line a subject; the one of the whole first, unless there is a single part, which it would repeat."""
    found = {
        subject: scaled
        for (subject, name), points in sorted(series.items())
        if name == metric and (scaled := _scaled(points, rate))
    }
    if len(found) > FEW:
        begin = min(points[0][0] for points in found.values())
        width = max(points[-1][0] for points in found.values()) - begin
        found = {subject: gridded(points, begin, width / SLOTS) for subject, points in found.items()}
    else:
        found = {subject: thinned(points) for subject, points in found.items()}
    whole = found.pop("", ())
    if whole and len(found) != 1:
        yield Line("all" if found else target, whole)
    yield from (Line(subject, points) for subject, points in found.items())


def _disks(check: str, target: str, series: Mapping[tuple[str, str], Points]) -> Iterator[Chart]:
    """Use and capacity of each kind (bytes, inodes), the forecast drawn on."""
    for subject in dict.fromkeys(subject for subject, _ in series):
        used, total = series.get((subject, "used"), ()), series.get((subject, "total"), ())
        if not used:
            continue
        lines = [Line("used", thinned(used))]
        if total:
            lines.append(Line("capacity", thinned(total), dashed=True))
            lines += _forecast(used[-1], total[-1][1], series.get((subject, "full_in"), ()))
        unit = "" if subject == "inodes" else "B"
        yield Chart(f"{check}.{subject}", "Disks", target, subject or "used", unit, tuple(lines))


def _forecast(last: tuple[float, float], total: float, full_in: Points) -> list[Line]:
    """From the last reading to the time at which the disk is full, where that was forecast with it."""
    if not full_in or full_in[-1][0] < last[0] or full_in[-1][1] <= 0:
        return []
    return [Line("forecast", (last, (last[0] + full_in[-1][1], total)), dashed=True)]


def _scaled(points: Points, rate: float) -> Points:
    finite = tuple((at, value) for at, value in points if math.isfinite(value))
    return tuple((at, rate / value) for at, value in finite if value > 0) if rate else finite


def thinned(points: Points, most: int = MOST) -> Points:
    """At most `most` points: of each stretch of time the lowest and the highest, so that no spike is lost."""
    if len(points) <= most:
        return points
    width = (points[-1][0] - points[0][0]) / (most // 2) or 1.0
    kept: dict[int, tuple[tuple[float, float], tuple[float, float]]] = {}
    for point in points:
        slot = int((point[0] - points[0][0]) / width)
        low, high = kept.get(slot, (point, point))
        kept[slot] = (min(low, point, key=_value), max(high, point, key=_value))
    found = {point for pair in kept.values() for point in pair}
    return tuple(sorted({*found, points[-1]}))[-most - 3 :]


def gridded(points: Points, begin: float, width: float) -> Points:
    """Two points a stretch of `width` seconds, counted from `begin`: its lowest and its highest value, in
    their order, at its begin and its middle. One of them where they are the same."""
    slots: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        slots.setdefault(int((point[0] - begin) / width) if width > 0 else 0, []).append(point)
    found: list[tuple[float, float]] = []
    for slot, inside in slots.items():
        pair = sorted({min(inside, key=_value), max(inside, key=_value)})
        found += [(begin + (slot + half / 2) * width, value) for half, (_, value) in enumerate(pair)]
    return tuple(found)


def _value(point: tuple[float, float]) -> float:
    return point[1]


def _values(line: Line) -> list[float]:
    return [value for _, value in line.points]
