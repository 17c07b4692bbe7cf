"""`watchdogd run`: the daemon in the foreground."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from watchdogd import lease as leases
from watchdogd.cli.output import print_line
from watchdogd.engine import logs
from watchdogd.engine.assembly import assembled
from watchdogd.engine.daemon import Daemon
from watchdogd.engine.setup import Setup
from watchdogd.errors import HomeError
from watchdogd.home import Home
from watchdogd.notify.heartbeat import heartbeat_of

if TYPE_CHECKING:
    import argparse

PATIENCE = leases.STALE + leases.WATCH
"""Seconds that a new daemon waits for the lease of one that seems to be dead."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the verb takes."""
    parser.add_argument("--dry-run", action="store_true", help="judge and print, send and touch nothing")


def run(args: argparse.Namespace) -> int:
    """Until it is told to end (Ctrl-C, SIGTERM, 'watchdogd stop')."""
    home = Home.existing(args.home)
    setup = Setup.load(home)
    if args.dry_run:
        return _rehearse(home, setup)
    home.share(setup.config.daemon.group)
    lease = leases.Lease(home, os.environ.get("SLURM_JOB_ID", ""))
    _acquire(home, lease)
    logs.begin(home)
    print_line(f"watching {home.path}: {len(setup.checks)} checks; end with Ctrl-C")
    try:
        with assembled(home, setup) as parts:
            Daemon(parts, lease, heartbeat_of(setup.config)).run()
    finally:
        lease.release()
    return 0


def _rehearse(home: Home, setup: Setup) -> int:
    """Rounds like the daemon's, whose messages are printed, until Ctrl-C."""
    with assembled(home, setup, looking=True) as parts:
        while True:
            seen = parts.engine.round()
            for notification in seen.notifications if seen else ():
                print_line(f"would send to {notification.channel}: {notification.message.headline}")
            time.sleep(max(0.05, parts.engine.next_wake() - time.time()))


def _acquire(home: Home, lease: leases.Lease) -> None:
    """Take the lease; HomeError says who has it."""
    holder = leases.alive(home) or lease.wait(PATIENCE)
    if holder is not None:
        raise HomeError(f"{holder} watches for {home.path} already: see 'watchdogd status'")
