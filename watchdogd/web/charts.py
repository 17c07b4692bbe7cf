"""Charts of what checks measured: which lines belong together, their names, the forecast. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watchdogd import declaration
from watchdogd.history.models import STALLED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from watchdogd.web.timeline import Points

MOST = 600
"""Points that a line keeps: more than a screen shows."""
FEW = 8
"""Lines whose points are kept as they are; more of them share one grid of times, or a page would be huge."""
SLOTS = 150
"""Stretches of time of that grid: the lowest and the highest value of each are kept."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; `dashed`: a forecast, or a limit."""

    label: str
    points: Points
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """Lines that share an axis. `group` is the kind of thing that it shows, `target` whose it is."""

    id: str
    group: str
    target: str
    title: str
    unit: str
    lines: tuple[ChartLine, ...]

    @property
    def figures(self) -> tuple[tuple[str, float, float, float], ...]:
        """Label, last, lowest and highest value of each line that was measured: the chart in words."""
        return tuple(
            (line.label, line.points[-1][1], min(_values(line)), max(_values(line)))
            for line in self.lines
            if not line.dashed
        )


GROUPS = ("Disks", "Progress", "Memory", "GPUs")
"""The first ones on the page; then those that a user's own checks declare, and `More` at last."""
MORE = "More"


def groups_of(charts: Iterable[DrawnChart]) -> list[str]:
    """Return the groups of these charts, in the order of the page."""
    own = sorted({chart.group for chart in charts} - {*GROUPS, MORE})
    return [*GROUPS, *own, MORE]


def declared_charts(status: Mapping[str, Any]) -> dict[str, tuple[declaration.Chart, ...]]:
    """Return the charts that checks declare in status.json, by plugin and by check."""
    return {
        name: tuple(declaration.Chart(**chart) for chart in declared["charts"])
        for plugin, declared in status.get("declared", {}).items()
        if declared["charts"] is not None
        for name in (plugin, *declared["checks"])
    }


def charts_of(
    check: str,
    declared: Iterable[declaration.Chart] | None,
    target: str,
    series: Mapping[tuple[str, str], Points],
) -> Iterator[DrawnChart]:
    """Yield the charts of one check, as they are `declared`; where nothing is, one for each metric.

    `target` is the run or disk that it is about.
    """
    if declared is None:
        metrics = dict.fromkeys(metric for _, metric in series if metric != STALLED)
        declared = [declaration.Chart(metric) for metric in metrics]
    for each in declared:
        if each.limit:
            yield from _bounded(check, each, target, series)
        elif lines := tuple(_lines(each.metric, target, series, each.rate)):
            title = each.title or each.metric
            yield DrawnChart(f"{check}.{each.metric}", each.group, target, title, each.unit, lines)


def _lines(
    metric: str, target: str, series: Mapping[tuple[str, str], Points], rate: float
) -> Iterator[ChartLine]:
    """Yield a line a subject, the one of the whole first, unless it would repeat a single part."""
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
        yield ChartLine("all" if found else target, whole)
    yield from (ChartLine(subject, points) for subject, points in found.items())


def _bounded(
    check: str, declared: declaration.Chart, target: str, series: Mapping[tuple[str, str], Points]
) -> Iterator[DrawnChart]:
    """Yield a chart of a metric and its limit for each subject (bytes, inodes), with the forecast."""
    for subject in dict.fromkeys(subject for subject, _ in series):
        used, total = (series.get((subject, name), ()) for name in (declared.metric, declared.limit))
        if not used:
            continue
        lines = [ChartLine(declared.metric, thinned(used))]
        if total:
            lines.append(ChartLine("capacity", thinned(total), dashed=True))
            lines += _forecast(used[-1], total[-1][1], series.get((subject, declared.full_in), ()))
        unit = "" if subject == "inodes" else declared.unit
        title = subject or declared.title or declared.metric
        yield DrawnChart(f"{check}.{subject}", declared.group, target, title, unit, tuple(lines))


def _forecast(last: tuple[float, float], total: float, full_in: Points) -> list[ChartLine]:
    """Return the line from the last reading to the time at which the disk is forecast to be full."""
    if not full_in or full_in[-1][0] < last[0] or full_in[-1][1] <= 0:
        return []
    return [ChartLine("forecast", (last, (last[0] + full_in[-1][1], total)), dashed=True)]


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
    """Return two points a stretch of `width` seconds from `begin`: its extreme values in their order.

    They stand at its begin and its middle; one of them where they are the same.
    """
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


def _values(line: ChartLine) -> list[float]:
    return [value for _, value in line.points]
