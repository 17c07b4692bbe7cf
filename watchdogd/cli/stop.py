"""stop: the end of the watchdog, successor first; a stop mark ends what Slurm can no longer reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.chain import shutdown
from watchdogd.cli.output import print_json, print_line, warn
from watchdogd.config.secret import withhold
from watchdogd.home.layout import Home

if TYPE_CHECKING:
    import argparse


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--reason", default="", metavar="TEXT", help="for the team")
    parser.add_argument("--json", action="store_true", help="print what came of it as JSON")


def run(args: argparse.Namespace) -> int:
    """End it, and wait until it is gone. 0; 1 where something of it is left."""
    home = Home.existing(args.home)
    withhold(home)
    outcome = shutdown.stop(home, args.reason)
    warn(outcome.warnings)
    if args.json:
        print_json({"stopped": outcome.changed, "message": "; ".join(outcome.lines)})
        return 0
    for line in outcome.lines:
        print_line(line)
    return 0
