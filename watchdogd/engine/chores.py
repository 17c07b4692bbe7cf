"""Chores of each hour and day: old numbers are thinned, a backup is made, what is old is removed."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.actions import evidence
from watchdogd.engine.cleanup import clean_up
from watchdogd.errors import WatchdogError
from watchdogd.system.bounded import BoundedIO
from watchdogd.system.clock import fresh

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.config.models import Config
    from watchdogd.engine.assembly import Assembly
    from watchdogd.home.layout import Home

HOUR, DAY = 3600.0, 86400.0
"""Seconds. A link may live for less: when each was done last is kept in home, by a file's own time."""
PATIENCE = 20.0
"""Seconds for taking old files away; what is left goes the next day."""
_DAILY, _HOURLY = ".chores", ".thinning"

log = logging.getLogger(__name__)


def do_chores(parts: Assembly, now: float) -> None:
    """Do those that are due; never raises for what home or its history does."""
    config = parts.engine.setup.config
    daily, hourly = _due(parts, _DAILY, DAY, now), _due(parts, _HOURLY, HOUR, now)
    if daily:
        _one("the backup", parts.storage.back_up)
    if hourly:  # what is not folded yet is gone through for every forecast, each round
        _one("the thinning of old numbers", partial(parts.storage.thin, config.history.keep))
    if daily:
        _sweep(parts.home, config, now)


def _sweep(home: Home, config: Config, now: float) -> None:
    """Take away what is old."""
    broom = BoundedIO(str(home.path), PATIENCE)  # of its own: it may be slow where thousands go
    sweep = partial(clean_up, home, config.daemon.keep_logs, now)
    _one("the removal of old files", partial(broom.attempt, sweep))
    sweep = partial(evidence.sweep, home, config.history.keep, now)
    _one("the removal of old evidence", partial(broom.attempt, sweep))
    broom.close()


def _one(chore: str, do: Callable[[], object]) -> None:
    """One of them; what fails is tried again when it is due again, and holds up no other."""
    try:
        do()
    except WatchdogError as error:
        log.warning("%s has to wait: %s", chore, error)


def _due(parts: Assembly, mark: str, every: float, now: float) -> bool:
    """Return whether it is time again, and set the mark anew: a fault is not met again and again."""
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
