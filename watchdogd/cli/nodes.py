"""`watchdogd nodes [RUN]`: nodes under suspicion, which the run's next jobs are to leave out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from watchdogd.cli.output import print_json, print_line, seconds, terminal
from watchdogd.config import switch_places
from watchdogd.errors import UsageError
from watchdogd.home import suspect_nodes
from watchdogd.home.layout import Home
from watchdogd.home.suspect_nodes import ListedNode
from watchdogd.units import format_duration


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", nargs="?", metavar="RUN", help="of this run; left out: of all")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--add", metavar="NODE", help="put it under suspicion: of RUN, or of all runs")
    what.add_argument("--remove", metavar="NODE", help="end the suspicion: the node works")
    what.add_argument("--exclude", action="store_true", help="print them for sbatch: n001,n017")
    what.add_argument("--json", action="store_true", help="print them as JSON")
    parser.add_argument("--reason", default="", metavar="TEXT", help="of --add, for the team")
    parser.add_argument("--for", metavar="DURATION", help="of --add; left out: until it is removed")


def run(args: argparse.Namespace) -> int:
    """List, add or remove suspect nodes; always return 0."""
    home, now = Home.existing(args.home), time.time()
    if args.name:
        switch_places.find(str(home.path), args.name, "kill")  # checks that there is such a run
    if args.add is not None:
        return _add(args, home)
    if args.remove is not None:
        return _remove(args.remove, args.name, home)
    held = [each for each in suspect_nodes.listed(home, args.name) if each.holds(now)]
    if args.exclude:
        nodes = suspect_nodes.excluded(home, args.name, now) if args.name else {each.node for each in held}
        print(",".join(sorted(nodes)))
    elif args.json:
        print_json([each.as_json() for each in held])
    elif held:
        _print(held, now)
    else:
        print_line("no node is under suspicion")
    return 0


def _add(args: argparse.Namespace, home: Home) -> int:
    lasts = seconds(args, "--for") if getattr(args, "for") else None
    if lasts is not None and lasts <= 0:
        raise UsageError("nodes: --for needs a duration above zero; --remove ends a suspicion")
    suspect_nodes.add(home, args.add, args.name or "", args.reason, lasts, by_hand=True)
    until = "until it is removed" if lasts is None else f"for {format_duration(lasts)}"
    print_line(f"{args.add} is under suspicion {until}: {args.name or 'every run'}'s next job leaves it out")
    return 0


def _remove(node: str, run: str | None, home: Home) -> int:
    ended = suspect_nodes.remove(home, node, run)
    held = [each for each in suspect_nodes.listed(home, run) if each.holds(time.time())]
    if any(each.node == node for each in held):
        print_line(f"{node} is under suspicion for every run: watchdogd nodes --remove {node}")
    else:
        print_line(f"{node} {'is no longer' if ended else 'was not'} under suspicion")
    return 0


def _print(held: Sequence[ListedNode], now: float) -> None:
    from rich.table import Table

    table = Table(
        "node", "run", "since", "left", "by", "reason", box=None, pad_edge=False, header_style="bold"
    )
    for each in held:
        left = "" if each.as_json()["until"] is None else format_duration(each.until - now)
        by = each.by if each.by_hand else "watchdogd"
        table.add_row(each.node, each.run or "all", format_duration(now - each.at), left, by, each.reason)
    terminal().print(table)
