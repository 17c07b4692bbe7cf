"""Retention: raw readings for two days, means of five minutes for a week, then means of hours.

`plan` decides, and is pure; `execute` does some of its steps. Times are whole seconds since the epoch.
Readings are aggregated within minutes, though raw ones stay for two days: a plugin's past is read from the
aggregates, by series. Status changes, incidents, events, users' actions and gaps are kept for ever.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Connection, Integer, Numeric, bindparam, cast, delete, func, select

from watchdogd.history.schema import facts, fives, hours, notifications, readings
from watchdogd.history.sql import insert, upsert

FIVE, HOUR, DAY = 300, 3600, 86400
RAW = 2 * DAY
"""Seconds for which raw readings are kept."""
FIVES = 7 * DAY
"""Seconds for which means of five minutes are kept."""
_GRACE = 60
"""Seconds by which a reading may be stored late without aggregating again."""
_SPAN = 6 * HOUR
"""Seconds of raw readings aggregated or dropped at a time."""
_PATIENCE = 0.5
"""Seconds after which a transaction begins no further step, since the round waits for it."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """State of aggregation: `folded`: all before is aggregated; `raw` and `fives`: where these begin."""

    folded: int
    raw: int
    fives: int

    def reaching(self, time: int) -> Thinned:
        """Return the state after a reading of `time` was stored, which may be older than all others."""
        start = _floor(time, HOUR)
        return Thinned(min(self.folded, start), min(self.raw, start), min(self.fives, start))


@dataclass(frozen=True, slots=True)
class Step:
    """Step of `work` on the time from `begin` to before `end`; `after`: the state afterwards."""

    work: str
    begin: int
    end: int
    after: Thinned


def plan(now: float, keep: float, thinned: Thinned) -> tuple[Step, ...]:
    """Return the steps that are due; readings are dropped a day at a time, so mostly there are few."""
    kept = _floor(now - keep, DAY)
    steps = []
    for begin, end in _spans(_floor(thinned.folded, FIVE), _floor(now - _GRACE, FIVE), _SPAN):
        thinned = replace(thinned, folded=end)
        steps.append(Step("fold raw", begin, end, thinned))
    for begin, end in _spans(thinned.raw, max(_floor(now - RAW, DAY), kept), _SPAN):
        thinned = replace(thinned, raw=end)
        steps.append(Step("drop raw", begin, end, thinned))
    for begin, end in _spans(_floor(thinned.fives, HOUR), max(_floor(now - FIVES, DAY), kept), DAY):
        thinned = replace(thinned, fives=end)
        steps.append(Step("fold fives", begin, end, thinned))
    return (*steps, Step("drop old", 0, max(kept, 0), thinned))


def execute(connection: Connection, steps: deque[Step]) -> Thinned:
    """Do steps for half a second, one at least; store the state of aggregation."""
    end = time.monotonic() + _PATIENCE
    while True:
        step = steps.popleft()
        _WORK[step.work](connection, step.begin, step.end)
        if not steps or time.monotonic() > end:
            break
    save(connection, step.after)
    return step.after


_HOW_FAR = select(facts.c.value).where(facts.c.name == "thinned")


def load(connection: Connection) -> Thinned | None:
    """Return the state of aggregation; None before the first reading."""
    found = connection.execute(_HOW_FAR).scalar()
    return Thinned(**json.loads(found)) if found else None


def save(connection: Connection, thinned: Thinned) -> None:
    """Store the state of aggregation."""
    connection.execute(delete(facts).where(facts.c.name == "thinned"))
    connection.execute(facts.insert().values(name="thinned", value=json.dumps(asdict(thinned))))


def _floor(time: float, unit: int) -> int:
    return int(time // unit) * unit


def _spans(begin: int, end: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the time from `begin` to `end` in pieces that end at multiples of `length`."""
    while begin < end:
        stop = min(_floor(begin + length, length), end)
        yield begin, stop
        begin = stop


@cache
def _fold_raw(dialect: str) -> Any:
    slot = readings.c.at // (FIVE * 1000)
    offset = cast(func.avg(readings.c.at) / 1000.0 - slot * FIVE, Integer)
    value = readings.c.value
    folded = (
        select(
            readings.c.series_id,
            slot.label("slot"),
            offset,
            func.min(value),
            func.avg(value),
            func.max(value),
            func.count(value),
        )
        .where(*_between(readings.c.at))
        .group_by(readings.c.series_id, slot)
    )
    return _replacing(dialect, fives, folded)


@cache
def _fold_fives(dialect: str) -> Any:
    slot = fives.c.slot // (HOUR // FIVE)
    count = func.sum(fives.c.count)
    seconds = func.avg(fives.c.slot * FIVE + fives.c.offset)
    folded = (
        select(
            fives.c.series_id,
            slot.label("slot"),
            cast(cast(seconds, Numeric) - slot * HOUR, Integer),
            func.min(fives.c.low),
            func.sum(fives.c.mean * fives.c.count) / func.nullif(count, 0),
            func.max(fives.c.high),
            count,
        )
        .where(*_between(fives.c.slot))
        .group_by(fives.c.series_id, slot)
    )
    return _replacing(dialect, hours, folded)


def _between(column: Any) -> tuple[Any, Any]:
    return column >= bindparam("begin"), column < bindparam("end")


def _replacing(dialect: str, table: Any, folded: Any) -> Any:
    """Return the INSERT of aggregated rows; a slot is replaced where a reading came late."""
    names = [column.name for column in table.columns]
    return upsert(insert(dialect, table).from_select(names, folded), table)


def _do_fold_raw(connection: Connection, begin: int, end: int) -> None:
    connection.execute(_fold_raw(connection.dialect.name), {"begin": begin * 1000, "end": end * 1000})


def _do_drop_raw(connection: Connection, _begin: int, end: int) -> None:
    connection.execute(delete(readings).where(readings.c.at < end * 1000))


def _do_fold_fives(connection: Connection, begin: int, end: int) -> None:
    connection.execute(_fold_fives(connection.dialect.name), {"begin": begin // FIVE, "end": end // FIVE})
    connection.execute(delete(fives).where(fives.c.slot < end // FIVE))


def _do_drop_old(connection: Connection, _begin: int, end: int) -> None:
    connection.execute(delete(hours).where(hours.c.slot < end // HOUR))
    done = notifications.c.state != "waiting"
    connection.execute(delete(notifications).where(done, notifications.c.created_at < end))


_WORK: dict[str, Callable[[Connection, int, int], None]] = {
    "fold raw": _do_fold_raw,
    "drop raw": _do_drop_raw,
    "fold fives": _do_fold_fives,
    "drop old": _do_drop_old,
}
