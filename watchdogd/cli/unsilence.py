"""unsilence TARGET: messages about it come again; what is still wrong is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.cli.output import print_json, print_line
from watchdogd.cli.targets import known_target, silenced
from watchdogd.home.inbox_submit import submit
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("target", metavar="TARGET", help="as it was silenced")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")


def run(args: argparse.Namespace) -> int:
    """Hand it in, and say where nothing is known to be silent; the daemon takes it in its next round."""
    home = Home.existing(args.home)
    target = known_target(home, args.target)
    silent = silenced(home)
    was_silent = silent is None or target in silent
    submit(str(home.inbox), "unsilence", target, target=target)
    if args.json:
        print_json({"target": target, "until": None, "was_silent": was_silent})
    elif was_silent:
        print_line(f"{target} is no longer silent; what is still wrong is told in the next round")
    else:
        others = f"; silent: {', '.join(sorted(silent or ()))}" if silent else ""
        print_line(f"{target} was not silent{others}")
    return 0
