"""The morning message (digest), sent once a day at its time, and once after a downtime."""

from __future__ import annotations

import logging
import sys
import time
from datetime import tzinfo
from functools import partial

from watchdogd.config.models import DigestSection
from watchdogd.daemon.wiring import Wiring
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Message, Notification, addressed
from watchdogd.system import command
from watchdogd.system.smallfile import parse_json
from watchdogd.system.times import LOCAL_ZONE, CronTimes, zone_named

DEADLINE = 300.0
"""Seconds within which the digest must be made."""
AHEAD = 60.0
"""Seconds by which a file server's clock may be ahead of this machine's."""
MARK = ".digest"
"""File of home whose modification time is when the last digest was sent."""

log = logging.getLogger(__name__)


def is_due(section: DigestSection, zone: tzinfo, last: float, now: float) -> bool:
    """Return whether the time of day has come since the `last` digest."""
    hour, _, minute = section.at.partition(":")
    return CronTimes(f"{int(minute)} {int(hour)} * * *", zone).following(last) <= now


def morning_messages(parts: Wiring, now: float) -> list[Notification]:
    """Return the stored message for each channel if it is due. Errors of home or history are logged only."""
    config = parts.engine.setup.config
    if config.digest is None or parts.storage.unread:
        return []
    zone = zone_named(config.daemon.timezone) if config.daemon.timezone else LOCAL_ZONE
    try:
        last = parts.patient.attempt(partial(_last, parts.home, now))
        if not is_due(config.digest, zone, last, now):
            return []
        rows = _made(parts, now)
        parts.storage.settle(rows)
        parts.patient.attempt(partial(parts.home.write, parts.home.path / MARK, ""))
    except (WatchdogError, OSError, ValueError, KeyError, TypeError) as error:
        log.warning("the morning message has to wait: %s", error)
        return []
    return rows


def _last(home: Home, now: float) -> float:
    """Return when the last digest was sent; now if there was none, or the clock was set back since."""
    try:
        if (last := (home.path / MARK).stat().st_mtime) <= now + AHEAD:
            return last
    except FileNotFoundError:
        pass
    home.write(home.path / MARK, "")
    return now


def _made(parts: Wiring, now: float) -> list[Notification]:
    """Make the digest in a process of its own. ValueError where that fails."""
    config, home = parts.engine.setup.config, parts.home
    argv = (sys.executable, "-P", "-m", "watchdogd", "digest", "--json", "--home", str(home.path))
    answer = command.ask(argv, deadline=DEADLINE)
    if not answer.ok:
        raise ValueError(answer.complaint("watchdogd"))
    said = parse_json(answer.output)
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    message = Message(
        headline=str(said["headline"]),
        body=str(said["body"]),
        status="INFO",
        target=config.daemon.name,
        thread=f"morning-{day}",
        at=now,
    )
    return [addressed(message, name, now, message.thread) for name in config.digest_channels]
