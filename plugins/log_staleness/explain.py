"""Explanation, for people, of what the verdict on a log rests on; also for a log never watched before."""

from __future__ import annotations

from collections.abc import Iterator

from watchdogd.parsers.logs import log_files, structured_files
from watchdogd.plugin import Sign, Strength
from watchdogd.plugins.log_staleness.learned_rhythm import BEAT, OWN, LogState
from watchdogd.plugins.log_staleness.line_templates import Template
from watchdogd.plugins.log_staleness.run_log import RunLog
from watchdogd.units import format_duration, local_time

SHOWN = 8
"""How many clocks, and how many ignored numbers, are named."""
_NAMED = {BEAT: "step of the Guard's heartbeat", OWN: "what `progress` finds"}

_WORTH = {
    Strength.STRONG: "for work",
    Strength.WEAK: "weakly for work",
    Strength.AGAINST: "against work",
}


def explain(log: RunLog, now: float) -> Iterator[str]:
    """Yield lines on the clocks that were found, the limits and their sources, and what is ignored.

    `log` is the state of log_staleness, `now` in seconds since 1970.
    """
    state = log.clocks
    if not state.templates:
        yield "nothing was read yet: no line of the log, no heartbeat"
        return
    if not state.wrote:
        yield "the job that runs now has written nothing yet"
    count = len(state.templates)
    known = f"lines of {count} forms are" if count > 1 else "lines of one form are"
    yield f"{known} known, the last written at {local_time(state.wrote)}"
    yield from _clocks(state)
    yield from _progress(state, now)
    if log.stale_after is None:
        yield from _limits(state, now)
    else:
        limit = _rounded(log.stale_after)
        yield f"silence, or lines without progress, are reported after {limit} (stale_after)"
    yield from map(_sign, log.signs)
    if log.told.cause:
        yield f"taken for a cause: {log.told.cause.cause.sentence}"


def _sign(sign: Sign) -> str:
    at, since = local_time(sign.at), local_time(sign.since)
    return f"sign {_WORTH[sign.strength]}: {sign.what}, at {at}, so since {since}"


def _clocks(state: LogState) -> Iterator[str]:
    clocks = sorted(
        ((each.weight, key, each) for key, each in state.templates.items() if each.weight),
        key=lambda item: (-item[0], -item[2].rose),
    )
    least = min(state.weight, 2.0, clocks[0][0]) if clocks else 0.0
    for weight, key, each in clocks[:SHOWN]:
        verdict = "counts as progress" if weight >= least else "passed over"
        why = _why(weight) if each.clocks else "a loss that changes beside it, no count"
        yield f"{verdict}: {_place(key, each)} ({why})"
    if not clocks:
        yield "nothing counts as progress yet: no number in it rises again and again"
    passed = (each for each in state.templates.values() if not each.weight)
    timed = [each for each in passed if any(number.wall and not number.time for number in each.numbers)]
    for each in timed[:SHOWN]:
        yield f"passed over: '{each.text}' (a number of it goes as time does)"


def _place(key: int, each: Template) -> str:
    if key not in _NAMED:
        return repr(each.shown)
    values = [f"{each.numbers[position].last:,.10g}" for position in each.clocks]
    return f"{_NAMED[key]} at {', '.join(values)}"


def _why(weight: float) -> str:
    if weight >= 3:
        return "its name, or a loss beside it, says that it is the training's step"
    if weight >= 2:
        return "a total, or measurements, stand beside it"
    if weight >= 1:
        return "it counts up, and nothing else is known of it"
    return "it counts as regularly as something that waits"


def _progress(state: LogState, now: float) -> Iterator[str]:
    if not state.moved:
        yield "no progress was seen in this job yet"
        return
    last = state.progressed
    ago = format_duration(round(max(now - last, 0)))
    counted = any(each.weight for each in state.templates.values())
    what = "progress" if counted else "change of a measurement, as nothing counts up"
    yield f"last {what}: {ago} ago, at {local_time(last)}"
    if state.until:
        until = local_time(state.until)
        yield f"what rises may be of something that only waits or looks on: it is no progress after {until}"
    pauses = [gap for _, gap in state.pauses]
    if pauses:
        yield f"longest times without progress: {', '.join(map(_rounded, pauses))}"
    for each in [each for each in state.templates.values() if each.stood][:SHOWN]:
        stood = ", ".join(_rounded(gap) for _, gap in each.stood[:3])
        yield f"such times that began with '{each.text}', which allows them again: {stood}"


def _limits(state: LogState, now: float) -> Iterator[str]:
    silence = state.silence(now)
    said = state.templates.get(state.said)
    after = f" after {_line(said.text)}" if said and said.text else ""
    known = [_rounded(gap) for _, gap in said.after[:3]] if said else []
    past = f"; such lines were followed by silences of {', '.join(known)}" if known else ""
    yield f"silence{after} is reported after {_rounded(silence.seconds)} ({silence.reason}{past})"
    stand = state.standstill(now)
    if stand is None:
        yield "lines without progress are not judged yet: the last ones have a form that is new"
        return
    since, limit = stand
    at = local_time(since + limit.seconds)
    yield f"lines without progress are reported at {at}: {_rounded(limit.seconds)} ({limit.reason})"


def _line(text: str) -> str:
    return f"'{text}'" if any(each.isalpha() for each in text) else "a line without words"


def _rounded(seconds: float) -> str:
    return format_duration(round(seconds))


def first_look(log: str, now: float) -> Iterator[str]:
    """Return lines on the clocks at the end of the newest file that matches `log`.

    None if no file matches. Raise OSError if it cannot be read.
    """
    for file in log_files.find(log)[:1]:
        data = log_files.read(file.path, *log_files.unread(file, None, first=True))
        state = LogState()
        state.advance(
            [(line.text, line.open) for line in structured_files.read(file.path, data)[0]],
            min(file.mtime, now),
        )
        yield from explain(RunLog(state), now)
