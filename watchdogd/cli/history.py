"""`watchdogd history [TARGET]`: state changes, incidents and metrics of the past."""

from __future__ import annotations

import csv
import sys
import time
from typing import TYPE_CHECKING, Any

from watchdogd.cli.duration import seconds
from watchdogd.cli.output import columns, one_line, print_json, print_line
from watchdogd.cli.past import store_of
from watchdogd.cli.targets import known_target
from watchdogd.errors import UsageError
from watchdogd.home.layout import Home
from watchdogd.units import finite, iso

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import TextIO

    from watchdogd.history.record import Measure, Reading
    from watchdogd.history.store import Store

COLUMNS = ("time", "run", "check", "subject", "status", "metric", "value", "unit", "summary")

_LABELS = {"notice": "INFO", "action": "ACTION", "warning": "WARNING"}
"""The words of notices, by kind of event."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
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
    """Whether something of that name is in the history, also of a run that is configured no more."""
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
    """A text that no spreadsheet takes for a formula (OWASP, CSV injection); numbers are none."""
    line = one_line(text)
    return f"'{line}" if line.lstrip().startswith(tuple("=+-@＝＋－＠")) else line


def _plot(store: Store, target: str, metric: str | None, since: float) -> None:
    """A chart for each metric that moved, or for the one that is named."""
    from watchdogd.cli.plot import chart

    series: dict[tuple[str, str, str, str], list[tuple[float, float]]] = {}
    for each in store.readings(target, since):
        if each.value is not None:
            series.setdefault((each.check, each.subject, each.metric, each.unit), []).append(
                (each.at, each.value)
            )
    shown = {
        key: points
        for key, points in series.items()
        if key[2] == metric or (metric is None and len({value for _, value in points}) > 1)
    }
    width, now = columns(), time.time()
    since = max(since, min((points[0][0] for points in shown.values()), default=since))
    for (check, subject, name, unit), points in sorted(shown.items()):
        title = f"{check}{f' [{subject}]' if subject else ''} {name}"
        for line in chart(title, unit, points, since, now, width):
            print_line(line)
    if not shown:
        names = ", ".join(dict.fromkeys(name for _, _, name, _ in sorted(series)))
        there_are = f"; there are {names}" if names else ""
        print_line(f"no {metric or 'metric that moved'} of {target} is recorded of that time{there_are}")


def _range(measure: Measure) -> str:
    subject = f" [{measure.subject}]" if measure.subject else ""
    numbers = f"{measure.low:.6g} to {measure.high:.6g}, mean {measure.mean:.6g} {measure.unit}".rstrip()
    return f"{'':8} {measure.check}{subject} {measure.metric}: {numbers} ({measure.readings} readings)"


def _print_story(store: Store, target: str | None, since: float) -> None:
    """State changes, incidents, notices, what people and watchdogd did, unwatched times, in their order."""
    lines = [
        (
            change.at,
            f"{change.status.name:8} {change.check}{f' [{change.subject}]' if change.subject else ''}: "
            f"{change.summary}",
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
    told = {each.summary for each in notices}
    touches = store.touches(since) if not target else []
    lines += [(touch.at, f"{'':8} {touch.line}") for touch in touches if touch.line not in told]
    lines += [
        (gap.begin, f"{'GAP':8} unwatched until {iso(gap.end)}: {gap.reason}") for gap in store.gaps(since)
    ]
    if target:
        lines += [(time.time(), _range(measure)) for measure in store.measures(target, since)]
    for at, line in sorted(lines):
        print_line(f"{iso(at)} {line}")
    if not lines:
        print_line("nothing is recorded of that time")
