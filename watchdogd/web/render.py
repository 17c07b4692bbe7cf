"""The picture as one HTML file: styles, charts' library and numbers inside, nothing to fetch."""

from __future__ import annotations

import itertools
import json
import time
from bisect import bisect_right
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from watchdogd.system.text import plain
from watchdogd.units import format_duration, format_size
from watchdogd.web.charts import FEW, groups_of
from watchdogd.web.timeline import HOLDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.history.models import Gap
    from watchdogd.web.charts import DrawnChart
    from watchdogd.web.content import PageContent
    from watchdogd.web.timeline import Points, Span

LIVE_EVERY = 30
"""Seconds after which the live page asks for itself again."""
_QUARTER = 900
"""Seconds: clocks are set to and from summer time at a quarter of an hour."""
_AHEAD = 366 * 86400.0
"""Seconds ahead for which a page knows this machine's clock: forecasts, and a page that stays open."""


def render(picture: PageContent, *, live: bool = False) -> str:
    """Render the page; `live`: it renews itself, from where it came."""
    template = _environment().get_template("page.html.j2")
    return template.render(
        picture=picture,
        live_every=LIVE_EVERY if live else 0,
        groups=groups_of(picture.charts),
        few=FEW,
        offsets=json.dumps(_offsets(picture.since, picture.at + _AHEAD)),
        assets=_assets(),
    )


def _offsets(begin: float, end: float) -> list[tuple[int, int]]:
    """Minutes by which this machine's clock is ahead of UTC, each with the time from which it is so."""
    found: list[tuple[int, int]] = []
    for at in range(int(begin // _QUARTER) * _QUARTER, int(end) + 1, _QUARTER):
        ahead = round(time.localtime(at).tm_gmtoff / 60)
        if not found or found[-1][1] != ahead:
            found.append((at, ahead))
    return found


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("watchdogd.web", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters |= {
        "when": when,
        "moment": lambda text: when(datetime.fromisoformat(text).timestamp()),
        "duration": format_duration,
        "figure": figure,
        "script": as_script,
        "bars": bars,
        "plotted": plotted,
    }
    return environment


@cache
def _assets() -> dict[str, Markup]:
    """Styles and scripts of our own package: they are no outside text."""
    folder = files("watchdogd.web") / "assets"
    names = ("page.css", "page.js", "uPlot.min.css", "uPlot.iife.min.js")
    return {name: Markup((folder / name).read_text("utf-8")) for name in names}  # noqa: S704 - our own files


def when(at: float) -> str:
    """Return a time as people read it, in this machine's zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def figure(value: float, unit: str) -> str:
    """Return a number with its unit, as short as possible."""
    if unit == "B":
        return format_size(value)
    if unit == "s":
        return format_duration(value)
    return f"{value:,.4g} {unit}".rstrip()


def as_script(value: object) -> Markup:
    """JSON that may stand in a script element, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped here


def bars(spans: tuple[Span, ...], since: float, now: float) -> list[dict[str, Any]]:
    """Return the spans as percents of the width."""
    whole = max(now - since, 1.0)
    return [
        {
            "x": round(100 * (span.begin - since) / whole, 3),
            "width": round(max(100 * (span.end - span.begin) / whole, 0.15), 3),
            "state": span.state,
            "text": f"{span.state} for {format_duration(span.end - span.begin)} from {when(span.begin)}",
        }
        for span in spans
    ]


def plotted(charts: tuple[DrawnChart, ...], gaps: tuple[Gap, ...] = ()) -> list[dict[str, Any]]:
    """Return the charts as their script takes them: one axis of times, a column of values a line."""
    return [
        {
            "id": chart.id,
            "unit": chart.unit,
            "lines": [{"label": line.label, "dashed": line.dashed} for line in chart.lines],
            "columns": _columns(chart, gaps),
        }
        for chart in charts
    ]


def _columns(chart: DrawnChart, gaps: Iterable[Gap]) -> list[list[float | bool | None]]:
    """Return the times, then the values of each line: None where it has none, False where it breaks off."""
    lines = [{round(at): float(f"{value:.6g}") for at, value in line.points} for line in chart.lines]
    breaks = [set() if line.dashed else _breaks(line.points, gaps) for line in chart.lines]
    times = sorted({at for line in lines for at in line} | {at for found in breaks for at in found})
    rows = zip(lines, breaks, strict=True)
    return [
        list(times),
        *([values.get(at, False if at in ends else None) for at in times] for values, ends in rows),
    ]


def _breaks(points: Points, gaps: Iterable[Gap]) -> set[int]:
    """Return a time inside each stretch in which nobody looked: a straight line there would be made up."""
    pairs = list(itertools.pairwise(at for at, _ in points))
    held = {round((before + after) / 2) for before, after in pairs if after - before > HOLDS}
    begins = [before for before, _ in pairs]
    for gap in gaps:
        index = bisect_right(begins, gap.begin) - 1
        if index >= 0 and pairs[index][1] >= gap.end:
            held.add(round((pairs[index][0] + pairs[index][1]) / 2))
    return held
