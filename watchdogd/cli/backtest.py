"""`watchdogd backtest`: the alerts that present thresholds would have caused in the past."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict

from watchdogd.cli.lookup import store_of
from watchdogd.cli.output import one_line, print_json, print_line, seconds
from watchdogd.daemon.backtesting import Alert
from watchdogd.daemon.setup import Setup
from watchdogd.errors import UsageError
from watchdogd.home.layout import Home
from watchdogd.plugins.log_staleness.replay import Stall
from watchdogd.units import format_duration, iso, local_time

AT_MOST = 1 << 30
"""Bytes read of a finished log."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--since", default="30d", metavar="TIME", help="how far back (30d)")
    parser.add_argument("--log", metavar="FILE", help="a finished log, read by the times in its lines")
    parser.add_argument(
        "--json", action="store_true", help="a list of at, status, target, headline, channels"
    )


def run(args: argparse.Namespace) -> int:
    """Print the alerts that would have come, and how many did; send and record nothing. Always return 0."""
    from watchdogd.daemon.backtesting import backtest
    from watchdogd.daemon.setup import Setup

    if args.log:
        return _replay(args)
    home = Home.existing(args.home)
    since = time.time() - seconds(args, "--since")
    setup = Setup.load(home)
    with store_of(home) as store:
        readings = store.readings(None, since)
        notifications = store.notifications(since=since)
    sent = {each.key.rpartition("@")[0] for each in notifications}
    alerts = list(backtest(setup, readings, time.time(), notifications))
    if args.json:
        print_json([_json(alert) for alert in alerts])
        return 0
    for alert in alerts:
        to = ", ".join(alert.channels) or "nobody"
        print_line(f"{local_time(alert.at)} {one_line(alert.headline)} (to {to})")
    print_line(_sum(alerts, len(sent), args.since))
    print_line(_how(setup, {reading.check for reading in readings}))
    return 0


def _replay(args: argparse.Namespace) -> int:
    """Print the stalls that would have been reported for a finished log; needs no home. Raise UsageError."""
    from watchdogd.parsers.logs import structured_files
    from watchdogd.plugins.log_staleness.explain import explain
    from watchdogd.plugins.log_staleness.replay import replay
    from watchdogd.plugins.log_staleness.run_log import RunLog

    try:
        with open(args.log, "rb") as file:
            data, ended = file.read(AT_MOST), os.fstat(file.fileno()).st_mtime
        lines = [line.text for line in structured_files.read(args.log, data + b"\n", timed=True)[0]]
        state, stalls = replay(lines, ended=ended)
    except OSError as error:
        raise UsageError(f"backtest: {args.log} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(
            f"backtest: {args.log}: {error}: nobody can say when it would have called; "
            "`python train.py | ts '%F %T'` writes times; `watchdogd check RUN/log_staleness --explain` "
            "needs none"
        ) from None
    if args.json:
        print_json([_stall_json(stall) for stall in stalls])
        return 0
    for stall in stalls:
        print_line(f"{local_time(stall.at)} CRITICAL {one_line(_stalled(stall))}")
    print_line(f"{len(stalls)} stalls would have been reported; what they rest on:")
    for line in explain(RunLog(state), state.wrote):
        print_line(f"  {one_line(line)}")
    print_line("Whether it hung after its last line, the log alone does not say.")
    return 0


def _stall_json(stall: Stall) -> dict[str, object]:
    until = iso(stall.until) if stall.until else None
    return asdict(stall) | {"at": iso(stall.at), "until": until}


def _stalled(stall: Stall) -> str:
    what = "no output" if stall.silent else "lines, but no progress"
    after = f" after '{stall.after}'" if stall.after else ""
    went_on = f"; it went on at {local_time(stall.until)}" if stall.until else ""
    stood, limit = format_duration(round(stall.stood)), format_duration(round(stall.limit))
    return f"{what} for {stood}{after} (limit {limit}: {stall.why}){went_on}"


def _json(alert: Alert) -> dict[str, object]:
    return {
        "at": iso(alert.at),
        "status": alert.status,
        "target": alert.target,
        "headline": alert.headline,
        "channels": list(alert.channels),
    }


def _sum(alerts: Iterable[Alert], sent: int, since: str) -> str:
    """Return `3 alerts would have come in 30d (2 CRITICAL, 1 RESOLVED); 12 messages did.`."""
    counts = Counter(alert.status for alert in alerts)
    parts = ", ".join(f"{number} {status}" for status, number in counts.items())
    shown = f" ({parts})" if parts else ""
    return f"{counts.total()} alerts would have come in {since}{shown}; {sent} messages did."


def _how(setup: Setup, recorded: set[str]) -> str:
    """Return a line that says which checks were judged again."""
    from watchdogd.daemon.backtesting import judge_of

    anew = sorted(check.name for check in setup.checks if check.name in recorded and judge_of(check))
    return (
        "Those that did are all messages of that time, with actions and notices, which are not replayed. "
        f"Judged anew: {', '.join(anew) or 'nothing'}. All others by the status that was recorded. "
        "Older than two days: means of five minutes, then of hours."
    )
