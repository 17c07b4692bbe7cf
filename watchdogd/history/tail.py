"""The newest readings of all series in memory: those that are not folded yet.

In the database they lie in order of time. Without this, each check that wants its past would have all of the
last hour's readings of all checks read, every round.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from sqlalchemy import select

from watchdogd.history.folded import Folded
from watchdogd.history.tables import readings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from watchdogd.history.statements import Row


class Tail:
    """Readings from `begin` on (seconds since the epoch), sixteen bytes each, and before it `folded`."""

    def __init__(self, connection: Connection, begin: int) -> None:
        self.begin = begin
        self.folded = Folded()
        self._times: dict[int, array[float]] = {}
        self._values: dict[int, array[float]] = {}
        query = select(readings).where(readings.c.at >= begin * 1000).order_by(readings.c.at)
        self.add(connection.execute(query).all())

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows of the table `readings`; those whose value was no number are left out."""
        for at, series, value in rows:
            if value is not None:
                self._times.setdefault(series, array("d")).append(at / 1000)
                self._values.setdefault(series, array("d")).append(value)

    def points(self, series: int, since: float) -> set[tuple[float, float]]:
        """The readings of one series since a time; a set, for a round that was stored twice."""
        times = self._times.get(series, ())
        return {point for point in zip(times, self._values.get(series, ()), strict=True) if point[0] >= since}

    def trim(self, begin: int) -> None:
        """Forget what lies before `begin`, as far as it was stored in order."""
        for series, times in self._times.items():
            place = bisect_left(times, begin)
            del times[:place], self._values[series][:place]
        self.begin = max(self.begin, begin)
        self.folded.clear()
