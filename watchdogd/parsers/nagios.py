"""Output of programs that speak the Nagios plugin API, as a Result.

Format: Monitoring Plugins Development Guidelines (exit codes, ranges, perfdata) and Nagios Core's plugin API
(long output; perfdata after a bar on the first line, and again from the next bar on to the end).
"""

from __future__ import annotations

import contextlib
import math
import re
import signal
from dataclasses import dataclass

from watchdogd.plugin import Metric, Result, Status, unknown
from watchdogd.system.number import real
from watchdogd.system.text import split_lines

METRICS_LIMIT = 500
LABEL_LIMIT = 120
"""How many metrics of one execution are kept, and how many characters of each label."""

_ITEM = re.compile(r"\s*('(?:[^']|''){1,200}'|[^\s'=][^\s=]*)=(\S*)")
_WORD = re.compile(r"\s*\S+|\s+")
_VALUE = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)([^\d;.,]{0,16})")
_RANGE = re.compile(r"@?(?:(~|[^:~]*):)?([^:]*)")
_COLOUR = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_BYTES = {
    f"{prefix}{binary}b": float((1024 if binary else 1000) ** power)
    for power, prefix in enumerate("kmgtpe", start=1)
    for binary in ("", "i")
}
"""Prefixes as Icinga reads them: kB, MB in powers of 1000, KiB, MiB in powers of 1024."""


@dataclass(frozen=True, slots=True)
class Range:
    """A threshold range: a value outside of `start` to `end` alerts (one inside, if written with `@`)."""

    start: float
    end: float

    def bound(self, value: float) -> float | None:
        """Return the end of the range nearest to `value`; None if both ends are infinite."""
        ends = [end for end in (self.start, self.end) if math.isfinite(end)]
        if self.start == 0 < self.end < math.inf and value >= 0:
            ends = [self.end]  # a plain `20` means 0:20
        return min(ends, key=lambda end: abs(end - value), default=None)


def read(exit_code: int, output: str, errors: str = "") -> Result:
    """Return the result of one execution; `exit_code` as in subprocess (negative: killed by a signal).

    An exit code above 3 or a signal gives UNKNOWN. A program that prints nothing, such as a script written
    for cron, is judged by its exit code alone, as Nagios does.
    """
    text, long_text, perfdata = _parts(output)
    details = "\n".join(filter(None, [long_text, errors.strip()]))
    said = text or (split_lines(long_text) or [""])[0].strip()
    if exit_code < 0:
        return unknown(f"was killed by {_signal_name(-exit_code)}{_quoted(said, errors)}", details=details)
    if exit_code > Status.UNKNOWN:
        problem = f"ended with exit code {exit_code}, not a valid status (0 to 3)"
        return unknown(problem + _quoted(said, errors), details=details)
    measured = metrics(perfdata)
    if not said and not measured:
        problem = f"printed nothing and ended with exit code {exit_code}"
        return Result(Status(exit_code), problem + _quoted("", errors), {}, details)
    word = re.match(rf"{Status(exit_code).name}(?::| -) +(?=\S)", said)  # the status is printed anyway
    summary = said[word.end() if word else 0 :] or f"{len(measured)} numbers and no words"
    return Result(Status(exit_code), summary, measured, details)


def metrics(perfdata: str) -> dict[str, Metric]:
    """Parse perfdata: `'label'=value[unit];[warn];[crit];[min];[max] ...`.

    Items that cannot be parsed, and those with the value `U` (unknown), are left out.
    """
    found: dict[str, Metric] = {}
    place = 0
    while place < len(perfdata) and len(found) < METRICS_LIMIT:
        item = _ITEM.match(perfdata, place)
        part = item or _WORD.match(perfdata, place)
        place = part.end() if part else len(perfdata)
        metric = _metric(item[2]) if item else None
        label = _label(item[1]) if item else ""
        if metric is not None and label:
            found.setdefault(label, metric)
    return found


def read_range(text: str) -> Range | None:
    """Parse a range: `20`, `10:20`, `10:`, `~:20` or `@10:20`. Return None if it is not one."""
    match = _RANGE.fullmatch(text.strip())
    if not text.strip() or match is None:
        return None
    start = _bound(match[1], {"~": -math.inf, "": 0.0})
    end = _bound(match[2], {"": math.inf})
    if start is None or end is None or start > end or (math.isinf(start) and math.isinf(end)):
        return None
    return Range(start, end)


def _parts(output: str) -> tuple[str, str, str]:
    """Split an output into the text of its first line, the long text, and all perfdata."""
    first, _, rest = output.strip().partition("\n")
    text, _, perfdata = first.partition("|")
    long_text, _, more = rest.partition("|")
    return _one_line(text), long_text.strip(), f"{perfdata} {more}".strip()


def _metric(text: str) -> Metric | None:
    value, *bounds = text.split(";")
    match = _VALUE.fullmatch(value)
    if match is None:
        return None
    unit, factor = _unit(match[2])
    number = float(match[1])
    if not math.isfinite(number * factor):
        return None
    warn, crit = (_threshold(bound, number, factor) for bound in (*bounds, "", "")[:2])
    return Metric(number * factor, unit, warn, crit)


def _threshold(text: str, value: float, factor: float) -> float | None:
    found = read_range(text)
    bound = found.bound(value) if found else None
    return None if bound is None else real(bound * factor)


def _unit(text: str) -> tuple[str, float]:
    """Return the unit used in history, and the factor that converts a value to it."""
    if text in _SECONDS:
        return "s", _SECONDS[text]
    if text.lower() in _BYTES:
        return "B", _BYTES[text.lower()]
    return _one_line(text), 1.0


def _bound(text: str | None, words: dict[str, float]) -> float | None:
    if text is None:
        return 0.0
    if text in words:
        return words[text]
    return real(text)


def _label(text: str) -> str:
    bare = text[1:-1].replace("''", "'") if text.startswith("'") else text
    return _one_line(bare)[:LABEL_LIMIT]


def _quoted(said: str, errors: str) -> str:
    """Return `: ` and what the program printed (or the last line of stderr); else empty."""
    lines = [line for line in split_lines(errors) if line.strip()]
    words = said or (_one_line(lines[-1]) if lines else "")
    return f": {words}" if words else ""


def _one_line(text: str) -> str:
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in _COLOUR.sub("", text))
    return " ".join(text.split())


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
