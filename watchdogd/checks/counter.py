"""Whether a training's number grows, over all its series, restarts inside a job, and new epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdogd.readers.trainlog import Report

_SERIES = 16
_EPOCH_SHARE = 0.01
_EPOCH_START = 10.0

Counter = dict[str, list[float]]
"""Of each series: [present number, record, falls since the record, mark of the last report]."""


def advance(counter: Counter, report: Report) -> bool:
    """Take one report in; True where it is progress.

    A number that falls is a new start (progress too) where it begins anew near 0, as an epoch or a bar does,
    or for the first time since the last record: a resume starts at the last checkpoint. What falls again
    before it has passed the record repeats itself, and that is none.
    """
    series = counter.get(report.series)
    if series is None:
        while len(counter) >= _SERIES:
            counter.pop(next(iter(counter)))
        counter[report.series] = [report.number, report.number, 0, report.mark]
        return True
    present, record, falls, mark = series
    series[3] = report.mark
    if report.number > present:
        series[0] = report.number
        if report.number > record:
            series[1:3] = [report.number, 0]
        return True
    if report.number == present:
        return report.mark != mark
    anew = _anew(report, present, record)
    if not anew and falls:
        return False
    series[0], series[2] = report.number, falls if anew else falls + 1
    return True


def _anew(report: Report, present: float, record: float) -> bool:
    """Whether it begins again, as an epoch does, or a bar that was full."""
    full = report.total is not None and present >= report.total
    return full or report.number <= max(_EPOCH_START, _EPOCH_SHARE * record) < record
