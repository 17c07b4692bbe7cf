"""The stop mark: the daemon was ended on purpose. It ends a link that Slurm can no longer reach, too.

Lifted, it is kept aside: the next daemon tells by it a pause that somebody wanted from a gap. Beside it
stands which jobs of drop-ins were ended with the watchdog, so that their end is no failure.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from watchdogd.home import switches, touchfile
from watchdogd.system.document import document
from watchdogd.system.plainfile import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from watchdogd.home.layout import Home

_JOBS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Pause:
    """A time for which it was stopped, in seconds since the epoch; `words`: by whom and why."""

    begin: float
    end: float
    words: str


def path_of(home: Home) -> Path:
    """Where it lies."""
    return home.path / "stopped"


def is_set(home: Home) -> bool:
    """Whether it is there. OSError where home cannot be asked."""
    return path_of(home).exists()


def put(home: Home, reason: str = "", *, jobs_go_on: bool = False) -> None:
    """Set it, with who, when and where; `jobs_go_on`: what drop-ins have in the queue stays. OSError."""
    said = switches.mine(reason).fields() | {"jobs_go_on": jobs_go_on}
    home.write(path_of(home), json.dumps(said) + "\n")


def lift(home: Home) -> None:
    """Put it aside: the watchdog is wanted again. OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(path_of(home))  # its time is now the pause's end
        path_of(home).replace(_lifted(home))


def words(home: Home) -> str:
    """`stopped by alice on login1 at ...`, or empty where it is not set."""
    try:
        return f"stopped {touchfile.read(str(path_of(home)))}"
    except FileNotFoundError:
        return ""


def jobs_go_on(home: Home) -> bool:
    """Whether it was stopped for a restart, which drop-ins' jobs outlive."""
    return bool(touchfile.said(str(path_of(home))).get("jobs_go_on"))


def last_pause(home: Home) -> Pause | None:
    """The pause that was ended last, if any."""
    try:
        end = _lifted(home).stat().st_mtime
        said = touchfile.said(str(_lifted(home)))
        begin = datetime.fromisoformat(str(said["at"])).timestamp()
        touch = touchfile.read(str(_lifted(home)))._replace(time=begin)  # the file's own time is the end
        return Pause(begin, end, f"stopped {touch}")
    except (OSError, KeyError, ValueError, OverflowError):
        return None


def note_jobs(home: Home, job_ids: Iterable[str]) -> None:
    """Remember that these jobs of drop-ins were ended together with the watchdog. OSError."""
    known = list(dict.fromkeys([*_noted(home), *job_ids]))
    home.write(_jobs(home), json.dumps(known[-_JOBS_KEPT:]) + "\n")


def ended_job(home: Home, job_id: str) -> bool:
    """Whether a drop-in's job was ended together with the watchdog."""
    return job_id in _noted(home)


def _lifted(home: Home) -> Path:
    return home.path / ".stopped"


def _jobs(home: Home) -> Path:
    return home.path / ".stopped-jobs"


def _noted(home: Home) -> list[str]:
    try:
        said = document(read_plain(_jobs(home)))
        return [str(each) for each in said]
    except (OSError, ValueError, TypeError, RecursionError):
        return []
