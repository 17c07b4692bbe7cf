"""Times of day, week and month as crontab(5) writes them, with the meaning that Debian's cron gives them.

Sunday is 0 and 7, a day is one of the month OR of the week where neither is a star, and what would fall into
the hour that summer time skips comes right after it; what falls into the hour that comes twice comes once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of an expression in a zone, in seconds since the epoch. ValueError where it is none."""

    expression: str
    zone: tzinfo = UTC

    def __post_init__(self) -> None:
        """Find out whether it is one, and ever comes."""
        try:
            _first(self, 0)
        except StopIteration:
            raise ValueError(f"'{self.expression[:60]}' never comes: there is no such day") from None
        except (CronSimError, ValueError) as error:
            why = str(error)[:1].lower() + str(error)[1:80]
            fault = f"'{self.expression[:60]}' is no crontab time ({why})"
            raise ValueError(f"{fault}: write it as 0 2 * * 0, for Sundays at 2") from None

    def after(self, now: float) -> Iterator[float]:
        """The next times, without end: 50 years ahead where there are none before."""
        found = (
            at.timestamp() for at in _simulated(self, datetime.fromtimestamp(math.floor(now), self.zone))
        )
        return (at for at in found if at > now)

    def last(self, now: float) -> float | None:
        """The newest time that is not ahead; None where there was none for 50 years."""
        return _last(self, math.floor(now))


def _simulated(cron: Cron, start: datetime, *, reverse: bool = False) -> CronSim:
    text = _NICKNAMES.get(cron.expression.strip().lower(), cron.expression)
    if text.startswith("@"):
        raise ValueError(f"there are {', '.join(_NICKNAMES)}")
    if len(text.split()) != _FIELDS:  # a sixth one would be seconds
        raise ValueError("five fields: minute, hour, day, month, day of the week")
    return CronSim(text, start, reverse=reverse)


def _first(cron: Cron, at: int) -> datetime:
    return next(_simulated(cron, datetime.fromtimestamp(at, UTC)))


@lru_cache(maxsize=64)
def _last(cron: Cron, now: int) -> float | None:
    """Backwards; from where the clock shows this time for the second time, it also passes the first one."""
    local = datetime.fromtimestamp(now + 1, cron.zone)
    first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    assert first is not None
    assert second is not None
    repeated = (first - second).total_seconds() if local.fold else 0.0
    start = datetime.fromtimestamp(now + 1 + repeated, cron.zone)
    found = (at.timestamp() for at in _simulated(cron, start, reverse=True))
    return next((at for at in found if at <= now), None)
