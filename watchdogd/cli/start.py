"""start, restart, ensure: the watchdog on Slurm, or as a background process; stop: its end."""

from __future__ import annotations

import argparse
import dataclasses

from watchdogd.chain import launch, link_script, live_links, shutdown
from watchdogd.chain.link_script import LinkOptions
from watchdogd.chain.live_links import ChainResult
from watchdogd.cli.output import print_json, print_line, warn
from watchdogd.config.secret import withhold
from watchdogd.errors import HomeError, UnitError, UsageError, WatchdogError
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.system.times import parse_walltime


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; those left out stay as configured, or as at the last start."""
    if parser.get_default("verb") == "stop":
        parser.add_argument("--reason", default="", metavar="TEXT", help="for the team")
        parser.add_argument("--json", action="store_true", help="print what came of it as JSON")
        return
    parser.add_argument("--partition", metavar="P", help="a CPU partition is enough")
    parser.add_argument("--account", metavar="A", help="the account that its small jobs are billed to")
    parser.add_argument("--time", metavar="T", help="walltime of one link: 12h, 30m, 1-00:00:00")
    parser.add_argument(
        "--mode", choices=("daemon", "tick"), help="tick: short links, where minutes are billed"
    )
    parser.add_argument("--local", action="store_true", help="a background process of this machine, no Slurm")
    parser.add_argument("--json", action="store_true", help="print what came of it as JSON")


def run(args: argparse.Namespace) -> int:
    """Start, restart, start if not alive, or stop. Return 0, 1 if refused, 78 for a broken configuration."""
    home = Home.existing(args.home)
    if args.verb == "stop":
        return _stop(home, args.reason, as_json=args.json)
    from watchdogd.daemon.setup import Setup  # imported late: `stop` must be fast

    config = Setup.load(home).config
    wish = _wish(args, home)
    if args.verb == "restart":
        launch.check(home, config, wish)  # do not stop what cannot be started again
        _say(shutdown.stop(home, "restart", jobs_go_on=True), quiet=args.json)
    act = launch.ensure if args.verb == "ensure" else launch.start
    outcome = act(home, config, wish)
    _say(outcome, quiet=args.json)
    if args.json:
        found = live_links.as_json(outcome.link) if outcome.link else None
        print_json({"started": outcome.changed, "message": "; ".join(outcome.lines), "link": found})
    return 0


def _wish(args: argparse.Namespace, home: Home) -> LinkOptions:
    """Return the options of the command line; `restart` and `ensure` keep those of the last start."""
    if args.time:
        try:
            parse_walltime(args.time)
        except UnitError as error:
            raise UsageError(f"{args.verb}: --time {error}") from None
    if args.local and (args.mode or args.partition or args.account or args.time):
        raise UsageError(f"{args.verb}: --local takes no option of Slurm")
    before = link_script.LinkOptions() if args.verb == "start" else link_script.remembered(home)[0]
    if args.local or (args.mode and args.mode != before.mode):
        before = dataclasses.replace(before, time="")  # a daemon's walltime does not suit a tick
    said = {"partition": args.partition, "account": args.account, "time": args.time}
    said["mode"] = "local" if args.local else args.mode
    return dataclasses.replace(before, **{key: value for key, value in said.items() if value})


def _say(outcome: ChainResult, *, quiet: bool) -> None:
    warn(outcome.warnings)
    if not quiet:
        for line in outcome.lines:
            print_line(line)


def _stop(home: Home, reason: str, *, as_json: bool) -> int:
    """Stop it and wait until it is gone. Raise WatchdogError if anything of it is left."""
    withhold(home)
    watched = _ticks_in_slurm(home)
    outcome = shutdown.stop(home, reason)
    if watched:
        _report(home)
    _say(outcome, quiet=as_json)
    if as_json:
        print_json({"stopped": outcome.changed, "message": "; ".join(outcome.lines)})
    return 0


def _ticks_in_slurm(home: Home) -> bool:
    """Return True if short links watch: between two of them nobody could report a stop."""
    try:
        return link_script.remembered(home)[0].mode == "tick" and not markers.is_stopped(home)
    except (HomeError, OSError):
        return False


def _report(home: Home) -> None:
    from watchdogd.cli.tick import report_stop  # imported late: only this needs the history's library
    from watchdogd.daemon.wiring import setup_of

    try:
        lacking = report_stop(home, setup_of(home, go_on=True)[0])
    except (WatchdogError, OSError) as error:
        lacking = str(error)
    if lacking:
        warn([f"the stop is not reported: {lacking}"])
