"""What a run does, in one word: from its jobs, and from whether it gets on. Pure.

A check that fails says nothing of it (full memory, a loss that is none): only what declares `Progress` does.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from watchdogd.plugin import Progress

STATES = ("running", "starting", "suspended", "ending", "waiting", "hung", "gone", "none", "?")
"""`gone`: no job, and that is wrong; `none`: no job, finished or not seen yet; `?`: nobody can say, or a user
whose jobs do not count has one of its name."""
IDLE = ("starting", "suspended", "ending")
"""Why a job that has nodes does nothing there, as job_liveness counts them, the first told first."""
JOBS = "job_liveness"
"""The plugin that counts a run's jobs."""


def state_of(numbers: Mapping[str, float], *, stalled: bool, wrong: bool) -> str:
    """The word for so many jobs (`running`, `waiting`, `elsewhere`, those of IDLE), that get on or are
    `stalled`; `wrong`: something is amiss where there is none.
    """
    if placed := numbers.get("running", 0.0):
        if sum(numbers.get(why, 0.0) for why in IDLE) >= placed:
            return next(why for why in IDLE if numbers.get(why, 0.0))
        return "hung" if stalled else "running"
    if numbers.get("waiting", 0.0):
        return "waiting"
    if numbers.get("elsewhere", 0.0):
        return "?"
    return "gone" if wrong else "none"


def together(told: Iterable[Progress | None]) -> Progress | None:
    """What is said of a run's progress, in one: of those that saw it get on the one that saw it last."""
    known = [each for each in told if each]
    return max(known, key=lambda each: (not each.stalled, each.at or 0.0), default=None)


def of_checks(results: Iterable[Mapping[str, Any]]) -> str:
    """The state by what a run's checks said last, each as status.json has it; empty: nothing was said of its
    jobs yet. That it is stalled counts for nothing where a step came after that was said.
    """
    seen = list(results)
    jobs = next((each for each in seen if plugin_of(each) == JOBS and not each["subject"]), None)
    if jobs is None or jobs["status"] == "UNKNOWN":
        return "?" if jobs else ""
    numbers = {name: metric.get("value") or 0.0 for name, metric in jobs["metrics"].items()}
    told = [(each["at"], each["progress"]) for each in seen if each.get("progress")]
    step = max((_time(progress["at"]) for _, progress in told if progress["at"]), default=0.0)
    hangs = any(progress["stalled"] and _time(at) >= step for at, progress in told)
    return state_of(numbers, stalled=hangs, wrong=jobs["status"] == "CRITICAL")


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def plugin_of(result: Mapping[str, Any]) -> str:
    """The plugin that said it."""
    return str(result["check"]).rpartition("/")[2]
