"""Whether a training's number grows, over all its series, restarts inside a job, and new epochs."""

from __future__ import annotations

from watchdogd.readers.trainlog import Report

_SERIES = 16
_EPOCH_LINE = "epoch of a line"
_EPOCH_SHARE = 0.01
_EPOCH_START = 10.0

Counter = dict[str, list[float]]
"""Of each series: [present number, record, falls since the record, mark of the last report, last step up]."""


def advance(counter: Counter, report: Report, *, strict: bool = False) -> bool:
    """Take one report in; True where it is progress. `strict`: it begins anew only where it was full.

    A number that falls is a new start (progress too) where it begins anew near 0, as an epoch or a bar does,
    or for the first time since the last record: a resume starts at the last checkpoint. What falls again
    before it has passed the record repeats itself, and that is none.
    """
    series = counter.get(report.series)
    if series is None:
        while len(counter) >= _SERIES:
            counter.pop(next(iter(counter)))
        counter[report.series] = [report.number, report.number, 0, report.mark, 0]
        return True
    present, record, falls, mark, *before = series  # an earlier version kept no step
    series[3] = report.mark
    if report.number > present:
        series[0], series[4:] = report.number, [report.number - present]
        if report.number > record:
            series[1:3] = [report.number, 0]
        return True
    if report.number == present:
        return report.mark != mark
    anew = _full(report, present, step=before[0] if before else 0)
    anew = anew or (not strict and report.number <= max(_EPOCH_START, _EPOCH_SHARE * record) < record)
    if not anew and (falls or strict):
        return False
    series[0], series[2] = report.number, falls if anew else falls + 1
    return True


def begin_epoch(counter: Counter, epoch: float) -> None:
    """A line names an epoch: where that is another one than before, what is counted in it begins anew."""
    known = _EPOCH_LINE in counter
    if advance(counter, Report(_EPOCH_LINE, epoch)) and known:
        for series in (each for name, each in counter.items() if name != _EPOCH_LINE):
            series[0] = -1.0


def _full(report: Report, present: float, step: float) -> bool:
    """Whether it begins again after it was full: one more step had no room in it."""
    return report.total is not None and present + step >= report.total
