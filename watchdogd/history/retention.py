"""Retention: raw for two days, then five minutes, then hours, then nothing.

`plan` decides, and is pure; `execute` does some steps of it. All times in whole seconds since the epoch.

Readings are folded into five minutes soon, though the raw ones stay two days: what a plugin is given of its
past is read from there, by series. State changes, incidents, events, touches and gaps stay for ever.
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
"""How long each reading is kept as it came."""
FIVES = 7 * DAY
"""How long five minutes are kept apart."""
_GRACE = 60
"""A reading may be stored so much later than it was made without the fold being done again."""
_SPAN = 6 * HOUR
"""Raw readings folded or dropped at a time."""
_PATIENCE = 0.5
"""Seconds after which a transaction does not begin another step: the round waits for it."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """Progress of thinning: all before `folded` is in fives too; raw begins at `raw`, fives at `fives`."""

    folded: int
    raw: int
    fives: int

    def reaching(self, time: int) -> Thinned:
        """Return it as it is once a reading of `time` was stored, which may lie before all others."""
        start = _floor(time, HOUR)
        return Thinned(min(self.folded, start), min(self.raw, start), min(self.fives, start))


@dataclass(frozen=True, slots=True)
class Step:
    """`work` on what lies from `begin` to before `end`; `after` is how far it is then."""

    work: str
    begin: int
    end: int
    after: Thinned


def plan(now: float, keep: float, thinned: Thinned) -> tuple[Step, ...]:
    """Return the steps that are due. What is dropped is dropped a day at a time, so mostly nothing is."""
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
    """Do the next steps for half a second, at least one; store how far that came."""
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
    """Return how far thinning has come; None before the first reading."""
    found = connection.execute(_HOW_FAR).scalar()
    return Thinned(**json.loads(found)) if found else None


def save(connection: Connection, thinned: Thinned) -> None:
    """Store how far thinning has come."""
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
    """Return the INSERT of folded rows; a slot folded before is folded anew, for a reading that came late."""
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
