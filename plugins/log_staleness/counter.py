"""Growth of a training's number across series, restarts within a job, and epochs."""

from __future__ import annotations

from dataclasses import dataclass

from watchdogd.parsers.logs.progress import ProgressReport

_SERIES = 16
_EPOCH_LINE = "epoch of a line"
_EPOCH_SHARE = 0.01
_EPOCH_START = 10.0


@dataclass(slots=True)
class Count:
    """Last number (`present`), the highest so far, and how it moved.

    Also kept: falls since the highest number, the mark of the last report, and by how much it last rose.
    """

    present: float
    record: float
    falls: int = 0
    mark: float = 0.0
    step: float = 0.0


Counter = dict[str, Count]


def grows(counter: Counter, report: ProgressReport, *, strict: bool = False) -> bool:
    """Add one report; return True if it is progress. With `strict`, only a full counter may restart.

    A number that falls is a new start, and progress too, if it restarts near 0, as an epoch or a bar does, or
    if it falls for the first time since the record: a resume starts at the last checkpoint. A number that
    falls again before it has passed the record only repeats itself, which is no progress.
    """
    series = counter.get(report.series)
    if series is None:
        while len(counter) >= _SERIES:
            counter.pop(next(iter(counter)))
        counter[report.series] = Count(report.number, report.number, mark=report.mark)
        return True
    present, record, mark = series.present, series.record, series.mark
    series.mark = report.mark
    if report.number > present:
        series.present, series.step = report.number, report.number - present
        if report.number > record:
            series.record, series.falls = report.number, 0
        return True
    if report.number == present:
        return report.mark != mark
    anew = report.total is not None and present + series.step >= report.total
    anew = anew or (not strict and report.number <= max(_EPOCH_START, _EPOCH_SHARE * record) < record)
    if not anew and (series.falls or strict):
        return False
    series.present = report.number
    series.falls += not anew
    return True


def begin_epoch(counter: Counter, epoch: float) -> None:
    """Restart the count within an epoch if a line names another epoch than before."""
    known = _EPOCH_LINE in counter
    if grows(counter, ProgressReport(_EPOCH_LINE, epoch)) and known:
        for series in (each for name, each in counter.items() if name != _EPOCH_LINE):
            series.present = -1.0
