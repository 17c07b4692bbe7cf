"""The page as one HTML file: styles, chart library and numbers included, nothing to fetch."""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import time
from bisect import bisect_right
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from watchdogd.incidents.models import HOME_CLOSED, HOME_SILENT
from watchdogd.notify.message import for_home
from watchdogd.plugin import Advice
from watchdogd.system.text import plain
from watchdogd.system.times import short_time
from watchdogd.units import format_duration, format_size
from watchdogd.web.charts import gridded, in_groups, slots_for
from watchdogd.web.columns import ROUND, STATE_WORDS, disks_of, roomless, switch_line, time_of
from watchdogd.web.run_forecast import coarse, headline
from watchdogd.web.timeline import HOLDS, drawn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.history.models import Gap
    from watchdogd.incidents.models import Incident
    from watchdogd.web.charts import ChartLine
    from watchdogd.web.content import PageContent
    from watchdogd.web.timeline import Points, Span

LIVE_EVERY = 30
"""Seconds after which the live page reloads."""
_QUARTER = 900
"""Seconds: summer time begins and ends at a quarter of an hour."""
_AHEAD = 366 * 86400.0
"""Seconds ahead for which a page knows local time, for forecasts and for a page that stays open."""


def render(content: PageContent, *, live: bool = False) -> str:
    """Render the page; `live`: it reloads itself from where it came."""
    template = environment().get_template("page.html.j2")
    return template.render(
        content=content,
        live_every=LIVE_EVERY if live else 0,
        headline=headline(
            [run.state for run in content.runs], [row.incident.status for row in content.beside_states]
        ),
        disks=disks_of(content.status),
        roomless=roomless(content.status),
        zone=time.strftime("%Z", time.localtime(content.at)),
        offsets=json.dumps(_offsets(content.since, content.at + _AHEAD)),
        short=lambda at: short_time(at, content.at),
        ago=lambda at: coarse(max(content.at - at, 0.0)),
        words=STATE_WORDS,
        fresh=2 * (content.status.get("round_every") or ROUND),
        said={run.name: run.far.said for run in content.runs},
        switch_line=switch_line,
        answers=answers,
        for_home=lambda line: for_home(line, content.command),
        assets=assets(),
    )


def answers(incident: Incident) -> list[Advice]:
    """Return how to say that somebody works on an open incident, or wants to hear no more of it."""
    if incident.fault in (HOME_SILENT, HOME_CLOSED):  # nothing that people answer is taken in
        return []
    ack = Advice("Once you work on it:", f"watchdogd ack {incident.id}")
    silence = f"watchdogd silence {shlex.quote(incident.target)} --for 2h"
    found = [] if incident.acknowledged_by else [ack]
    return found if incident.silent else [*found, Advice("To hear no more of it for 2h:", silence)]


def _offsets(begin: float, end: float) -> list[tuple[int, int]]:
    """Return the minutes by which local time is ahead of UTC, each with the time from which it holds."""
    found: list[tuple[int, int]] = []
    for at in range(int(begin // _QUARTER) * _QUARTER, int(end) + 1, _QUARTER):
        ahead = round(time.localtime(at).tm_gmtoff / 60)
        if not found or found[-1][1] != ahead:
            found.append((at, ahead))
    return found


@cache
def environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_unindented),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.filters |= {
        "when": when,
        "seconds": time_of,
        "coarse": coarse,
        "figure": figure,
        "fragment": lambda name: f"#run/{quote(name, safe='')}",
        "download": lambda text: f"data:application/json,{quote(text)}",
        "script": as_script,
        "grouped": in_groups,
        "bars": bars,
        "plotted": plotted,
    }
    return environment


def _unindented(name: str) -> str:
    """Return a template without indentation, which is a tenth of the page."""
    text = (files("watchdogd.web") / "assets" / name).read_text("utf-8")
    return re.sub(r"(?m)^ +", " ", text)


@cache
def assets() -> dict[str, Markup]:
    """Return the styles and scripts of our own package, which are no outside text."""
    folder = files("watchdogd.web") / "assets"
    names = ("page.css", "page.js", "uPlot.min.css", "uPlot.iife.min.js")
    return {name: Markup((folder / name).read_text("utf-8")) for name in names}  # noqa: S704 - our own files


def when(at: float) -> str:
    """Return a time for people, in this machine's time zone."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%a %d %b %H:%M %Z")


def figure(value: float, unit: str) -> str:
    """Return a number with its unit, as people write it: `548,500`, `1.6 M`, `80.9 GB`, `0.0123`."""
    if not math.isfinite(value):
        return "?"
    if unit == "B":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if abs(value) >= 60 else f"{value:.3g} s"
    for size, name in ((1e12, " T"), (1e9, " G"), (1e6, " M")):
        if abs(value) >= size:
            return f"{value / size:.3g}{name}{unit}"
    digits = 0 if abs(value) >= 1000 else max(2 - math.floor(math.log10(abs(value))), 0) if value else 0
    shown = f"{value:,.{min(digits, 9)}f}"
    return f"{shown.rstrip('0').rstrip('.') if '.' in shown else shown} {unit}".rstrip()


def as_script(value: object) -> Markup:
    """Return JSON that is safe inside a script element, whatever its strings contain."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped here


BARS = 300
"""How many stretches of a timeline can be distinguished."""


def bars(spans: tuple[Span, ...], since: float, now: float) -> list[dict[str, Any]]:
    """Return the spans as percents of the width."""
    whole = max(now - since, 1.0)
    return [
        {
            "x": round(100 * (span.begin - since) / whole, 2),
            "width": round(max(100 * (span.end - span.begin) / whole, 0.15), 2),
            "state": span.state,
            "text": f"{STATE_WORDS.get(span.state, span.state)} for {coarse(span.end - span.begin)}"
            f" from {short_time(span.begin, now)}",
        }
        for span in drawn(spans, whole / BARS)
    ]


def plotted(content: PageContent) -> dict[str, list[Any]]:
    """Return the charts as their script reads them, thinned to the size that a page can have.

    `times` are those of all charts, each stored as the difference from the one before; a chart has its place
    there.
    """
    charts = list(content.all_charts)
    slots = slots_for(sum(len(chart.lines) for chart in charts))
    grid = (content.since, max(content.at - content.since, 1.0) / slots)
    times: dict[tuple[int, ...], int] = {}
    found = []
    for chart in charts:
        own, values = drawn_columns([_thinned(line, *grid, slots) for line in chart.lines], content.gaps)
        lines = [{"label": line.label} | ({"dashed": True} if line.dashed else {}) for line in chart.lines]
        place = times.setdefault(own, len(times))
        found.append({"id": chart.id, "unit": chart.unit, "lines": lines, "times": place, "values": values})
    return {"charts": found, "times": [list(each) for each in times]}


def _thinned(line: ChartLine, begin: float, width: float, slots: int) -> ChartLine:
    if len(line.points) <= 2 * slots:
        return line
    return replace(line, points=gridded(line.points, begin, width, slots))


def drawn_columns(lines: list[ChartLine], gaps: Iterable[Gap]) -> tuple[tuple[int, ...], list[str]]:
    """Return the times as differences, and the values of each line as one string.

    A missing value is empty; `!` marks a break in the line.
    """
    values = [{round(at): _short(value) for at, value in line.points} for line in lines]
    breaks = [set() if line.dashed else _breaks(line.points, gaps) for line in lines]
    times = sorted({at for line in values for at in line} | {at for found in breaks for at in found})
    columns = [
        ",".join(line.get(at, "!" if at in ends else "") for at in times)
        for line, ends in zip(values, breaks, strict=True)
    ]
    return tuple(after - before for before, after in itertools.pairwise([0, *times])), columns


def _short(value: float) -> str:
    """Return a number with five significant digits, or four if it has decimals."""
    return f"{float(f'{value:.5g}'):.12g}" if abs(value) >= 1000 else f"{value:.4g}"


def _breaks(points: Points, gaps: Iterable[Gap]) -> set[int]:
    """Return a time inside each gap without rounds, where a straight line would be invented."""
    pairs = list(itertools.pairwise(at for at, _ in points))
    held = {round((before + after) / 2) for before, after in pairs if after - before > HOLDS}
    begins = [before for before, _ in pairs]
    for gap in gaps:
        index = bisect_right(begins, gap.begin) - 1
        if index >= 0 and pairs[index][1] >= gap.end:
            held.add(round((pairs[index][0] + pairs[index][1]) / 2))
    return held
