"""What a run does, in one word: from its jobs, and from whether it gets on. Pure.

A check that fails says nothing of it (full memory, a loss that is none): only what declares `Progress` does.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from watchdogd.plugin import Progress


def together(told: Iterable[Progress | None]) -> Progress | None:
    """What is said of a run's progress, in one: of those that saw it get on the one that saw it last."""
    known = [each for each in told if each]
    return max(known, key=lambda each: (not each.stalled, each.at or 0.0), default=None)


def of_checks(results: Iterable[Mapping[str, Any]]) -> str:
    """The state by what a run's checks said last, each as status.json has it; empty: nothing was said of its
    jobs yet. That it is stalled counts for nothing where a step came after that was said.
    """
    seen = list(results)
    state = next((each["run_state"] for each in seen if each.get("run_state")), "")
    if state != "running":
        return str(state)
    told = [(each["at"], each["progress"]) for each in seen if each.get("progress")]
    step = max((_time(progress["at"]) for _, progress in told if progress["at"]), default=0.0)
    hangs = any(progress["stalled"] and _time(at) >= step for at, progress in told)
    return "hung" if hangs else "running"


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def plugin_of(result: Mapping[str, Any]) -> str:
    """The plugin that said it, where its run or disk brings it."""
    return str(result["check"]).rpartition("/")[2]
