"""Maintenance windows: whether somebody planned for a target to be down just now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from watchdogd.system.times import LOCAL_ZONE, CronTimes, short_time, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchdogd.config.models import Maintenance


@dataclass(frozen=True, slots=True)
class Window:
    """One time of planned silence, in seconds since the epoch."""

    begin: float
    end: float


class Windows:
    """The configured windows. Calling it says why a target is silent at a time, or nothing."""

    def __init__(self, entries: Iterable[Maintenance]) -> None:
        self._entries = [(_times(entry), entry) for entry in entries]

    def __call__(self, target: str, check: str, now: float) -> str:
        """`maintenance until 04:00`, by this machine's clock, or empty."""
        ends = [
            begin + entry.length
            for times, entry in self._entries
            if not entry.targets or target in entry.targets or check in entry.targets
            if (begin := times.last(now)) is not None
        ]
        end = max(ends, default=now)
        return f"maintenance until {short_time(end, now)}" if end > now else ""

    def ahead(self, now: float, count: int) -> Iterator[tuple[Maintenance, tuple[Window, ...]]]:
        """Return each entry with its next windows; one that lasts is the first of them."""
        for times, entry in self._entries:
            last = times.last(now)
            lasting = [last] if last is not None and last + entry.length > now else []
            begins = [*lasting, *islice(times.after(now), count - len(lasting))]
            yield entry, tuple(Window(begin, begin + entry.length) for begin in begins)


def _times(entry: Maintenance) -> CronTimes:
    return CronTimes(entry.cron, zone_named(entry.timezone) if entry.timezone else LOCAL_ZONE)
