"""`watchdogd digest [--send]`: the morning message, printed here or sent to its channels."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import redirect_stdout

from watchdogd.cli import status
from watchdogd.cli.lookup import store_of
from watchdogd.cli.notify import NOT_DELIVERED, deliver
from watchdogd.cli.output import print_json, print_line, seconds
from watchdogd.config.loading import load
from watchdogd.errors import UsageError
from watchdogd.home.layout import Home

SINCE = "24h"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "--send", action="store_true", help="send it to [digest] channels; else it is printed"
    )
    parser.add_argument("--since", default=SINCE, metavar="TIME", help=f"how far back ({SINCE})")
    parser.add_argument("--json", action="store_true", help="the message, and its numbers by run")


def run(args: argparse.Namespace) -> int:
    """Print or send it; return 0, with --send 2 if a channel did not accept it."""
    from watchdogd.web.content import gather
    from watchdogd.web.digest_text import as_json, digest

    home = Home.existing(args.home)
    config, now = load(home), time.time()
    since = now - seconds(args, "--since")
    with store_of(home) as store:
        content = gather(home, store, status.read(home), config.daemon.name, since=since, now=now)
    message = digest(content)
    if args.json:
        print_json(as_json(content, message))
    elif not args.send:
        print_line(message.headline)
        print()
        for line in message.body.splitlines():
            print_line(line)
    if not args.send:
        return 0
    if not config.digest_channels:
        raise UsageError('digest: it has no channel: write [digest] channels = ["NAME"]')
    with redirect_stdout(sys.stderr if args.json else sys.stdout):  # the console channel's own words
        troubles = {name: deliver(name, message, config, home)[0] for name in config.digest_channels}
        for name, why in troubles.items():
            print_line(f"{name}: not delivered: {why}" if why else f"{name}: delivered")
    return NOT_DELIVERED if any(troubles.values()) else 0
