"""Marker files in home: the watchdog was stopped on purpose; when ticks began."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from watchdogd.errors import SlurmSilentError, WatchdogError
from watchdogd.home import switches, touchfile
from watchdogd.system.number import needed, real
from watchdogd.system.smallfile import parse_json, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from watchdogd.home.layout import Home


_JOBS_KEPT = 1000
RESTART = 180.0
"""Seconds after which a restart has come to its end, or was ended midway: it stops nothing any more."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time for which the watchdog was stopped, in seconds since the epoch; `words`: by whom and why.

    `who` stopped it for good; empty for a restart.
    """

    begin: float
    end: float
    words: str
    who: str = ""


def stop_path(home: Home) -> Path:
    return home.path / "stopped"


def is_stopped(home: Home) -> bool:
    """Return whether the stop marker is set, and is none of an abandoned restart. OSError: home is silent."""
    try:
        age = time.time() - stop_path(home).stat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return False
    return abs(age) < RESTART or not jobs_go_on(home)


def mark_stopped(home: Home, reason: str = "", *, jobs_go_on: bool = False) -> None:
    """Set the stop marker with who, when and where. OSError.

    `jobs_go_on`: queued jobs of drop-ins are kept. The first author stays named if it was stopped already.
    """
    if stopped_by(home) is not None:
        return
    said = switches.my_signature(reason).fields() | {"jobs_go_on": jobs_go_on}
    home.write(stop_path(home), json.dumps(said) + "\n")


def lift_stop(home: Home) -> None:
    """Remove the stop marker, and keep it as the last pause. OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(stop_path(home))  # its time becomes the pause's end
        stop_path(home).replace(_lifted(home))


@contextlib.contextmanager
def lifted(home: Home) -> Iterator[None]:
    """Lift the stop for what is started within; if that fails, it is as stopped as before. OSError.

    It stays lifted if it was a restart's, so that `ensure` starts it, or if Slurm may have taken the job.
    """
    stopped = stopped_by(home)
    lift_stop(home)
    try:
        yield
    except (WatchdogError, OSError) as error:
        if stopped and not isinstance(error, SlurmSilentError) and not is_stopped(home):
            with contextlib.suppress(OSError):
                _lifted(home).replace(stop_path(home))
        raise


def start_verb(home: Home) -> str:
    """Return the verb that starts it as it was started last: `start --local`, `start --partition small`."""
    try:
        said = parse_json(read_plain(home.path / "link.json"))
        options = {key: str(said[key]) for key in ("partition", "account", "time", "mode") if said[key]}
    except (OSError, ValueError, KeyError, TypeError):
        return "start"
    mode = options.pop("mode", "daemon")
    if mode == "local":
        return "start --local"
    words = [f"--{key} {shlex.quote(value)}" for key, value in options.items()]
    return " ".join(["start", *words, *(["--mode tick"] if mode == "tick" else [])])


def stop_words(home: Home) -> str:
    """Return `stopped by alice on login1 at ...`, or empty where it is not set."""
    try:
        return f"stopped {touchfile.read(str(stop_path(home)))}" if is_stopped(home) else ""
    except FileNotFoundError:
        return ""


def stopped_by(home: Home) -> touchfile.Signature | None:
    """Return who stopped it for good, and why; None where nobody did, or it is being restarted."""
    try:
        signature = touchfile.read(str(stop_path(home)))
    except OSError:
        return None
    return None if jobs_go_on(home) else signature


def jobs_go_on(home: Home) -> bool:
    """Return whether it was stopped for a restart, which jobs of drop-ins survive."""
    return bool(touchfile.fields_of(str(stop_path(home))).get("jobs_go_on"))


def last_pause(home: Home) -> Pause | None:
    try:
        end = _lifted(home).stat().st_mtime
        said = touchfile.fields_of(str(_lifted(home)))
        begin = datetime.fromisoformat(str(said["at"])).timestamp()
        touch = touchfile.read(str(_lifted(home)))._replace(time=begin)  # the file's own time is the end
        return Pause(begin, end, f"stopped {touch}", "" if said.get("jobs_go_on") else touch.who)
    except (OSError, KeyError, ValueError, OverflowError):
        return None


def note_ended_jobs(home: Home, job_ids: Iterable[str]) -> None:
    """Record that these jobs of drop-ins were cancelled together with the watchdog. OSError."""
    known = list(dict.fromkeys([*_ended_jobs(home), *job_ids]))
    home.write(_jobs(home), json.dumps(known[-_JOBS_KEPT:]) + "\n")


def ended_with_watchdog(home: Home, job_id: str) -> bool:
    """Return whether a drop-in's job was cancelled together with the watchdog."""
    return job_id in _ended_jobs(home)


def _lifted(home: Home) -> Path:
    return home.path / ".stopped"


def _jobs(home: Home) -> Path:
    return home.path / ".stopped-jobs"


def _ended_jobs(home: Home) -> list[str]:
    try:
        said = parse_json(read_plain(_jobs(home)))
        return [str(each) for each in said]
    except (OSError, ValueError, TypeError, RecursionError):
        return []


UNKNOWN_INTERVAL = 900.0
"""Seconds between two ticks where only one was seen."""
_TICKS_KEPT = 7
_TICKS_SIZE = 256
_LATE = 60.0
CLOCK_AHEAD = 3600.0
"""Seconds by which another node's clock may be ahead; a later time of a tick is wrong."""
_YEAR_5000 = 1e11


def tick_interval(begins: tuple[float, ...]) -> float:
    """Return the median seconds between ticks, from the times at which the last ones began.

    As it is the median, a tick run by hand, or a night without any, changes nothing.
    """
    steps = sorted(later - earlier for earlier, later in pairwise(begins) if later > earlier)
    return (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2 if steps else UNKNOWN_INTERVAL


def tick_overdue_at(begins: tuple[float, ...]) -> float:
    """Return when the next tick is overdue: half an interval and a minute after its time."""
    return begins[-1] + 1.5 * tick_interval(begins) + _LATE if begins else 0.0


def mark_tick(home: Home, now: float) -> None:
    """Record that a tick began. OSError; on a full disk the last mark is overwritten."""
    begins = [*(each for each in last_ticks(home) if each < now), round(now, 1)]
    text = (json.dumps(begins[-_TICKS_KEPT:]) + "\n").ljust(_TICKS_SIZE)
    try:
        home.write(_ticks_path(home), text)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            home.overwrite(_ticks_path(home), text)


def last_ticks(home: Home) -> tuple[float, ...]:
    """Return when the last ticks began, oldest first; empty without any, or where a daemon ran since."""
    try:
        begins = [needed(real(each)) for each in parse_json(read_plain(_ticks_path(home)))]
    except (OSError, ValueError, TypeError):
        return ()
    return tuple(each for each in begins if 0 < each < _YEAR_5000)


def remove_ticks(home: Home) -> None:
    """Remove the ticks' times, as a daemon runs or the watchdog was stopped: no tick is due. OSError."""
    with contextlib.suppress(FileNotFoundError):
        _ticks_path(home).unlink()


def _ticks_path(home: Home) -> Path:
    return home.path / ".ticks"
