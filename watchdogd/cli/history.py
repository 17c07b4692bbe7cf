"""`watchdogd history [TARGET]`: state changes, incidents and metrics of the past, in words or drawn."""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TextIO

from watchdogd.cli.lookup import known_target, store_of
from watchdogd.cli.output import columns, named, one_line, print_json, print_line, seconds
from watchdogd.errors import UsageError
from watchdogd.history.models import Measure, Reading
from watchdogd.history.store import Store
from watchdogd.home.layout import Home
from watchdogd.units import finite, format_duration, format_size, iso

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
    """Print it, oldest first; 1 where nothing bears the target's name."""
    since = time.time() - seconds(args, "--since")
    if args.plot and not args.target:
        raise UsageError("history: --plot wants a TARGET: a run, a disk or a check")
    home = Home.existing(args.home)
    with store_of(home) as store:
        if args.target and not _is_recorded(store, args.target, since):
            known_target(home, args.target)
        if args.csv or args.json:
            readings = store.readings(args.target, since)
            print_csv(readings, sys.stdout) if args.csv else print_json([_row(each) for each in readings])
        elif args.plot:
            _plot(store, args.target, args.metric, since)
        else:
            _print_story(store, args.target, since)
    return 0


def _is_recorded(store: Store, target: str, since: float) -> bool:
    """Return True where the history holds something of that name, even if it is no longer configured."""
    return bool(store.changes(target, since) or store.incidents(target=target))


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
    """One line a reading, below a line of names."""
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: _cell(value) if isinstance(value, str) else value for key, value in _row(each).items()}
        for each in readings
    )


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    line = one_line(text)
    return f"'{line}" if line.lstrip().startswith(tuple("=+-@＝＋－＠")) else line


def _plot(store: Store, target: str, metric: str | None, since: float) -> None:
    """Print a chart of each metric that moved, or of the one that is named."""

    series: dict[tuple[str, str, str, str], list[tuple[float, float]]] = {}
    for each in store.readings(target, since):
        if each.value is not None:
            series.setdefault((each.check, each.subject, each.metric, each.unit), []).append(
                (each.at, each.value)
            )
    shown = {
        key: points
        for key, points in series.items()
        if key[2] == metric or (metric is None and _moves(points, key[3]))
    }
    width, now = columns(), time.time()
    since = max(since, min((points[0][0] for points in shown.values()), default=since))
    for (check, subject, name, unit), points in sorted(shown.items()):
        title = f"{named(check, subject)} {name}"
        for line in chart(title, unit, points, since, now, width):
            print_line(line)
    if not shown:
        names = ", ".join(dict.fromkeys(name for _, _, name, _ in sorted(series)))
        there_are = f"; there are {names}" if names else ""
        print_line(f"no {metric or 'metric that moved'} of {target} is recorded of that time{there_are}")


def _range(measure: Measure) -> str:
    numbers = f"{measure.low:.6g} to {measure.high:.6g}, mean {measure.mean:.6g} {measure.unit}".rstrip()
    name = f"{named(measure.check, measure.subject)} {measure.metric}"
    return f"{'':8} {name}: {numbers} ({measure.readings} readings)"


def _print_story(store: Store, target: str | None, since: float) -> None:
    """State changes, incidents, notices, what people and watchdogd did, unwatched times, in their order."""
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
        (gap.begin, f"{'GAP':8} unwatched until {iso(gap.end)}: {gap.reason}") for gap in store.gaps(since)
    ]
    if target:
        lines += [(time.time(), _range(measure)) for measure in store.measures(target, since)]
    for at, line in sorted(lines):
        print_line(f"{iso(at)} {line}")
    if not lines:
        print_line("nothing is recorded of that time")


HEIGHT = 8
"""Lines that a chart is high, without its title and its times."""
_BLOCKS = " ▁▂▃▄▅▆▇█"
_HUGE = 1e300
"""What is larger, or no number, cannot be drawn."""
_LABEL = 9
"""Signs for the numbers at the left."""


def chart(title: str, unit: str, points: Points, since: float, until: float, width: int) -> list[str]:
    """Return the lines of a chart, none wider than `width`.

    `points` are (seconds since the epoch, value), oldest first. Values that are no number are left out, and a
    time without any is blank.
    """
    columns = columns_of(points, since, until, max(width - _LABEL - 2, 8))
    known = [value for value in columns if value is not None]
    if not known:
        return [f"{title}: nothing was measured"]
    low, high = _axis(min(known), max(known), unit)
    lines = [f"{title}: {label_of(known[-1], unit)} at last"]
    for row in range(HEIGHT - 1, -1, -1):
        mark = label_of(high, unit) if row == HEIGHT - 1 else label_of(low, unit) if row == 0 else ""
        drawn = "".join(_sign(value, row, low, high) for value in columns)
        lines.append(f"{mark:>{_LABEL}} ┤{drawn}".rstrip())
    return [*lines, _times(since, until, len(columns))]


def columns_of(points: Points, since: float, until: float, count: int) -> list[float | None]:
    """Return the mean of each of `count` equal spans of time; None where a span has no value.

    Between two readings that lie further apart than a span, the earlier one stands, up to three times the
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
    """Short holes between two values take the earlier one; the end stays as it is."""
    filled, last = list(means), None
    for index, value in enumerate(means):
        if value is None:
            continue
        if last is not None and index - last <= reach:
            filled[last + 1 : index] = [means[last]] * (index - last - 1)
        last = index
    return filled


_HUGE_LABEL = 1e15
"""From here on no prefix is short."""


def label_of(value: float, unit: str) -> str:
    """Return a number with its unit, short."""
    if unit == "B":
        return format_size(value)
    if unit == "s":
        return format_duration(value) if value >= 10 else f"{value:.3g} s"
    for size, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size <= abs(value) < _HUGE_LABEL:
            return f"{value / size:.3g} {name}{unit}"
    shown = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"
    return f"{shown} {unit}".rstrip()


def _moves(points: Points, unit: str) -> bool:
    """Return True where the lowest and the highest value do not read the same."""
    values = [value for _, value in points if abs(value) < _HUGE]
    return bool(values) and label_of(min(values), unit) != label_of(max(values), unit)


def _axis(low: float, high: float, unit: str) -> tuple[float, float]:
    """Return round bounds of the axis; what would read the same at both ends lies in its middle."""
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
    """Return the line below the chart, with its first and its last time."""
    form = "%H:%M" if until - since <= 86400 else "%d %b %H:%M"
    begin, end = (datetime.fromtimestamp(at).astimezone().strftime(form) for at in (since, until))
    return " " * (_LABEL + 1) + "└" + begin + end.rjust(width - len(begin))
