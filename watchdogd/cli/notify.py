"""`watchdogd notify --test [CHANNEL]`: send a test notification, and say whether it went."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from watchdogd import config as configuration
from watchdogd.cli.output import one_line, print_line
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home import Home
from watchdogd.nearest import nearest
from watchdogd.notify import channels
from watchdogd.notify.message import test_message
from watchdogd.notify.notification import addressed

if TYPE_CHECKING:
    import argparse

    from watchdogd.config import Config

NOT_DELIVERED = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--test", action="store_true", required=True, help="send a test notification")
    parser.add_argument("channel", nargs="?", metavar="CHANNEL", help="left out: all channels")


def run(args: argparse.Namespace) -> int:
    """0 where all were delivered, 2 where one was not."""
    home = Home.existing(args.home)
    config = configuration.load(home)
    if not config.channels:
        raise UsageError(f"notify: no channel is configured: add [channels.NAME] to {home.config}")
    if args.channel and args.channel not in config.channels:
        raise WatchdogError(
            f"there is no channel '{args.channel}'{nearest(args.channel, [*config.channels])}"
        )
    chosen = [args.channel] if args.channel else list(config.channels)
    delivered = [_send(name, config, home) for name in chosen]
    return 0 if all(delivered) else NOT_DELIVERED


def _send(name: str, config: Config, home: Home) -> bool:
    one = config.model_copy(update={"channels": {name: config.channels[name]}})
    now = time.time()
    message = test_message(config.daemon.name, socket.gethostname(), now)
    try:
        sender = channels.build(one, home)[name]
        sender.send(addressed(message, name, now, f"test-{now}"), ())
        sender.close()
    except WatchdogError as error:
        print_line(f"{name}: not delivered: {one_line(str(error))}")
        return False
    print_line(f"{name}: delivered")
    return True
