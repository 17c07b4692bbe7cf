"""Charts of what checks measured: which lines belong together, their names, the forecast. Pure."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from watchdogd import declaration
from watchdogd.history.models import STALLED
from watchdogd.incidents.models import SELF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from watchdogd.web.timeline import Points

FEW = 6
"""Lines that can be distinguished; of more parts (nodes, GPUs) only the lowest and highest values are
drawn."""
SLOTS = 150
"""Stretches of time in a chart; the lowest and highest value of each are kept, so that no spike is lost."""
FEWEST = 7
"""Least number of stretches of a chart, however many lines the page has."""
CAPACITY = "capacity"
"""Label of a limit's line."""
_MOVED = 1e-3
"""A value that changes by this share of its limit is no constant."""
_POINTS = 5.0
"""Percentage points by which a share has changed that is no constant: less is not seen on its axis."""
VALUES = 18_000
"""Values on a page, of about six characters each."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; `dashed`: a forecast, or a limit."""

    label: str
    points: Points
    dashed: bool = False


class Figure(NamedTuple):
    """Last, lowest and highest value of a line, last measured at `at`, about `every` seconds apart."""

    label: str
    last: float
    low: float
    high: float
    at: float
    every: float


def _last(points: Points) -> tuple[float, float]:
    """Return when a line was measured last, and the usual time between two of its points."""
    gaps = sorted(after - before for (before, _), (after, _) in itertools.pairwise(points))
    return points[-1][0], gaps[len(gaps) // 2] if gaps else 0.0


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """Lines that share an axis.

    `group` is the kind of chart, `target` the run, disk or check. `figures` are the chart in words, one for
    each measured line.
    """

    id: str
    group: str
    target: str
    title: str
    unit: str
    lines: tuple[ChartLine, ...]
    figures: tuple[Figure, ...]

    @classmethod
    def of(
        cls, identity: str, declared: declaration.Chart, target: str, title: str, lines: Iterable[ChartLine]
    ) -> DrawnChart:
        """Return the chart of these lines."""
        found = tuple(lines)
        figures = tuple(
            Figure(line.label, values[-1], min(values), max(values), *_last(line.points))
            for line in found
            if not line.dashed and (values := [value for _, value in line.points])
        )
        return cls(identity, declared.group, target, title, declared.unit, found, figures)

    @property
    def moves(self) -> bool:
        """Return True if it shows more than constants, or constants beside their limit."""
        limits = [line.points[-1][1] for line in self.lines if line.dashed and line.label == CAPACITY]
        least = _POINTS if self.unit == "%" else _MOVED * max(limits, default=0.0)
        return any(
            f"{low:.4g}" != f"{high:.4g}" and high - low >= least for _, _, low, high, *_ in self.figures
        )


GROUPS = ("Progress", "GPUs", "Memory")
"""Groups of charts that come first; those of users' own checks follow, and `More` is last."""
MORE = "More"


def in_groups(charts: Iterable[DrawnChart]) -> dict[str, list[DrawnChart]]:
    """Return the charts by group, in the order of the page."""
    found: dict[str, list[DrawnChart]] = defaultdict(list)
    for chart in charts:
        found[chart.group].append(chart)
    order = [*GROUPS, *sorted(found.keys() - {*GROUPS, MORE}), MORE]
    return {group: found[group] for group in order if group in found}


def declared_charts(status: Mapping[str, Any]) -> dict[str, tuple[declaration.Chart, ...]]:
    """Return the charts that checks declare in status.json, by plugin and by check; watchdogd has none."""
    return {SELF: ()} | {
        name: tuple(declaration.Chart(**chart) for chart in declared["charts"])
        for plugin, declared in status.get("declared", {}).items()
        if declared["charts"] is not None
        for name in (plugin, *declared["checks"])
    }


def declared_by(
    declared: Mapping[str, tuple[declaration.Chart, ...]], check: str
) -> tuple[declaration.Chart, ...] | None:
    """Return the charts that a check declares; for one no longer configured, those of its plugin."""
    return declared.get(check, declared.get(check.rpartition("/")[2]))


def charts_of(
    check: str,
    declared: Iterable[declaration.Chart] | None,
    target: str,
    series: Mapping[tuple[str, str], Points],
) -> Iterator[DrawnChart]:
    """Yield the charts of one check that move: as `declared`, else one for each metric.

    `target` is its run or disk.
    """
    if declared is None:
        metrics = dict.fromkeys(metric for _, metric in series if metric != STALLED)
        declared = [declaration.Chart(metric, metric.replace("_", " ")) for metric in metrics]
    for each in declared:
        charts = _bounded(check, each, target, series) if each.limit else _plain(check, each, target, series)
        yield from (chart for chart in charts if chart.moves)


def _plain(
    check: str, declared: declaration.Chart, target: str, series: Mapping[tuple[str, str], Points]
) -> Iterator[DrawnChart]:
    if lines := tuple(_lines(declared.metric, target, series, declared.rate)):
        title = declared.title or declared.metric
        yield DrawnChart.of(f"{check}.{declared.metric}", declared, target, title, lines)


def _lines(
    metric: str, target: str, series: Mapping[tuple[str, str], Points], rate: float
) -> Iterator[ChartLine]:
    """Yield a line for each subject, the whole first unless it would repeat a single part."""
    found = {
        subject: scaled
        for (subject, name), points in sorted(series.items())
        if name == metric and (scaled := _scaled(points, rate))
    }
    whole = found.pop("", ())
    if whole and len(found) != 1:
        yield ChartLine("all" if found else target, whole)
    if len(found) > FEW:
        yield from _extremes(found)
    else:
        yield from (ChartLine(subject, points) for subject, points in found.items())


def _extremes(parts: Mapping[str, Points]) -> Iterator[ChartLine]:
    """Yield the lowest and the highest of many lines, named after those that have these values now."""
    begin = min(points[0][0] for points in parts.values())
    width = max(max(points[-1][0] for points in parts.values()) - begin, 1.0) / SLOTS
    slots: dict[int, list[float]] = defaultdict(list)
    for points in parts.values():
        for at, value in points:
            slots[int((at - begin) / width)].append(value)
    last = {subject: points[-1][1] for subject, points in parts.items()}
    for word, of, who in (("lowest", min, min), ("highest", max, max)):
        now = who(last, key=lambda subject: last[subject])
        points = tuple((begin + slot * width, of(values)) for slot, values in sorted(slots.items()))
        yield ChartLine(f"{word} of {len(parts)}, now {now}", (*points[:-1], (points[-1][0], last[now])))


SPACE = {"bytes": "space used", "inodes": "inodes used"}
"""Titles of charts of limited resources, by subject."""


def _bounded(
    check: str, declared: declaration.Chart, target: str, series: Mapping[tuple[str, str], Points]
) -> Iterator[DrawnChart]:
    """Yield a chart of a metric and its limit for each subject (bytes, inodes), with the forecast."""
    for subject in dict.fromkeys(subject for subject, _ in series):
        used, total = (series.get((subject, name), ()) for name in (declared.metric, declared.limit))
        if not used:
            continue
        lines = [ChartLine(declared.metric, used)]
        if total:
            lines.append(ChartLine(CAPACITY, (total[0], total[-1]), dashed=True))
            lines += _forecast(used[-1], total[-1][1], series.get((subject, declared.full_in), ()))
        counted = replace(declared, unit="") if subject == "inodes" else declared
        title = SPACE.get(subject, subject) or declared.title or declared.metric
        yield DrawnChart.of(f"{check}.{subject}", counted, target, title, lines)


def _forecast(last: tuple[float, float], total: float, full_in: Points) -> list[ChartLine]:
    """Return the line from the last reading to the time at which the disk is forecast to be full."""
    if not full_in or full_in[-1][0] < last[0] or full_in[-1][1] <= 0:
        return []
    return [ChartLine("forecast", (last, (last[0] + full_in[-1][1], total)), dashed=True)]


def _scaled(points: Points, rate: float) -> Points:
    if not rate and all(math.isfinite(value) for _, value in points):
        return points
    finite = tuple((at, value) for at, value in points if math.isfinite(value))
    return tuple((at, rate / value) for at, value in finite if value > 0) if rate else finite


def slots_for(lines: int) -> int:
    """Return into how many stretches each line is divided on a page with so many lines."""
    return min(SLOTS, max(FEWEST, VALUES // (2 * max(lines, 1))))


def gridded(points: Points, begin: float, width: float, slots: int) -> Points:
    """Return two points for each stretch of `width` seconds from `begin`: its extremes, in their order.

    They are placed at its beginning and its middle.
    """
    times, values = [at for at, _ in points], [value for _, value in points]
    edges = [bisect_left(times, begin + slot * width) for slot in range(slots)] + [len(times)]
    found: list[tuple[float, float]] = []
    for slot, (first, end) in enumerate(itertools.pairwise(edges)):
        if inside := values[first:end]:
            low, high = min(inside), max(inside)
            pair = (low, high) if inside.index(low) <= inside.index(high) else (high, low)
            found += [(begin + (slot + half / 2) * width, value) for half, value in enumerate(pair)]
    return tuple(found)
