"""Times as people and Slurm write them: crontab times, time zones, walltimes; and a clock nobody sets."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from cronsim import CronSim, CronSimError

from watchdogd.errors import UnitError
from watchdogd.system.number import digits
from watchdogd.units import parse_duration, zone_name

JUMP = 30.0
"""Difference in seconds between two wall clocks from which one counts as set."""


def fresh(at: float, now: float, lasts: float) -> bool:
    """Return whether `at` is less than `lasts` seconds ago.

    A time ahead of `now`, from before the clock was set back or from a wrong clock, is not fresh: otherwise
    nothing would happen until then.
    """
    return 0 <= now - at < lasts


class SteadyClock:
    """Clock that starts at the wall clock's time and then ignores every change to it.

    `wall` and `ticks` (monotonic) return seconds. Other processes use the wall clock: add `skew` to times
    sent to them, subtract it from times received.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._ticks = wall, ticks
        self._ahead = wall() - ticks()

    @property
    def now(self) -> float:
        """Return seconds since the epoch, as if the clock had not been set since."""
        return self._ticks() + self._ahead

    @property
    def skew(self) -> float:
        """Return the seconds by which the wall clock was set since."""
        return self._wall() - self.now


STEP = 1.0
"""Maximum seconds between two looks at a deadline."""


class Deadline:
    """Deadline of an exchange, so many `seconds` ahead, that a process which is stopped meanwhile can meet.

    Look at it as often as `left` says. Where nobody looked for longer, this process did not run, and what has
    come is not read yet: a third of the seconds remain for that.
    """

    def __init__(self, seconds: float) -> None:
        self._looked_at = time.monotonic()
        self._until = self._looked_at + seconds
        self._remainder = seconds / 3

    def left(self) -> float:
        """Return in how many seconds to look again; zero once the deadline has passed."""
        now = time.monotonic()
        if now - self._looked_at > 2 * STEP:
            self._until = max(self._until, now + self._remainder)
        self._looked_at = now
        return min(max(self._until - now, 0.0), STEP)


_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_CRON_FIELDS = 5
EARLY = 2.0
"""Seconds by which a run may be early without being repeated at its time."""


@dataclass(frozen=True, slots=True)
class CronTimes:
    """Times of a crontab expression in a zone, in seconds since the epoch. ValueError where it is invalid."""

    expression: str
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        """Check that the expression is valid and has any time."""
        try:
            _first_time(self, 0)
        except StopIteration:
            raise ValueError(f"'{self.expression[:60]}' never comes: there is no such day") from None
        except (CronSimError, ValueError) as error:
            why = str(error)[:1].lower() + str(error)[1:80]
            fault = f"'{self.expression[:60]}' is no crontab time ({why})"
            raise ValueError(f"{fault}: write it as 0 2 * * 0, for Sundays at 2") from None

    def after(self, now: float) -> Iterator[float]:
        """Yield the next times without end: 50 years ahead where there are none before."""
        found = (
            at.timestamp() for at in _cron_times(self, datetime.fromtimestamp(math.floor(now), self.zone))
        )
        return (at for at in found if at > now)

    def following(self, last: float) -> float:
        """Return when it is due after it ran `last`, up to EARLY seconds early; in the past if missed."""
        return next(self.after(last + EARLY))

    def last(self, now: float) -> float | None:
        """Return the newest time that is not ahead; None where there was none for 50 years."""
        return _last_time(self, math.floor(now))


def _cron_times(cron: CronTimes, start: datetime, *, reverse: bool = False) -> CronSim:
    text = _NICKNAMES.get(cron.expression.strip().lower(), cron.expression)
    if text.startswith("@"):
        raise ValueError(f"there are {', '.join(_NICKNAMES)}")
    if len(text.split()) != _CRON_FIELDS:  # cronsim takes a sixth one for seconds
        raise ValueError("five fields: minute, hour, day, month, day of the week")
    return CronSim(text, start, reverse=reverse)


def _first_time(cron: CronTimes, at: int) -> datetime:
    return next(_cron_times(cron, datetime.fromtimestamp(at, UTC)))


@lru_cache(maxsize=64)
def _last_time(cron: CronTimes, now: int) -> float | None:
    """Return the last time before `now`; in a repeated hour the search starts at its second pass."""
    local = datetime.fromtimestamp(now + 1, cron.zone)
    first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    repeated = (first - second).total_seconds() if local.fold else 0.0
    start = datetime.fromtimestamp(now + 1 + repeated, cron.zone)
    found = (at.timestamp() for at in _cron_times(cron, start, reverse=True))
    return next((at for at in found if at <= now), None)


class _LocalZone(tzinfo):
    """This process's zone by the C library, also for a POSIX rule, a file, or nonsense (then UTC).

    zoneinfo accepts names only.
    """

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """Return the offset from UTC at a local time; `fold` counts."""
        return None if at is None else at.replace(tzinfo=None).astimezone().utcoffset()

    def tzname(self, at: datetime | None) -> str | None:
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()

    def dst(self, _at: datetime | None) -> None:
        """Return None: not known, and not used."""
        return

    def fromutc(self, at: datetime) -> datetime:
        found = at.replace(tzinfo=UTC).astimezone()
        return found.replace(tzinfo=self, fold=_fold(found))


def _fold(at: datetime) -> int:
    """Return 1 where the clock shows this time for the second time."""
    return int(at.replace(tzinfo=None).astimezone().utcoffset() != at.utcoffset())


LOCAL_ZONE: tzinfo = _LocalZone()
"""This machine's zone, with its changes to and from summer time."""


def zone_named(name: str) -> tzinfo:
    """Return the zone `Europe/Berlin`. ValueError, with the nearest name, where there is none."""
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        from watchdogd.system.text import close_to

        hint = close_to(name, sorted(available_timezones()))
        raise ValueError(f"there is no time zone '{name}'{hint}: write it as Europe/Berlin") from None


def short_time(at: float, now: float) -> str:
    """Return a time for people: `16:10 CET` today, else with its day."""
    then, today = (datetime.fromtimestamp(each, UTC).astimezone() for each in (at, now))
    form = "%H:%M" if then.date() == today.date() else "%a %d %b %H:%M"
    return f"{then:{form}} {zone_name(at)}"


LONGEST_WALLTIME = 86400.0
"""Default walltime of a link in seconds, where the partition permits it."""
SHORTEST_WALLTIME = 120.0
"""Minimum walltime of a link in seconds: Slurm counts in minutes, and a hand-over needs one."""
_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(?:(\d+):)?(\d+)(?:\.\d+)?")


def parse_walltime(text: str) -> float:
    """Return seconds of `12h`, and of sbatch's forms: minutes, `MM:SS`, `HH:MM:SS`, `D-HH[:MM[:SS]]`."""
    compact = text.strip()
    if re.fullmatch(r"\d+", compact):
        return float(digits(compact)) * 60
    if re.fullmatch(r"\d+-\d+(:\d+){0,2}", compact):
        days, _, rest = compact.partition("-")
        hours, minutes, seconds = (*rest.split(":"), "0", "0")[:3]
        return float(((digits(days) * 24 + digits(hours)) * 60 + digits(minutes)) * 60 + digits(seconds))
    seconds_found = slurm_duration(compact) if ":" in compact else None
    if seconds_found is not None:
        return seconds_found
    try:
        return parse_duration(compact)
    except UnitError:
        raise UnitError(f"'{text}' is no walltime: write it as 12h, 30m, 12:00:00 or 1-00:00:00") from None


def slurm_duration(field: str) -> float | None:
    """Return seconds of `[DAYS-][[HOURS:]MINUTES:]SECONDS`; None for UNLIMITED, NOT_SET, Partition_Limit."""
    match = _DURATION.fullmatch(field.strip())
    if not match:
        return None
    days, first, second, seconds = (digits(part or "0") for part in match.groups())
    hours, minutes = (first, second) if match[3] is not None else (0, first)
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def format_walltime(seconds: float) -> str:
    """Return `12:00:00` or `1-00:00:00`, in Slurm's form."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02d}:{minute:02d}:{second:02d}" if days else f"{hour:02d}:{minute:02d}:{second:02d}"


def walltime_margin(walltime: float) -> float:
    """Return the seconds before a link's end from which its successor may start: a tenth, 1 to 30 minutes."""
    return min(max(walltime / 10, 60.0), 1800.0)
