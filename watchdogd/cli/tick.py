"""`watchdogd tick`: one round of what is due, for cron; new problems are checked again within it."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from watchdogd.chain import link_script
from watchdogd.chain.leadership import DaemonLeadership
from watchdogd.cli.output import one_line, print_json, print_line, print_results
from watchdogd.daemon import daemon_log, wiring
from watchdogd.daemon.daemon import tell_gaps
from watchdogd.daemon.due import Rechecks
from watchdogd.daemon.housekeeping import do_chores, morning_messages
from watchdogd.daemon.setup import Setup
from watchdogd.daemon.status_file import observation_json
from watchdogd.daemon.trouble import joined
from watchdogd.daemon.wiring import answers_of, assembled, missing, outbox_of, threadless
from watchdogd.errors import ConfigError, UsageError
from watchdogd.home import lease, markers
from watchdogd.home.layout import Home
from watchdogd.notify.dead_mans_switch import heartbeat_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from watchdogd.daemon.round import Engine, Round
    from watchdogd.daemon.wiring import Wiring
    from watchdogd.notify.message_outbox import Outbox
    from watchdogd.notify.notification import Notification

SLOW = 15.0
"""Seconds after which the results so far are reported and the lease is renewed while a check is slower."""
FAREWELL = 30.0
"""Seconds to send messages; the next tick sends the rest."""

ANSWERS = 10.0
"""Seconds to wait for answers to messages."""
ACTIONS = 150.0
"""Seconds for the actions of incidents; those still running after that are reported as unknown."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument(
        "--dry-run", action="store_true", help="judge and print, send, record and touch nothing"
    )
    parser.add_argument("--json", action="store_true", help="with --dry-run: results and notifications")


def run(args: argparse.Namespace) -> int:
    """Run one round; nothing, and return 0, if a daemon or another tick is at work.

    If the configuration is broken, run the round with the last good one, which reports that; then raise
    ConfigError.
    """
    if args.json and not args.dry_run:
        raise UsageError(
            "tick: --json goes with --dry-run; 'watchdogd status --json' shows what a tick found"
        )
    home = Home.existing(args.home)
    if args.dry_run:
        return _rehearse(home, Setup.load(home), as_json=args.json)
    setup, broken = wiring.setup_of(home, go_on=True)
    if wrong := _watch(home, setup, broken) or broken:
        raise ConfigError(wrong)
    return 0


def _watch(home: Home, setup: Setup, broken: str) -> str:
    """Return which secret is missing, or empty."""
    home.share(setup.config.daemon.group)
    leadership = DaemonLeadership(home, setup.config)
    idle = "" if leadership.chain else _needless(home)
    if idle:
        print_line(f"nothing done: {idle}")
        return report_stop(home, setup) if markers.stopped_by(home) and markers.last_ticks(home) else ""
    leadership.begin()
    daemon_log.begin(home)
    begin = time.time()
    step = link_script.tick_every(setup.config) if leadership.chain else _mark(home)
    try:
        with assembled(home, setup) as parts:
            parts.engine.troubles["config"] = broken
            parts.engine.troubles["channels"] = lacking = missing(parts)
            parts.engine.troubles["chain"] = joined(leadership.troubles())
            tell_gaps(parts, step, begin)
            interval = setup.config.daemon.interval
            _tick(parts, leadership, Rechecks.of_tick(interval, begin, step, leadership.left(begin)))
            leadership.settle(FAREWELL)
    finally:
        leadership.end()
    return lacking


def _needless(home: Home) -> str:
    """Return why a tick from cron has nothing to do, or empty."""
    stopped = markers.stop_words(home)
    if stopped:
        mark = markers.stop_path(home)
        start = home.command(markers.start_verb(home))
        return f"it was {stopped}; '{start}' starts it again, rm {mark} lets ticks go on"
    holder = lease.alive(home)
    return f"{holder} watches for {home.path} already" if holder else ""


def report_stop(home: Home, setup: Setup) -> str:
    """Report who stopped the watchdog in tick mode, as a daemon does when it ends.

    Return which secret is missing, or empty.
    """
    mine = lease.Lease(home)
    if mine.acquire() is not None:
        return ""  # whatever is still ending reports it
    try:
        with assembled(home, setup) as parts:
            outbox = outbox_of(parts, mine.held, go_on=True)
            outbox.add(parts.past.waiting)
            outbox.start()
            outbox.add(parts.engine.say_stopped())
            outbox.stop(FAREWELL)
            lacking = missing(parts)
        markers.remove_ticks(home)
    finally:
        mine.release()
    return lacking


def _mark(home: Home) -> float:
    """Leave the mark by which `status` knows that ticks come; return the seconds between ticks."""
    step = markers.tick_interval(markers.last_ticks(home))
    with contextlib.suppress(OSError):  # the round reports a home that cannot be written
        markers.mark_tick(home, time.time())
    return step


def _tick(parts: Wiring, leadership: DaemonLeadership, rechecks: Rechecks) -> None:
    engine = parts.engine
    outbox = outbox_of(parts, leadership.lease.held, go_on=True)
    outbox.add(parts.past.waiting)
    engine.troubles["engine"] = threadless(outbox)
    engine.reload()
    _take_answers(parts)
    if _rounds(engine, outbox, leadership, rechecks):
        outbox.add(engine.conclude(ACTIONS, leadership.lease.held, go_on=True))
    outbox.add(morning_messages(parts, time.time()))
    outbox.stop(FAREWELL)
    do_chores(parts, time.time())
    beat = heartbeat_of(engine.setup.config, go_on=True)
    if engine.trouble:
        beat.bad(engine.trouble)
    else:
        beat.good()
    beat.stop(FAREWELL)


def _take_answers(parts: Wiring) -> None:
    """Look for answers to messages, which are then in the inbox for this tick's round."""
    answers = answers_of(parts)
    if not parts.storage.unread:
        answers.begin(parts.engine.alerts, time.time())
        answers.wait(ANSWERS)
    answers.close()
    parts.engine.troubles["answers"] = answers.trouble


def _rounds(engine: Engine, outbox: Outbox, leadership: DaemonLeadership, rechecks: Rechecks) -> bool:
    """Run a round, and more for new problems until these are confirmed; return True if the tick may go on."""
    only: Collection[str] | None = None
    while _answered(engine, outbox, leadership, only):
        only = engine.unconfirmed()
        pause = rechecks.pause(time.time()) if only else 0.0
        if not pause:
            return True
        if not _lasts(pause, leadership):
            return False
    return False


def _answered(
    engine: Engine, outbox: Outbox, leadership: DaemonLeadership, only: Collection[str] | None
) -> bool:
    """Evaluate rounds until a slow check has answered; return True if the tick may go on.

    Meanwhile the lease is kept, and results of the other checks are reported.
    """
    while engine.round(patience=SLOW, may_act=leadership.lease.held, send=outbox.add, only=only) is not None:
        if not engine.waits:
            return True
        if not _may_go_on(leadership):
            return False
        only = None if only is None else ()
    return False


def _lasts(seconds: float, leadership: DaemonLeadership) -> bool:
    """Wait and keep the lease; return False at once if it is time to end."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not _may_go_on(leadership):
            return False
        time.sleep(min(left, 1.0))
    return True


def _may_go_on(leadership: DaemonLeadership) -> bool:
    try:
        return leadership.watch()
    except OSError:  # the round reports a home that cannot be read
        return True


def _rehearse(home: Home, setup: Setup, *, as_json: bool) -> int:
    """Print what a tick would see and send now, checking new problems again, as a tick does."""
    rechecks = Rechecks.of_tick(setup.config.daemon.interval, time.time(), markers.UNKNOWN_INTERVAL, math.inf)

    def again() -> bool:
        pause = rechecks.pause(time.time())
        time.sleep(pause)
        return pause > 0

    with assembled(home, setup.harmless(), looking=True) as parts:
        seen = parts.engine.rehearse(again)
    if as_json:
        print_json(
            {
                "results": [observation_json(each) for each in seen.observations],
                "notifications": [_json(each) for each in seen.notifications],
            }
        )
    else:
        _print(seen)
    return 0


def _json(notification: Notification) -> dict[str, object]:
    message = notification.message
    return {
        "channel": notification.channel,
        "headline": message.headline,
        "status": message.status,
        "target": message.target,
    }


def _print(seen: Round) -> None:
    print_results(seen.observations)
    for notification in seen.notifications:
        print_line(f"would send to {notification.channel}: {one_line(notification.message.headline)}")
    if not seen.notifications:
        print_line("would send nothing")
