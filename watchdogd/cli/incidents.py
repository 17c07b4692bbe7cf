"""`watchdogd incidents`: what is open, or what was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from watchdogd.cli.duration import seconds
from watchdogd.cli.output import one_line, print_json, print_line
from watchdogd.cli.past import store_of
from watchdogd.cli.targets import known_target
from watchdogd.engine.status import incident_json
from watchdogd.home.layout import Home
from watchdogd.units import format_duration

if TYPE_CHECKING:
    import argparse

    from watchdogd.incidents.models import Incident


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a run, a disk or a check")
    parser.add_argument("--all", action="store_true", help="resolved ones too")
    parser.add_argument("--since", default="30d", metavar="TIME", help="with --all: how far back (30d)")
    parser.add_argument("--json", action="store_true", help="a list of incidents")


def run(args: argparse.Namespace) -> int:
    """Print them, the newest last; 1 where nobody ever bore the target's name."""
    now = time.time()
    since = now - seconds(args, "--since") if args.all else None
    home = Home.existing(args.home)
    with store_of(home) as store:
        found = store.incidents(open_only=not args.all, since=since, target=args.target)
        if args.target and not found and not store.incidents(target=args.target):
            known_target(home, args.target)
    if args.json:
        print_json([incident_json(incident) for incident in found])
        return 0
    for incident in sorted(found, key=lambda incident: incident.opened_at):
        print_line(_line(incident, now))
    if not found:
        print_line("no incidents" if args.all else "no open incidents")
    return 0


def _line(incident: Incident, now: float) -> str:
    subject = f" [{incident.subject}]" if incident.subject else ""
    return (
        f"{incident.id:>5} {incident.status.name:8} {_state(incident, now)}: "
        f"{incident.check}{subject}: {one_line(incident.summary)}"
    )


def _state(incident: Incident, now: float) -> str:
    """`open for 2h`, `open for 2h, acknowledged by bob 5m ago`, `resolved after 2h`."""
    over = incident.resolved_at
    lasted = format_duration(max(0.0, (now if over is None else over) - incident.opened_at))
    if over is not None:
        return f"resolved after {lasted}"
    if not incident.acknowledged_by:
        return f"open for {lasted}"
    at = incident.acknowledged_at
    ago = "" if at is None else f" {format_duration(max(0.0, now - at))} ago"
    return f"open for {lasted}, acknowledged by {incident.acknowledged_by}{ago}"
