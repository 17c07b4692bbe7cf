"""`watchdogd history [TARGET]`: state changes, incidents and metrics of the past, in words or drawn."""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TextIO

from watchdogd.cli.lookup import known_target, store_of
from watchdogd.cli.output import columns, named, one_line, print_json, print_line, seconds
from watchdogd.declaration import Chart
from watchdogd.errors import UsageError
from watchdogd.history.models import STALLED, Measure, Reading
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.system.smallfile import STATUS_LIMIT, parse_json, read_plain
from watchdogd.units import finite, format_duration, format_size, iso, local_time, zone_name
from watchdogd.web.charts import charts_of, declared_by, declared_charts

Points = Sequence[tuple[float, float]]


COLUMNS = ("time", "run", "check", "subject", "status", "metric", "value", "unit", "summary")

_LABELS = {"notice": "INFO", "action": "ACTION", "warning": "WARNING"}
"""The words of notices, by kind of event."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a run, a disk or a check; left out: all")
    parser.add_argument("--since", default="24h", metavar="TIME", help="how far back (24h)")
    parser.add_argument("--plot", action="store_true", help="draw the metrics of TARGET in the terminal")
    parser.add_argument("--metric", metavar="NAME", help="with --plot: this one alone, such as free or loss")
    parser.add_argument("--csv", action="store_true", help="one row a result and metric")
    parser.add_argument("--json", action="store_true", help="the same rows as a list")


def run(args: argparse.Namespace) -> int:
    """Print it, oldest first; return 1 if nothing has the target's name."""
    since = time.time() - seconds(args, "--since")
    if args.plot and not args.target:
        raise UsageError("history: --plot wants a TARGET: a run, a disk or a check")
    home = Home.existing(args.home)
    with store_of(home) as store:
        if args.target and not (store.changes(args.target, since) or store.incidents(target=args.target)):
            known_target(home, args.target)
        if args.csv or args.json:
            readings = store.readings(args.target, since)
            print_csv(readings, sys.stdout) if args.csv else print_json([_row(each) for each in readings])
        elif args.plot:
            _plot(home, store, args.target, args.metric, since)
        else:
            _print_story(home, store, args.target, since)
    return 0


def _row(reading: Reading) -> dict[str, Any]:
    return {
        "time": iso(reading.at),
        "run": reading.run or None,
        "check": reading.check,
        "subject": reading.subject or None,
        "status": reading.status.name if reading.status is not None else "",
        "metric": reading.metric,
        "value": finite(reading.value),
        "unit": reading.unit,
        "summary": reading.summary,
    }


def print_csv(readings: Iterable[Reading], file: TextIO) -> None:
    """Print one line for each reading, below a line of names."""
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: _cell(value) if isinstance(value, str) else value for key, value in _row(each).items()}
        for each in readings
    )


def _cell(text: str) -> str:
    """Return text that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    line = one_line(text)
    return f"'{line}" if line.lstrip().startswith(tuple("=+-@＝＋－＠")) else line


def _plot(home: Home, store: Store, target: str, metric: str | None, since: float) -> None:
    """Print the charts that the page shows for it, or one of the named metric."""
    series: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {}
    units: dict[str, str] = {}
    for each in store.readings(target, since):
        if each.value is not None:
            own = series.setdefault(each.check, {}).setdefault((each.subject, each.metric), [])
            own.append((each.at, each.value))
            units[each.metric] = each.unit
    if metric is None:
        drawn = list(_as_on_the_page(home, series))
    else:
        drawn = [
            (f"{named(check, subject)} {name}", units[name], points)
            for check, own in sorted(series.items())
            for (subject, name), points in sorted(own.items())
            if name == metric
        ]
    since = max(since, min((points[0][0] for _, _, points in drawn), default=since))
    for title, unit, points in drawn:
        for line in chart(title, unit, points, since, time.time(), columns()):
            print_line(line)
    if not drawn:
        names = ", ".join(units)
        there_are = f"; there are {names}" if names else ""
        print_line(f"no {metric or 'metric that moved'} of {target} is recorded of that time{there_are}")


def _as_on_the_page(
    home: Home, series: Mapping[str, Mapping[tuple[str, str], Points]]
) -> Iterator[tuple[str, str, Points]]:
    """Yield title, unit and points of each line that the page would draw; constants are left out."""
    declared = _declared(home)
    for check, own in series.items():
        owner = check.rpartition("/")[0] or check
        for drawn in charts_of(check, declared_by(declared, check), owner, own):
            lines = [line for line in drawn.lines if not line.dashed]
            for line in lines:
                part = f", {line.label}" if len(lines) > 1 else ""
                yield f"{drawn.target}: {drawn.title}{part}", drawn.unit, line.points


def _declared(home: Home) -> dict[str, tuple[Chart, ...]]:
    """Return the charts that checks declare, as far as a daemon has recorded them."""
    try:
        return declared_charts(parse_json(read_plain(home.status, limit=STATUS_LIMIT)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _range(home: Home, measures: Iterable[Measure]) -> Iterator[str]:
    """Yield the lowest, the highest and the mean value, under the names used on the page."""
    declared = _declared(home)
    for each in measures:
        if each.metric == STALLED:
            continue
        charts = declared_by(declared, each.check) or ()
        title = next((chart.title for chart in charts if chart.metric == each.metric and not chart.rate), "")
        low, high, mean = (label_of(value, each.unit) for value in (each.low, each.high, each.mean))
        numbers = f"{low} to {high}, mean {mean}" if low != high else f"{low} throughout"
        name = title or each.metric.replace("_", " ")
        yield f"{named(each.check, each.subject)}: {name} {numbers} ({each.readings} readings)"


def _print_story(home: Home, store: Store, target: str | None, since: float) -> None:
    """Print state changes, incidents, notices, actions and unwatched times in the order of time."""
    lines = [
        (
            change.at,
            f"{change.status.name:8} {named(change.check, change.subject)}: {change.summary}",
        )
        for change in store.changes(target, since)
    ]
    events = store.events(target, since)
    notices = [each for each in events if each.kind in _LABELS]
    lines += [
        (each.at, f"{'INCIDENT':8} {each.incident} {each.kind}: {each.check}: {each.summary}")
        for each in events
        if each.kind not in _LABELS
    ]
    lines += [(each.at, f"{_LABELS[each.kind]:8} {each.check}: {each.summary}") for each in notices]
    known = {each.summary for each in notices}
    touches = store.touches(since) if not target else []
    lines += [(touch.at, f"{'':8} {touch.line}") for touch in touches if touch.line not in known]
    lines += [
        (gap.begin, f"{'GAP':8} unwatched until {local_time(gap.end)}: {gap.reason}")
        for gap in store.gaps(since)
    ]
    for at, line in sorted(lines):
        print_line(f"{local_time(at)} {line}")
    measured = list(_range(home, store.measures(target, since))) if target else []
    for line in measured and ["measured in this time:", *measured]:
        print_line(line)
    if not (lines or measured):
        print_line("nothing is recorded of that time")


HEIGHT = 8
"""Lines of a chart without its title and times."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_HUGE = 1e300
"""Larger values cannot be drawn."""
_LABEL = 9
"""Characters for the numbers on the left."""


def chart(title: str, unit: str, points: Points, since: float, until: float, width: int) -> list[str]:
    """Return the lines of a chart, none wider than `width`.

    `points` are (seconds since the epoch, value), oldest first. Values that are not numbers are left out; a
    time without values is blank.
    """
    columns = columns_of(points, since, until, max(width - _LABEL - 2, 8))
    known = [value for value in columns if value is not None]
    if not known:
        return [f"{title}: nothing was measured"]
    low, high = _axis(min(known), max(known), unit)
    last = next(value for at, value in reversed(points) if abs(value) < _HUGE and since <= at <= until)
    lines = [f"{title}: {label_of(last, unit)} at last"]
    for row in range(HEIGHT - 1, -1, -1):
        mark = label_of(high, unit) if row == HEIGHT - 1 else label_of(low, unit) if row == 0 else ""
        drawn = "".join(_sign(value, row, low, high) for value in columns)
        lines.append(f"{mark:>{_LABEL}} ┤{drawn}".rstrip())
    return [*lines, _times(since, until, len(columns))]


def columns_of(points: Points, since: float, until: float, count: int) -> list[float | None]:
    """Return the mean of each of `count` equal spans of time; None for a span without values.

    If two readings are further apart than a span, the earlier one is repeated, for up to three times the
    usual distance.
    """
    span = max(until - since, 1.0) / count
    sums = [(0.0, 0)] * count
    good = [(at, value) for at, value in points if abs(value) < _HUGE and since <= at <= until]
    for at, value in good:
        index = min(int((at - since) / span), count - 1)
        sums[index] = (sums[index][0] + value, sums[index][1] + 1)
    means: list[float | None] = [total / number if number else None for total, number in sums]
    gaps = sorted(after - before for (before, _), (after, _) in itertools.pairwise(good))
    reach = math.ceil(3 * gaps[len(gaps) // 2] / span) if gaps else 0
    return _fill_gaps(means, reach)


def _fill_gaps(means: list[float | None], reach: int) -> list[float | None]:
    """Fill short gaps between two values with the earlier one; the end stays as it is."""
    filled, last = list(means), None
    for index, value in enumerate(means):
        if value is None:
            continue
        if last is not None and index - last <= reach:
            filled[last + 1 : index] = [means[last]] * (index - last - 1)
        last = index
    return filled


_HUGE_LABEL = 1e15
"""No prefix is short enough for larger numbers."""


def label_of(value: float, unit: str) -> str:
    """Return a number with its unit, shortened."""
    if unit == "B":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 10 else f"{value:.3g} s"
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size <= abs(value) < _HUGE_LABEL:
            return f"{value / size:.3g} {name}{unit}"
    shown = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()


def _axis(low: float, high: float, unit: str) -> tuple[float, float]:
    """Return round bounds for the axis; if both ends would read the same, values lie in its middle."""
    if label_of(low, unit) == label_of(high, unit):
        margin = abs(high) / 10 or 1.0
        low, high = low - margin, high + margin
    step = max(10.0 ** math.floor(math.log10(high - low)), sys.float_info.min)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _sign(value: float | None, row: int, low: float, high: float) -> str:
    if value is None:
        return " "
    filled = (value - low) / (high - low) * (HEIGHT * 8 - 1) + 1
    return _BLOCKS[min(max(round(filled) - row * 8, 0), 8)]


def _times(since: float, until: float, width: int) -> str:
    """Return the line below the chart, with the first and the last time."""
    form = "%H:%M" if until - since <= 86400 else "%d %b %H:%M"
    begin, end = (datetime.fromtimestamp(at).astimezone().strftime(form) for at in (since, until))
    end += f" {zone_name(until)}"
    return " " * (_LABEL + 1) + "└" + begin + end.rjust(width - len(begin))
