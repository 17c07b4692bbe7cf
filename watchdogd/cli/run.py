"""`watchdogd run`: the daemon in the foreground, also as a link of the chain."""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import time

from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.cli.output import print_line
from watchdogd.daemon import daemon_log, wiring
from watchdogd.daemon.daemon import Daemon, ServiceManager
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.wiring import assembled
from watchdogd.errors import StalledError
from watchdogd.home import markers
from watchdogd.home.layout import Home
from watchdogd.notify.dead_mans_switch import heartbeat_of

ENDING = 60
"""Seconds to release the lease, the workers and the chain if rounds do not finish any more."""

log = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--dry-run", action="store_true", help="judge and print, send and touch nothing")


def run(args: argparse.Namespace) -> int:
    """Watch until told to end (Ctrl-C, SIGTERM, 'watchdogd stop'), or until a successor takes over."""
    home = Home.existing(args.home)
    setup, broken = wiring.setup_of(home, go_on=DaemonLeadership.in_chain())
    if args.dry_run:
        return _rehearse(home, setup)
    home.share(setup.config.daemon.group)
    leadership = DaemonLeadership(home, setup.config)
    service = ServiceManager()
    signal.signal(signal.SIGTERM, _leave)  # until the schedule has its own
    try:
        leadership.begin()
        with contextlib.suppress(OSError):
            markers.remove_ticks(home)
        daemon_log.begin(home)
        count = len(setup.checks)
        print_line(
            f"watching {home.path}: {count} check{'' if count == 1 else 's'}; end with Ctrl-C", at_once=True
        )
        with assembled(home, setup) as parts:
            parts.engine.troubles["config"] = broken
            heartbeat = heartbeat_of(setup.config, go_on=DaemonLeadership.in_chain())
            Daemon(parts, leadership, heartbeat, service).run()
    except SystemExit:
        service.ending()
        raise
    except (StalledError, MemoryError, SystemError) as error:  # SystemError: C code that ran out of memory
        _end_in_any_case()
        log.warning("it ends: %s", str(error) or type(error).__name__)
        raise
    finally:
        leadership.end()
    return 0


def _end_in_any_case() -> None:
    """Have the kernel end this process in time, even if something hangs or memory has run out."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(ENDING)


def _leave(_number: int, _frame: object) -> None:
    """End as on purpose: without it, systemd would count the start as failed and start it again."""
    raise SystemExit(0)


def _rehearse(home: Home, setup: Setup) -> int:
    """Evaluate rounds like the daemon, but only print their messages, until Ctrl-C."""
    with assembled(home, setup.harmless(), looking=True) as parts:
        while True:
            seen = parts.engine.round()
            for notification in seen.notifications if seen else ():
                print_line(f"would send to {notification.channel}: {notification.message.headline}")
            time.sleep(max(0.05, parts.engine.pause()))
