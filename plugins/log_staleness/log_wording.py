"""What is known of a run's log, in words and metrics for messages, and in the columns of `status`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.batch.run_models import WEAK
from watchdogd.checks import causes
from watchdogd.parsers.logs import progress
from watchdogd.plugin import Metric, Progress, Suspect
from watchdogd.system.number import count
from watchdogd.units import local_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.plugin import Metric
    from watchdogd.plugins.log_staleness.run_log import LastStep, RunLog


def columns(
    metrics: Mapping[str, Metric], known: Mapping[str, Metric], now: float, *, stalled: bool
) -> dict[str, str | float]:
    """Return the columns: progress (also if it is not judged), rate (unless stalled), age of the log."""
    found: dict[str, str | float] = {}
    if progress := _progress(known):
        found["progress"] = progress
    if (rate := _rate(metrics)) and not stalled:
        found["rate"] = rate
    if "age" in metrics:
        found["log"] = now - metrics["age"].value
    return found


def _progress(metrics: Mapping[str, Metric]) -> str:
    if "progress" in metrics:
        done = metrics["progress"].value
        total = metrics["total"].value if "total" in metrics else 0.0
        return f"{done:,.10g}" + (f"/{total:,.10g} {100 * done / total:.0f}%" if total else "")
    if "epoch" in metrics and "batch" in metrics:
        return f"epoch {metrics['epoch'].value:.0f}, batch {metrics['batch'].value:.0f}"
    return ""


def _rate(metrics: Mapping[str, Metric]) -> str:
    seconds = metrics["iteration_time"].value if "iteration_time" in metrics else 0.0
    if seconds <= 0:
        return ""
    number, unit = (seconds, "s/it") if seconds >= 1 else (1 / seconds, "it/s")
    return f"{number:.{1 if number < 10 else 0}f} {unit}"


LINE = 300
"""Characters of the last line that are shown."""
SLACK = 300.0
"""Seconds before the last progress: a rank that fell silent earlier had nothing more to say, as after a
start."""


def cause(log: RunLog) -> str:
    """Return the cause, with the node to exclude or the core file to look at, if known."""
    if log.told.cause is None:
        return ""
    known, core, peer = log.told.cause.cause, log.told.cause.core, log.told.peer
    node = peer.node if known.peer and peer and peer.address == known.peer else ""
    return causes.words(known, node, core)


def number(step: LastStep) -> str:
    """Return the last number in words: `iteration 12/90`."""
    return progress.words(step.series, step.number, step.total)


def how_far(log: RunLog) -> Progress:
    """Return how far the run is, in numbers, and its last line."""
    step, said = log.told.step, log.files.tail[-1][:LINE] if log.files.tail else ""
    if step is None or progress.in_epoch(step.series, step.number):
        return Progress(said=said)
    return Progress(
        done=step.number, total=step.total, unit=progress.unit(step.series), pace=step.seconds, said=said
    )


def numbers(log: RunLog) -> dict[str, Metric]:
    """Return progress, seconds per iteration and loss as metrics."""
    found: dict[str, Metric] = {}
    step, loss = log.told.step, log.told.loss
    if step:
        parts = progress.in_epoch(step.series, step.number)
        named = zip(("epoch", "batch"), parts, strict=True) if parts else (("progress", step.number),)
        found.update((name, Metric(value)) for name, value in named)
        if step.total:
            found["total"] = Metric(step.total)
        if step.seconds:
            found["iteration_time"] = Metric(step.seconds, "s")
    if loss and loss.good is not None and not loss.bad:
        found["loss"] = Metric(loss.good)
    return found


def evidence(log: RunLog) -> str:
    """Return the last lines of the log."""
    tail = log.files.tail
    return "last lines of the log:\n" + "\n".join(tail) if tail else ""


def first_to_stop(log: RunLog, begin: float) -> str:
    """Return who fell silent before all others in this job, which works since `begin`; or empty."""
    moved = log.told.step.at if log.told.step else 0.0
    first = _first_file(log, max(begin, moved - SLACK))
    if first or not (rank := _first_rank(log, moved - SLACK)):
        return first
    name, of, number = rank
    at = "" if number is None else f", at {_at(log, number)}"
    return f"the first to stop of {of} was {f'rank {name}' if name.isdecimal() else name}{at}"


def silent_rank(log: RunLog) -> tuple[Suspect, ...]:
    """Return who fell silent first as a suspect, if its rank is known."""
    rank = _first_rank(log, (log.told.step.at if log.told.step else 0.0) - SLACK)
    if rank is None or (number := count(rank[0])) is None:
        return ()
    return (Suspect("log", f"was the first of {rank[1]} ranks to write no more", WEAK, number),)


def _first_file(log: RunLog, since: float) -> str:
    """Return which file stopped first, if there is a log for each node or rank."""
    places = [place for place in log.files.places.values() if place.grown_at >= since]
    if len(places) < 2:
        return ""
    first, second = sorted(places, key=lambda place: place.grown_at)[:2]
    if second.grown_at - first.grown_at < 1.0:
        return ""
    return f"the first to stop of {len(places)} was {first.path} at {local_time(first.grown_at)}"


def _first_rank(log: RunLog, since: float) -> tuple[str, int, float | None] | None:
    """Return the rank that stopped first, of ranks that share a log: its name, of how many, its number.

    It is found by the numbers that the ranks report, if all do; else it is the rank after whose last line
    every other rank wrote at least two more. A name such as `node1:3` stays as it is.
    """
    ranks = {name: seen for name, seen in log.told.ranks.items() if seen.at >= since and seen.before}
    if len(ranks) < 2:
        return None
    numbers = sorted((seen.number, name) for name, seen in ranks.items() if seen.number is not None)
    if len(numbers) == len(ranks):
        (least, first), (next_one, _) = numbers[:2]
        return (_bare(first), len(ranks), least) if least < next_one else None
    first, seen = min(ranks.items(), key=lambda item: item[1].line)
    if all(other.before > seen.line for name, other in ranks.items() if name != first):
        return _bare(first), len(ranks), None
    return None


def _bare(rank: str) -> str:
    """Return 3 for `3`, `rank3` and `Rank 3`."""
    return rank.removeprefix("rank").removeprefix("Rank ")


def _at(log: RunLog, number: float) -> str:
    """Return a rank's number as in the log."""
    series = log.told.step.series if log.told.step else ""
    return progress.words(series, number) if progress.in_epoch(series, number) else f"{number:,.10g}"
