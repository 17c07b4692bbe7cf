"""`watchdogd outbox`: the notifications that are not delivered yet, and why."""

from __future__ import annotations

import argparse
import time
from typing import Any

from watchdogd.cli.lookup import store_of
from watchdogd.cli.output import one_line, print_json, print_line
from watchdogd.home.layout import Home
from watchdogd.notify.locks import Locks
from watchdogd.notify.notification import Notification
from watchdogd.units import format_duration, iso

SPAN = 7 * 86400.0
"""How far back `--all` looks."""
_UNDELIVERED = ("waiting", "diverted", "superseded", "failed", "expired")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "--all",
        action="store_true",
        help="also what was diverted, superseded, refused or given up in the last week",
    )
    parser.add_argument("--json", action="store_true", help="a list of notifications")


def run(args: argparse.Namespace) -> int:
    """Print them, the oldest first; always return 0."""
    home, now = Home.existing(args.home), time.time()
    with store_of(home) as store:
        found = store.notifications(since=now - SPAN) if args.all else store.waiting()
    delivered = {each.key for each in Locks(home).delivered() if not each.partly}
    left = [each for each in found if each.state in _UNDELIVERED and each.key not in delivered]
    if args.json:
        print_json([_json(each) for each in left])
        return 0
    for each in left:
        print_line(_line(each, now))
    if not left:
        print_line("everything is delivered")
    return 0


def _line(each: Notification, now: float) -> str:
    age = format_duration(max(0.0, now - each.created_at))
    tries = "1 try" if each.attempts == 1 else f"{each.attempts} tries"
    why = f" ({tries}; {one_line(each.failure)})" if each.failure else ""
    return f"{each.channel:10} {each.state:10} {age:>7} {one_line(each.message.headline)}{why}"


def _json(each: Notification) -> dict[str, Any]:
    message = each.message
    return {
        "key": each.key,
        "channel": each.channel,
        "state": each.state,
        "headline": message.headline,
        "status": message.status,
        "target": message.target,
        "incidents": list(message.incidents),
        "created_at": iso(each.created_at),
        "attempts": each.attempts,
        "next_try": iso(each.next_try) if each.state == "waiting" and each.next_try else None,
        "failure": each.failure,
    }
