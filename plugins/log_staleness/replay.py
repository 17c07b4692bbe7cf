"""Replay of a finished log by its own times: when it would have been reported as stalled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise

from watchdogd.plugins.log_staleness.learned_rhythm import LogState

EVERY = 60.0
"""Seconds between two looks."""
_DATED = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T_ ](\d\d):(\d\d):(\d\d)|(\d{4})/(\d\d)/(\d\d)[T_ ](\d\d):(\d\d):(\d\d)"
    r"|(?<![\d.])(1[6-9]\d{8})(?:(?:\d{3}){1,3}|\.\d+)?(?!\d)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"({'|'.join(_MONTHS)})[a-z]{{0,6}}"
_TIME = r"(\d\d?):(\d\d):(\d\d)"
_NAMED = re.compile(
    rf"\b{_MONTH}\.? {{1,2}}(\d\d?),? {_TIME}(?: [a-z]{{2,5}})? (\d{{4}})"
    rf"|\b(\d\d?)[ /-]{_MONTH}[ /-](\d{{4}})[ T:,]{{1,2}}{_TIME}",
    re.IGNORECASE,
)
"""Dates with a month's name: ctime's (`Sat Nov 28 03:12:44 2026`), mail's, web servers'."""
_CLOCK = re.compile(r"(?<![\d:.])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?![\d:])")
_DAY, _UNDATED = 86400.0, 31_536_000.0
"""Seconds of a day, and the time before which only lines without a date can be."""
_WITHIN = 120
"""Characters at the beginning of a line that may contain its own time."""
_WORD = re.compile(r"[A-Za-z]{2,}")
_NAME_OF_DAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? {1,2}$", re.IGNORECASE)
_ALIKE, _STEPS = 0.9, 5
"""If this share of steps (of at least so many) is equal, the date is one that a model simulates."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Stall that would have been reported.

    Times are seconds since 1970: when it would have been reported, and `until` when it lasted (None: the
    end). Also how long the log had stood, the limit in seconds, and where that comes from. `silent`: nothing
    was written; else lines came without anything new. `after`: the last line; or if lines came, the clock
    that stood.
    """

    at: float
    stood: float
    limit: float
    why: str
    silent: bool
    after: str = ""
    until: float | None = None


def time_of(line: str, before: float | None, *, amid: bool = True) -> float | None:
    """Return when a line was written by its own time, in seconds since 1970; None if it has no time.

    Local times are taken literally; a time without a date belongs to the day of the line before, or the next
    one. `amid`: a time behind words is the line's own, too.
    """
    text = line[:_WITHIN]
    date = _date_in(text)
    if date and (amid or not _is_amid(text, date)):
        return _read_date(date, before)
    clock = None if date else _CLOCK.search(text)
    if clock and (amid or not _is_amid(text, clock)):
        seconds = (int(clock[1]) * 60 + int(clock[2])) * 60 + int(clock[3])
        base = before if before is not None else 0.0
        found = base - base % 86400.0 + seconds
        return found + 86400.0 if found < base - 43200.0 else max(found, base)
    return None


def _date_in(text: str) -> re.Match[str] | None:
    found = (each for each in (_DATED.search(text), _NAMED.search(text)) if each)
    return min(found, key=lambda each: each.start(), default=None)


def _is_amid(text: str, time: re.Match[str]) -> bool:
    return _WORD.search(_NAME_OF_DAY.sub("", text[: time.start()])) is not None


def _read_date(found: re.Match[str], before: float | None) -> float | None:
    if found.re is _DATED and found[13]:
        return float(found[13])
    parts = [each for each in found.groups()[:12] if each]
    if found.re is _NAMED:
        day, month, year, *time = parts if found[7] else (parts[1], parts[0], parts[5], *parts[2:5])
        parts = [year, str(_MONTHS.index(month.lower()[:3]) + 1), day, *time]
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return datetime(year, month, day, hour, minute, min(second, 59)).astimezone().timestamp()
    except (ValueError, OverflowError):
        return before


def _are_simulated(lines: Iterable[str], ended: float) -> bool:
    """Return True if the dates behind words advance in equal steps and end on another day than the log.

    A weather model prints the hour that it computes: `main: time 2016-10-06_00:00:00 on domain 1`.
    """
    told = []
    for line in lines:
        text = line[:_WITHIN]
        found = _date_in(text)
        if found and _is_amid(text, found) and (at := _read_date(found, None)) is not None:
            told.append(at)
    steps = Counter(step for one, next_one in pairwise(told) if (step := next_one - one))
    if not ended or steps.total() < _STEPS or abs(ended - told[-1]) < _DAY:
        return False
    return steps.most_common(1)[0][1] >= _ALIKE * steps.total()


def replay(lines: Sequence[str], confirm: int = 2, ended: float = 0.0) -> tuple[LogState, list[Stall]]:
    """Return the final state of a log, and the stalls that would have been reported.

    Looks are EVERY seconds apart; `confirm` bad ones in a row are a stall. Lines without a date are of the
    days before `ended`, when the log was last written to. Raise ValueError if no line has a time.
    """
    state, stalls, waiting = LogState(), list[Stall](), list[str]()
    standing: Stall | None = None
    at: float | None = None
    amid = not _are_simulated(lines, ended)
    first = _first_day(lines, ended, amid=amid)
    least = _UNDATED if first is None else first
    for line in lines:
        told = time_of(line, first if at is None else at, amid=amid)
        if at is None:
            at = told if told is None or told >= least else None
        elif told is not None and told >= at + EVERY:
            _take(state, waiting, at)
            now = _stall(state, at, told, (confirm - 1) * EVERY)
            if standing and (now is None or now.silent):
                stalls.append(replace(standing, until=at))
                standing = None
            if now and now.silent:
                stalls.append(now)
            else:
                standing = standing or now
            at = told
        waiting.append(line)
    if at is None:
        raise ValueError("no line tells when it was written")
    _take(state, waiting, at)
    return state, [*stalls, standing] if standing else stalls


def _first_day(lines: Iterable[str], ended: float, *, amid: bool) -> float | None:
    """Return the day on which lines without a date begin; None if some have a date, or none has a time."""
    at: float | None = None
    for line in lines:
        at = time_of(line, at, amid=amid)
        if at is not None and at > _UNDATED:
            return None
    return None if at is None else max((ended - at) // _DAY, 0.0) * _DAY


def _take(state: LogState, waiting: list[str], at: float) -> None:
    state.advance([(line, False) for line in waiting if line.strip()], at)
    waiting.clear()


def _stall(state: LogState, begin: float, end: float, late: float) -> Stall | None:
    """Return the stall that would have been reported by the end of a pause, or None.

    The pause lasts from `begin` to `end`; `late` is how many seconds a confirmation takes.
    """
    silence = state.silence(end)
    patience = silence.seconds + late
    if end - begin >= patience:
        said = state.templates.get(state.said)
        after = said.text if said else ""
        at = begin + patience
        return Stall(at, patience, silence.seconds, silence.reason, silent=True, after=after, until=end)
    stand = state.standstill(end)
    if stand is None or end - stand[0] < stand[1].seconds + late:
        return None
    since, limit = stand
    at = max(since + limit.seconds + late, begin)  # what only seemed to be progress may be long past
    clocks = (each for each in state.templates.values() if each.weight)
    clock = max(clocks, key=lambda each: (min(each.weight, 2.0), each.rose), default=None)
    after = clock.shown if clock else ""
    return Stall(at, at - since, limit.seconds, limit.reason, silent=False, after=after)
