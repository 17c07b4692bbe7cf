"""silence TARGET --for DURATION: no messages about it for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from watchdogd.cli.duration import seconds
from watchdogd.cli.output import print_json, print_line
from watchdogd.cli.targets import known_target
from watchdogd.errors import UsageError
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.units import format_duration, iso

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("target", metavar="TARGET", help="a run, a disk, a check (run-17/log_staleness)")
    parser.add_argument("--for", required=True, metavar="DURATION", help="30m, 2h, 1d")
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
    parser.add_argument("--json", action="store_true", help="print the silence as JSON")


def run(args: argparse.Namespace) -> int:
    """Hand the silence in; the daemon takes it in its next round."""
    length = seconds(args, "--for")
    if length <= 0:
        raise UsageError("silence: --for needs a duration above zero; 'watchdogd unsilence' ends a silence")
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    submit(str(home.inbox), "silence", target, target=target, seconds=length, reason=args.reason)
    until = iso(time.time() + length)
    if args.json:
        print_json({"target": target, "until": until, "reason": args.reason})
    else:
        print_line(f"{target} is silent for {format_duration(length)}, until {until}")
    return 0
