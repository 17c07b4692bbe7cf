"""`watchdogd check [NAME...]`: run checks now and print them; records and sends nothing."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

from watchdogd.cli.output import clean, note, one_line, print_json, print_line, print_results
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.daemon.round import Engine
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.status_file import observation_json
from watchdogd.daemon.wiring import assembled
from watchdogd.home.layout import Home
from watchdogd.incidents.models import Observation
from watchdogd.plugin import Metric, Plugin, Status
from watchdogd.system.text import nearest

_LINES = 50
"""Results and lines of details after the first line, since Nagios and NRPE cut long output."""
_NAMED = 5
"""Subjects named in the first line."""
_DATA = 4000
"""Characters of perfdata, which fit with the text into the 8 KiB that Nagios reads."""


def worst(observations: Sequence[Observation]) -> Status:
    """Return the worst status; UNKNOWN if there is no result."""
    found = [seen.result.status for seen in observations]
    return max(found, key=lambda status: status.severity, default=Status.UNKNOWN)


def nagios(name: str, observations: Sequence[Observation]) -> str:
    """Return the worst status and the output of a Nagios plugin.

    That is a first line for all results with perfdata, then the other results, facts and details.
    """
    ordered = sorted(observations, key=lambda seen: -seen.result.status.severity)
    if not ordered:
        return f"{name} UNKNOWN - the check said nothing"
    first, *others = ordered
    head = f"{name} {worst(observations).name} - {_nagios_text(first.result.summary)}{_others(ordered)}"
    data = _bounded([_perfdata(label, metric) for seen in ordered for label, metric in _labelled(seen)])
    lines = [f"{seen.result.status.name} - {_nagios_text(seen.result.summary)}" for seen in others]
    advice = (line for each in first.result.advice for line in each.lines)
    below = (*first.result.facts, *advice, *clean(first.result.details).splitlines())
    lines += map(_nagios_text, below)
    left = len(lines) - _LINES
    more = [f"and {left} more: watchdogd check {_nagios_text(name)} --json"] if left > 0 else []
    return "\n".join([f"{head} | {data}" if data else head, *lines[:_LINES], *more])


def _others(ordered: Sequence[Observation]) -> str:
    """Return how many more results there are, and which are not OK; empty for a single one."""
    if len(ordered) == 1:
        return ""
    bad = [seen.result.subject or "itself" for seen in ordered if seen.result.status is not Status.OK]
    if not bad:
        return f" (all {len(ordered)} OK)"
    more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    return f" ({len(bad)} of {len(ordered)} not OK: {', '.join(map(_nagios_text, bad[:_NAMED]))}{more})"


def _bounded(items: Sequence[str]) -> str:
    """Join as many whole items as fit into `_DATA` characters."""
    ends = itertools.accumulate(len(item.encode()) + 1 for item in items)
    return " ".join(item for item, end in zip(items, ends, strict=True) if end <= _DATA)


def _labelled(seen: Observation) -> list[tuple[str, Metric]]:
    subject = seen.result.subject
    return [
        (f"{subject}.{label}" if subject else label, metric)
        for label, metric in seen.result.metrics.items()
        if math.isfinite(metric.value)
    ]


def _perfdata(label: str, metric: Metric) -> str:
    """Return `'label'=value[unit];[warn];[crit]`; thresholds from below become ranges (`10:`)."""
    name = _nagios_text(label).replace("'", "").replace("=", "_")
    quoted = f"'{name}'" if " " in name else name
    below = metric.warn is not None and metric.crit is not None and metric.crit < metric.warn
    bounds = [
        "" if bound is None else f"{bound:.15g}{':' if below else ''}" for bound in (metric.warn, metric.crit)
    ]
    return f"{quoted}={metric.value:.15g}{metric.unit};{bounds[0]};{bounds[1]}".rstrip(";")


def _nagios_text(text: str) -> str:
    """Return text as one line, without the bar that would begin perfdata."""
    return one_line(text).replace("|", "¦")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a check, or a run or disk for all of its checks"
    )
    parser.add_argument("--explain", action="store_true", help="also what the verdicts rest on")
    parser.add_argument("--json", action="store_true", help="a list of results")


def run(args: argparse.Namespace) -> int:
    """Return the worst status: 0, 1, 2 or 3."""
    home = Home.existing(args.home)
    setup = Setup.load(home)
    chosen = [check for check in setup.checks if _chosen(check, args.names)]
    missing = [name for name in args.names if not any(_chosen(check, [name]) for check in setup.checks)]
    if missing:
        note(_why_missing(home, setup, missing[0]))
        return Status.UNKNOWN
    with assembled(home, replace(setup, checks=tuple(chosen)), looking=True) as parts:
        observations = parts.engine.observe()
        why = {check.name: _explained(check, parts.engine) for check in chosen} if args.explain else {}
    if args.json:
        print_json([observation_json(seen) | _explanation(why.get(seen.check)) for seen in observations])
    elif len(chosen) == 1:
        print_line(nagios(chosen[0].name, observations))
    else:
        _print_table(observations)
    if not args.json:
        _print_explained(why)
    return int(worst(observations)) if observations else Status.OK


def show(home: Home, names: list[str]) -> None:
    """Print what the checks of these runs and disks find now, as a table."""
    setup = Setup.load(home)
    chosen = tuple(check for check in setup.checks if _chosen(check, names))
    with assembled(home, replace(setup, checks=chosen), looking=True) as parts:
        _print_table(parts.engine.observe())


def _explanation(lines: list[str] | None) -> dict[str, list[str]]:
    return {"explanation": lines} if lines else {}


def _print_explained(why: Mapping[str, list[str]]) -> None:
    for name, lines in why.items():
        print_line(f"{name} rests on:" if lines else f"{name}: it says all that its verdict rests on")
        for line in lines:
            print_line(f"  {one_line(line)}")


def _explained(check: Check, engine: Engine) -> list[str]:
    """Return what a check's verdict rests on, if its plugin can explain it."""
    if check.entry.foreign:  # the user's own code only runs in a process of its own
        return []
    plugin = getattr(import_module(check.entry.source.module), check.entry.source.attribute)
    known = isinstance(plugin, Plugin)
    return plugin.explained(engine.remembered(check.name), time.time()) if known else []


def _why_missing(home: Home, setup: Setup, name: str) -> str:
    """Return why there is no such check: the nearest name, or why a drop-in was skipped."""
    with contextlib.suppress(OSError):
        for dropin in dropins.look(home):
            if name in (dropin.name, dropin.path) and dropin.skipped:
                return f"{one_line(name)} is not run: {dropin.skipped}"
    return f"there is no check '{one_line(name)}'{nearest(name, [check.name for check in setup.checks])}"


def _chosen(check: Check, names: list[str]) -> bool:
    return not names or check.name in names or check.target in names


def _print_table(observations: tuple[Observation, ...]) -> None:
    print_results(sorted(observations, key=lambda seen: (seen.check, seen.result.subject)))
    if not observations:
        print_line("no checks are configured: add a [runs.NAME] or [disks.NAME] to config.toml")
