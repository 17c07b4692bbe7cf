"""What is said of a training's loss, its pace and its skipped iterations. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdogd.checks.level import WINDOW, rise
from watchdogd.plugin import Metric, Result, critical, ok, warning
from watchdogd.units import iso

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BAD_LOSSES = 3
"""Reports in a row with a loss that is no number, before it counts as staying so."""
RESUMED = 10
"""Reports after a resume that are enough to compare with the level before it."""
SLOW = 0.5
"""An iteration that takes this much longer than at best is told."""
SKIPPED = 10
"""Of the last 20 progress reports, with skipped iterations; the first 50 look for the loss scale."""
SUBJECTS = {"loss": "loss", "pace": "throughput", "skips": "skipped"}
"""What is judged here, by where it is remembered."""


def loss(memory: Mapping[str, Any], number: str, evidence: str) -> Iterator[Result]:
    """A loss that stays NaN or infinite trains nothing any more. `number`: how far the training is."""
    state = memory.get("loss")
    lost = memory["clocks"].lost if "clocks" in memory else None
    if lost and not (state and state["bad"] >= BAD_LOSSES):
        yield warning(  # it may be another measure than the loss
            f"what was a number is NaN or infinite, {lost.lost} times in a row: '{lost.text}'",
            subject="loss",
            details=evidence,
        ).triggers("on_spike")
        return
    if not state:
        return
    if state["bad"] < BAD_LOSSES:
        yield _risen(memory, evidence) or ok(
            f"loss {state['good']:g}" if state["good"] is not None else "no loss yet", subject="loss"
        )
        return
    before = f", it was {state['good']:g} before" if state["good"] is not None else ""
    where = f" at {number}" if number else ""
    yield critical(
        f"loss is {state['word']} since {iso(state['since'])}, {state['bad']} times in a row{where}{before}",
        subject="loss",
        details=evidence,
    ).triggers("on_spike")


def _risen(memory: Mapping[str, Any], evidence: str) -> Result | None:
    """A loss that left its band upwards and stays out, or has crept up."""
    state, losses = memory.get("level", {}), memory.get("losses", 0)
    found = rise(state, least=RESUMED)
    if not found:
        return None
    resumed = " since this job resumed" if losses < 2 * WINDOW and memory.get("resumed") else ""
    last = f"{found.level:.4g} in the last {len(state['window'])} reports"
    return warning(
        f"loss has risen and stays up{resumed}: {last}, it was down at {found.best:.4g}",
        subject="loss",
        details=evidence,
        loss=Metric(found.level),
    ).triggers("on_spike")


def pace(memory: Mapping[str, Any]) -> Iterator[Result]:
    """Throughput against the run's own best, and iterations that count for nothing."""
    if "pace" in memory:
        found = rise(memory["pace"], SLOW)
        if found:
            slower = f"{100 * (found.level / found.best - 1):.0f} % longer than at best"
            unit = memory["pace"].get("series", "").rpartition(" ")[2]
            what = "an iteration" if unit != "token" else "a token"
            yield warning(f"slow: {what} takes {slower} for the same work", subject="throughput")
        else:
            yield ok("iterations take as long as they did", subject="throughput")
    if "skips" in memory:
        skips = memory["skips"]
        storm = sum(skips["last"])
        if skips["seen"] >= 50 and storm >= SKIPPED:
            text = f"{storm} of the last {len(skips['last'])} reports skipped iterations: gradients overflow"
            yield warning(text, subject="skipped")
        else:
            yield ok("few iterations are skipped", subject="skipped")
