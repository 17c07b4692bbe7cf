"""`watchdogd backtest`: thresholds are tuned on facts."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from watchdogd.cli.duration import seconds
from watchdogd.cli.output import one_line, print_json, print_line
from watchdogd.cli.past import store_of
from watchdogd.home import Home
from watchdogd.units import iso

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from watchdogd.engine.backtest import Alert
    from watchdogd.engine.setup import Setup


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--since", default="30d", metavar="TIME", help="how far back (30d)")
    parser.add_argument(
        "--json", action="store_true", help="a list of at, status, target, headline, channels"
    )


def run(args: argparse.Namespace) -> int:
    """Print the alerts, and how many did come; sends and records nothing; always 0."""
    from watchdogd.engine.backtest import backtest
    from watchdogd.engine.setup import Setup

    home = Home.existing(args.home)
    since = time.time() - seconds(args, "--since")
    setup = Setup.load(home)
    with store_of(home) as store:
        readings = store.readings(None, since)
        sent = {each.key.rpartition("@")[0] for each in store.notifications(since=since)}
    alerts = list(backtest(setup, readings))
    if args.json:
        print_json([_json(alert) for alert in alerts])
        return 0
    for alert in alerts:
        to = ", ".join(alert.channels) or "nobody"
        print_line(f"{iso(alert.at)} {one_line(alert.headline)} (to {to})")
    print_line(_sum(alerts, len(sent), args.since))
    print_line(_how(setup, {reading.check for reading in readings}))
    return 0


def _json(alert: Alert) -> dict[str, object]:
    return {
        "at": iso(alert.at),
        "status": alert.status,
        "target": alert.target,
        "headline": alert.headline,
        "channels": list(alert.channels),
    }


def _sum(alerts: Iterable[Alert], sent: int, since: str) -> str:
    """`3 alerts would have come in 30d (2 CRITICAL, 1 RESOLVED); 12 did.`"""
    counts = Counter(alert.status for alert in alerts)
    parts = ", ".join(f"{number} {status}" for status, number in counts.items())
    return f"{counts.total()} alerts would have come in {since}{f' ({parts})' if parts else ''}; {sent} did."


def _how(setup: Setup, recorded: set[str]) -> str:
    """What was judged anew, and what was not."""
    from watchdogd.engine.backtest import judge_of

    anew = sorted(check.name for check in setup.checks if check.name in recorded and judge_of(check))
    return (
        f"Judged anew: {', '.join(anew) or 'nothing'}. All others by the status that was recorded. "
        "Older than two days: means of five minutes, then of hours."
    )
