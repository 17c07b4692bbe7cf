"""`watchdogd notify --test [CHANNEL]`: send a test notification, and say whether it went."""

from __future__ import annotations

import argparse
import socket
import sys
import time
from contextlib import redirect_stdout, suppress

from watchdogd.cli.output import one_line, print_json, print_line
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.notify.delivery_plan import Delivered
from watchdogd.notify.locks import ChannelLock, Locks
from watchdogd.notify.message import test_message
from watchdogd.notify.notification import Message, addressed
from watchdogd.notify.senders import sender_of
from watchdogd.system.account import own_name
from watchdogd.system.text import nearest

NOT_DELIVERED = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--test", action="store_true", required=True, help="send a test notification")
    parser.add_argument("channel", nargs="?", metavar="CHANNEL", help="left out: all channels")
    parser.add_argument("--json", action="store_true", help="what became of each, as JSON")


def run(args: argparse.Namespace) -> int:
    """Return 0 if all were delivered, 2 if one was not."""
    home = Home.existing(args.home)
    config = load(home)
    if not config.channels:
        raise UsageError(f"notify: no channel is configured: add [channels.NAME] to {home.config}")
    if args.channel and args.channel not in config.channels:
        raise WatchdogError(
            f"there is no channel '{args.channel}'{nearest(args.channel, [*config.channels])}"
        )
    chosen = [args.channel] if args.channel else list(config.channels)
    with redirect_stdout(sys.stderr if args.json else sys.stdout):  # the console channel's own words
        now = time.time()
        message = test_message(config.daemon.name, socket.gethostname(), own_name(), now)
        tried = {name: deliver(name, message, config, home) for name in chosen}
    if args.json:
        print_json(
            [
                {"channel": name, "delivered": not why, "trouble": why, "hint": hint}
                for name, (why, hint) in tried.items()
            ]
        )
    else:
        for name, (why, hint) in tried.items():
            said = f"not delivered: {why}" if why else "delivered"
            print_line(f"{name}: {said}{'; but ' if hint else ''}{hint}")
    return NOT_DELIVERED if any(why for why, _ in tried.values()) else 0


def deliver(name: str, message: Message, config: Config, home: Home) -> tuple[str, str]:
    """Send a message by one channel; return why it was not delivered (or empty), and what to correct."""
    now = time.time()
    notification = addressed(message, name, now, f"test-{now}")
    try:
        sender = sender_of(config, name, home)
        sender.send(notification, ())
        sender.close()
    except WatchdogError as error:
        return one_line(str(error)) or "no reason given", ""
    with suppress(OSError, WatchdogError):  # the daemon finds out by itself, just later
        ChannelLock(Locks(home), name).acknowledge(Delivered(notification.key, name, now))
    return "", one_line(str(getattr(sender, "hint", "")))
