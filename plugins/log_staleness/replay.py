"""Replay of a finished log by its own times: when it would have been reported as stalled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from watchdogd.plugins.log_staleness.progress_state import LogState

EVERY = 60.0
"""Seconds between two looks."""
_DATED = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T_ ](\d\d):(\d\d):(\d\d)|(\d{4})/(\d\d)/(\d\d)[T_ ](\d\d):(\d\d):(\d\d)"
    r"|(?<![\d.])(1[6-9]\d{8})(?:(?:\d{3}){1,3}|\.\d+)?(?!\d)"
)
_CLOCK = re.compile(r"(?<![\d:.])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?![\d:])")
_DAY, _UNDATED = 86400.0, 31_536_000.0
"""Seconds of a day; and before which only lines without a date can lie."""
_WITHIN = 120
"""Characters of a line's beginning in which its own time stands."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Stall that would have been reported.

    Kept are the time at which it would have been, in seconds since 1970, how long it had stood, the limit in
    seconds and where it comes from. `silent`: nothing was written, else lines came that told nothing new.
    `until`: when it went on, None: it never did.
    """

    at: float
    stood: float
    limit: float
    why: str
    silent: bool
    until: float | None = None


def time_of(line: str, before: float | None) -> float | None:
    """Return when a line was written by its own words, in seconds since 1970; None where it tells no time.

    Local times are taken as they stand; a time without a date is on the day of the line before, or the next.
    """
    text = line[:_WITHIN]
    if dated := _DATED.search(text):
        if dated[13]:
            return float(dated[13])
        year, month, day, hour, minute, second = (int(each) for each in dated.groups()[:12] if each)
        try:
            return datetime(year, month, day, hour, minute, min(second, 59)).astimezone().timestamp()
        except (ValueError, OverflowError):
            return before
    if clock := _CLOCK.search(text):
        seconds = (int(clock[1]) * 60 + int(clock[2])) * 60 + int(clock[3])
        base = before if before is not None else 0.0
        found = base - base % 86400.0 + seconds
        return found + 86400.0 if found < base - 43200.0 else max(found, base)
    return None


def replay(lines: Sequence[str], confirm: int = 2, ended: float = 0.0) -> tuple[LogState, list[Stall]]:
    """Return what is known of a log in the end, and the stalls that would have been reported.

    Looks come EVERY seconds, and `confirm` bad ones in a row are a stall. Lines without a date are of the
    days until `ended`, when the log was last written to. ValueError where no line tells a time.
    """
    state, stalls, waiting = LogState(), list[Stall](), list[str]()
    at: float | None = None
    first = _first_day(lines, ended)
    least = _UNDATED if first is None else first
    for line in lines:
        told = time_of(line, first if at is None else at)
        if at is None:
            at = told if told is None or told >= least else None
        elif told is not None and told >= at + EVERY:
            _take(state, waiting, at)
            stalls += _between(state, at, told, confirm)
            at = told
        waiting.append(line)
    if at is None:
        raise ValueError("no line tells when it was written")
    _take(state, waiting, at)
    return state, stalls


def _first_day(lines: Iterable[str], ended: float) -> float | None:
    """Return the day on which lines without a date begin; None: some have a date, or none has a time."""
    at: float | None = None
    for line in lines:
        at = time_of(line, at)
        if at is not None and at > _UNDATED:
            return None
    return None if at is None else max((ended - at) // _DAY, 0.0) * _DAY


def _take(state: LogState, waiting: list[str], at: float) -> None:
    state.advance([(line, False) for line in waiting if line.strip()], at)
    waiting.clear()


def _between(state: LogState, begin: float, end: float, confirm: int) -> Iterator[Stall]:
    """Return the stall of the pause from `begin` to `end`, if it would have been one."""
    late = (confirm - 1) * EVERY
    silence = state.silence(end)
    if end - begin >= silence.seconds + late:
        patience = silence.seconds + late
        yield Stall(begin + patience, patience, silence.seconds, silence.reason, silent=True, until=end)
        return
    stand = state.standstill(end)
    if stand and end - stand[0] >= stand[1].seconds + late and begin - stand[0] < stand[1].seconds + late:
        since, limit = stand
        patience = limit.seconds + late
        yield Stall(since + patience, patience, limit.seconds, limit.reason, silent=False)
