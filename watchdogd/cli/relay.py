"""`watchdogd relay`: deliver the messages waiting in a shared home from this machine, which has a way out."""

from __future__ import annotations

import argparse
import logging
import signal
import time
from collections.abc import Mapping

from watchdogd.cli.lookup import config_of, existing_store
from watchdogd.cli.output import note, one_line, print_line, seconds
from watchdogd.config.models import Config
from watchdogd.errors import ConfigError, HistoryError, NoHistoryError, UsageError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.notify.channel import Sender
from watchdogd.notify.locks import Locks
from watchdogd.notify.message_outbox import Relay
from watchdogd.notify.notification import Notification
from watchdogd.notify.senders import policy, sender_of
from watchdogd.system.text import nearest

log = logging.getLogger(__name__)

NOT_DELIVERED = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("channels", nargs="*", metavar="CHANNEL", help="left out: all that need a way out")
    parser.add_argument("--follow", action="store_true", help="go on for ever; end with Ctrl-C")
    parser.add_argument("--every", default="5s", metavar="DURATION", help="how often to look for more (5s)")
    parser.add_argument(
        "--patience", default="1m", metavar="DURATION", help="without --follow: when to give up (1m)"
    )


def run(args: argparse.Namespace) -> int:
    """Return 0 if nothing is left, 2 if something could not be delivered from here either."""
    every, patience = _span(args, "--every"), _span(args, "--patience")
    logging.basicConfig(
        level=logging.WARNING if args.follow else logging.ERROR, format="watchdogd: %(message)s"
    )
    home = Home.existing(args.home)
    config = config_of(home, pressing=False)  # templates are code
    senders = _senders(args.channels, config, home)
    if not senders:
        print_line("no channel needs a way out: the daemon itself writes them all")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end as by Ctrl-C: finish what is being sent
    try:
        if not args.follow:
            return _once(senders, config, home, every, patience)
        while True:
            try:
                _relay(senders, config, home, every, None)
            except HistoryError as error:  # no daemon has made it yet, or its disk is not mounted
                log.warning("%s", error)
                time.sleep(every)
    except KeyboardInterrupt:
        return 0


def _once(senders: Mapping[str, Sender], config: Config, home: Home, every: float, patience: float) -> int:
    try:
        return _relay(senders, config, home, every, patience)
    except NoHistoryError:
        print_line("nothing is recorded yet, and nothing waits")
        return 0


def _relay(
    senders: Mapping[str, Sender], config: Config, home: Home, every: float, patience: float | None
) -> int:
    with existing_store(home) as store:
        locks = Locks(home, stores=False)
        relay = Relay(senders, policy(config), store, locks, _print_sent)
        relay.run(every=every, patience=patience)
    for trouble in relay.outbox.troubles:
        waiting = f"{trouble.waiting} waiting"
        note(f"channel {trouble.channel} does not deliver from here: {trouble.failure} ({waiting})")
    if owed := relay.outbox.owed:
        note(f"home cannot be written, so messages that were delivered may come again: {owed}")
    return NOT_DELIVERED if relay.outbox.waiting else 0


def _senders(names: list[str], config: Config, home: Home) -> dict[str, Sender]:
    """Return the senders of the named channels, or of all that can be used here. Raise ConfigError.

    Unnamed channels whose secret is missing are left out, unless none is left.
    """
    for name in names:
        if name not in config.channels:
            raise WatchdogError(f"there is no channel '{name}'{nearest(name, [*config.channels])}")
    chosen = names or [name for name, channel in config.channels.items() if not channel.local]
    senders, complaints = {}, []
    for name in chosen:
        try:
            senders[name] = sender_of(config, name, home)
        except ConfigError as error:
            complaints.append(str(error))
    if complaints and not senders:
        raise ConfigError(complaints[0])
    for complaint in complaints:
        note(f"left out: {complaint}")
    return senders


def _print_sent(notification: Notification) -> None:
    print_line(f"{notification.channel}: delivered: {one_line(notification.message.headline)}", at_once=True)


def _span(args: argparse.Namespace, option: str) -> float:
    found = seconds(args, option)
    if found <= 0:
        raise UsageError(f"relay: {option} needs a duration above zero")
    return found
