"""`watchdogd check [NAME...]`: run checks now and print them; records and sends nothing."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from watchdogd.cli.output import one_line, print_json, print_line
from watchdogd.cli.perfdata import nagios, worst
from watchdogd.engine import dropins
from watchdogd.engine.assembly import assembled
from watchdogd.engine.setup import Setup
from watchdogd.engine.status import observation_json
from watchdogd.home.layout import Home
from watchdogd.plugin import Plugin, Status
from watchdogd.system.text import nearest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from watchdogd.engine.checks import Check
    from watchdogd.engine.engine import Engine
    from watchdogd.incidents.models import Observation


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a check, or a run or disk for all of its checks"
    )
    parser.add_argument("--explain", action="store_true", help="also what the verdicts rest on")
    parser.add_argument("--json", action="store_true", help="a list of results")


def run(args: argparse.Namespace) -> int:
    """Exit with the worst status: 0, 1, 2, 3."""
    home = Home.existing(args.home)
    setup = Setup.load(home)
    chosen = [check for check in setup.checks if _chosen(check, args.names)]
    missing = [name for name in args.names if not any(_chosen(check, [name]) for check in setup.checks)]
    if missing:
        print(f"watchdogd: {_why_missing(home, setup, missing[0])}", file=sys.stderr)
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


def _explanation(lines: list[str] | None) -> dict[str, list[str]]:
    return {"explanation": lines} if lines else {}


def _print_explained(why: Mapping[str, list[str]]) -> None:
    for name, lines in why.items():
        print_line(f"{name} rests on:" if lines else f"{name}: it says all that its verdict rests on")
        for line in lines:
            print_line(f"  {one_line(line)}")


def _explained(check: Check, engine: Engine) -> list[str]:
    """What the verdict of a check rests on, where its plugin can say so."""
    if check.entry.foreign:  # code of the user's own is run in a process of its own alone
        return []
    plugin = getattr(import_module(check.entry.source.module), check.entry.source.attribute)
    known = isinstance(plugin, Plugin)
    return plugin.explained(engine.remembered(check.name), time.time()) if known else []


def _why_missing(home: Home, setup: Setup, name: str) -> str:
    """That there is no such check, with the nearest name, or why what was dropped in is none."""
    with contextlib.suppress(OSError):
        for dropin in dropins.look(home):
            if name in (dropin.name, dropin.path) and dropin.skipped:
                return f"{one_line(name)} is not run: {dropin.skipped}"
    return f"there is no check '{one_line(name)}'{nearest(name, [check.name for check in setup.checks])}"


def _chosen(check: Check, names: list[str]) -> bool:
    return not names or check.name in names or check.target in names


def _print_table(observations: tuple[Observation, ...]) -> None:
    for seen in sorted(observations, key=lambda seen: (seen.check, seen.result.subject)):
        subject = f" [{seen.result.subject}]" if seen.result.subject else ""
        print_line(f"{seen.result.status.name:8} {seen.check}{subject}: {one_line(seen.result.summary)}")
    if not observations:
        print_line("no checks are configured: add a [runs.NAME] or [disks.NAME] to config.toml")
