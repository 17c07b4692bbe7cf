"""What is done once a day: the backup, the thinning of old numbers, and taking away what is old."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.actions import evidence
from watchdogd.engine.cleanup import clean_up
from watchdogd.engine.patient import Patient
from watchdogd.errors import WatchdogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchdogd.engine.assembly import Assembly

EVERY = 86400.0
"""Seconds. A link may live for less: the time of the last ones is kept in home, by a file's own time."""
PATIENCE = 20.0
"""Seconds for taking old files away; what is left goes the next day."""
_MARK = ".chores"

log = logging.getLogger(__name__)


def do_chores(parts: Assembly, now: float) -> bool:
    """Do them where they are due; never raises for what home or its history does. Whether they were."""
    try:
        if not parts.patient.attempt(partial(_due, parts, now)):
            return False
    except (WatchdogError, OSError) as error:
        log.warning("the daily chores wait: %s", error)
        return False
    config = parts.engine.setup.config
    _one("the backup", parts.storage.back_up)
    _one("the thinning of old numbers", partial(parts.storage.thin, config.history.keep))
    broom = Patient(str(parts.home.path), PATIENCE)  # of its own: it may be slow where thousands go
    sweep = partial(clean_up, parts.home, config.daemon.keep_logs, now)
    _one("the removal of old files", partial(broom.attempt, sweep))
    sweep = partial(evidence.sweep, parts.home, config.history.keep, now)
    _one("the removal of old evidence", partial(broom.attempt, sweep))
    broom.close()
    return True


def _one(chore: str, do: Callable[[], object]) -> None:
    """One of them; what fails is tried again the next day, and holds up no other."""
    try:
        do()
    except WatchdogError as error:
        log.warning("%s has to wait: %s", chore, error)


def _due(parts: Assembly, now: float) -> bool:
    """Whether a day has passed; then the mark is set anew, so that a fault is not met every hour."""
    mark = parts.home.path / _MARK
    try:
        if 0 <= now - mark.stat().st_mtime < EVERY:
            return False
    except FileNotFoundError:
        pass
    parts.home.write(mark, "")
    return True
