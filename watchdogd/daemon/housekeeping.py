"""Hourly and daily housekeeping: old readings and files, a copy of the history, the morning message.

Old files are outputs of drop-in jobs, rotated logs, temporary files left by a crash, and heartbeats, samples
and stacks that are no longer renewed or fetched.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Callable
from datetime import tzinfo
from functools import partial
from pathlib import Path

from watchdogd.config.models import Config, DigestSection
from watchdogd.daemon.wiring import Wiring
from watchdogd.errors import WatchdogError
from watchdogd.home.inbox import kind_of
from watchdogd.home.layout import Home
from watchdogd.notify.notification import Message, Notification, addressed
from watchdogd.remediation import evidence
from watchdogd.system import command
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import parse_json
from watchdogd.system.times import LOCAL_ZONE, CronTimes, fresh, zone_named

DRAFTS = 86400.0
BEATS = 7 * 86400.0
LEFT = 86400.0
"""Seconds after which temporary files, heartbeats, and samples, stacks and stack requests are removed."""
_OUTPUT = re.compile(r"cron\..+-\d+\.(?:out|err)|(?:daemon|link)\.log\.\d+")
_STACKS = re.compile(r"(?!\.).+\.stacks(?:-request|\.[^.]+\.\d+\.(?:txt|json))")
_DRAFT = re.compile(r"\..+\.\d+\.(?:[0-9a-f]{8}|new)")

log = logging.getLogger(__name__)


def clean_up(home: Home, keep_logs: float, now: float) -> int:
    """Remove old files; return their number. Files that cannot be removed stay."""
    places: list[tuple[Path, float, Callable[[str], bool]]] = [
        (home.logs, keep_logs, lambda name: bool(_OUTPUT.fullmatch(name))),
        (home.inbox, BEATS, lambda name: kind_of(name) == "beat"),
        (home.inbox, LEFT, lambda name: bool(kind_of(name) == "sample" or _STACKS.fullmatch(name))),
        *((folder, DRAFTS, is_draft) for folder in (home.path, home.inbox, home.switches, home.logs)),
    ]
    gone = sum(_remove(folder, now - age, wanted) for folder, age, wanted in places)
    if gone:
        log.info("removed %d old files of our own", gone)
    return gone


def is_draft(name: str) -> bool:
    """Return whether it is the name of a temporary file of an atomic write."""
    return bool(_DRAFT.fullmatch(name))


def _remove(folder: Path, before: float, wanted: Callable[[str], bool]) -> int:
    gone = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if wanted(entry.name) and _is_old(entry, before):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    gone += 1
    return gone


def _is_old(entry: os.DirEntry[str], before: float) -> bool:
    """Return whether it is a plain file, not a link, older than that."""
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < before


HOUR, DAY = 3600.0, 86400.0
"""Seconds. A link may live for less, so the time of the last run is kept as a file's time in home."""
PATIENCE = 20.0
"""Seconds for removing old files; the rest is removed the next day."""
_DAILY, _HOURLY = ".chores", ".thinning"


def do_chores(parts: Wiring, now: float) -> None:
    """Do the housekeeping that is due; errors of home or history are logged only."""
    config = parts.engine.setup.config
    daily, hourly = _due(parts, _DAILY, DAY, now), _due(parts, _HOURLY, HOUR, now)
    if daily:
        _one("the backup", parts.storage.back_up)
    if hourly:  # readings not yet aggregated slow every forecast down
        _one("the thinning of old numbers", partial(parts.storage.thin, config.history.keep))
    if daily:
        _sweep(parts.home, config, now)


def _sweep(home: Home, config: Config, now: float) -> None:
    """Remove old files and old evidence."""
    files = BoundedIO(str(home.path), PATIENCE)  # a thread of its own: removing thousands is slow
    sweep = partial(clean_up, home, config.daemon.keep_logs, now)
    _one("the removal of old files", partial(files.attempt, sweep))
    sweep = partial(evidence.sweep, home, config.history.keep, now)
    _one("the removal of old evidence", partial(files.attempt, sweep))
    files.close()


def _one(chore: str, do: Callable[[], object]) -> None:
    """Run one chore; a failed one is tried again when it is next due, and stops no other."""
    try:
        do()
    except WatchdogError as error:
        log.warning("%s has to wait: %s", chore, error)


def _due(parts: Wiring, mark: str, every: float, now: float) -> bool:
    """Return whether it is due, and set its mark at once, so that a failure is not repeated each round."""
    try:
        return parts.patient.attempt(partial(_taken, parts.home, mark, every, now))
    except (WatchdogError, OSError) as error:
        log.warning("the chores wait: %s", error)
        return False


def _taken(home: Home, name: str, every: float, now: float) -> bool:
    mark = home.path / name
    try:
        if fresh(mark.stat().st_mtime, now, every):
            return False
    except FileNotFoundError:
        pass
    home.write(mark, "")
    return True


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
