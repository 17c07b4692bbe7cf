"""Columns of log_staleness in `status` and on the page, from its metrics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.plugin import Metric


def of_log(metrics: Mapping[str, Metric], known: Mapping[str, Metric], now: float) -> dict[str, str | float]:
    """Return the columns: progress (also of a run that is not judged), rate, age of the log."""
    found: dict[str, str | float] = {}
    if progress := _progress(known):
        found["progress"] = progress
    if rate := _rate(metrics):
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
