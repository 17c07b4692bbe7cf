"""`watchdogd silence TARGET --for DURATION`: no messages about it; `unsilence TARGET` ends that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from watchdogd.cli.lookup import known_target, silenced_targets
from watchdogd.cli.output import print_json, print_line, seconds
from watchdogd.errors import UsageError
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home
from watchdogd.units import format_duration, iso, local_time

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `silence` and `unsilence`."""
    if parser.get_default("verb") == "unsilence":
        parser.add_argument("target", metavar="TARGET", help="as it was silenced")
        parser.add_argument("--json", action="store_true", help="print what was done as JSON")
        return
    parser.add_argument("target", metavar="TARGET", help="a run, a disk, a check (run-17/log_staleness)")
    parser.add_argument("--for", required=True, metavar="DURATION", help="30m, 2h, 1d")
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the team and the log")
    parser.add_argument("--json", action="store_true", help="print the silence as JSON")


def run(args: argparse.Namespace) -> int:
    """Pass the request to the daemon, which reads it in its next round."""
    return _unsilence(args) if args.verb == "unsilence" else _silence(args)


def _silence(args: argparse.Namespace) -> int:
    length = seconds(args, "--for")
    if length <= 0:
        raise UsageError("silence: --for needs a duration above zero; 'watchdogd unsilence' ends a silence")
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    submit(str(home.inbox), "silence", target, target=target, seconds=length, reason=args.reason)
    at = time.time() + length
    if args.json:
        print_json({"target": target, "until": iso(at), "reason": args.reason})
    else:
        print_line(f"{target} is silenced for {format_duration(length)}, until {local_time(at)}")
    return 0


def _unsilence(args: argparse.Namespace) -> int:
    """Request the end of a silence; say so if nothing is known to be silenced."""
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    silent = silenced_targets(home)
    was_silent = silent is None or target in silent
    submit(str(home.inbox), "unsilence", target, target=target)
    if args.json:
        print_json({"target": target, "until": None, "was_silent": was_silent})
    elif was_silent:
        print_line(f"{target} is no longer silenced; what is still wrong is reported in the next round")
    else:
        others = f"; silenced: {', '.join(sorted(silent or ()))}" if silent else ""
        print_line(f"{target} was not silenced{others}")
    return 0
