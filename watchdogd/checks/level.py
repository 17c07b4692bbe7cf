"""Whether a series that should fall or stay (loss, time of an iteration) has risen and stays risen."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import Any

WINDOW = 24
"""Values whose median is the present level: half as many can go astray without moving it."""
_SHARE, _NOISE = 0.05, 2.0
_AGE = 5000
"""Values after which the lowest level is forgotten: what has lasted so long is how it is."""

State = dict[str, Any]
"""`window`: the last values; `best`: the lowest level so far; `noise`: the usual step between values there;
`age`: values since then."""


@dataclass(frozen=True, slots=True)
class Rise:
    """The present level is well above the lowest one."""

    level: float
    best: float


def take(state: State, value: float) -> State:
    """The state with one more value."""
    window = [*state.get("window", ())[1 - WINDOW :], value]
    best, noise, age = state.get("best"), state.get("noise", 0.0), state.get("age", 0)
    if len(window) == WINDOW:
        level = _middle(window)
        if best is None or level < best or age > _AGE:
            steps = [abs(after - before) for before, after in itertools.pairwise(window)]
            return {"window": window, "best": level, "noise": statistics.median(steps), "age": 0}
    return {"window": window, "best": best, "noise": noise, "age": age + 1}


def _middle(window: list[float]) -> float:
    """The median of a whole window; `statistics.median` takes four times as long, for each line of a log."""
    ordered = sorted(window)
    return (ordered[WINDOW // 2 - 1] + ordered[WINDOW // 2]) / 2


def renew(state: State) -> State:
    """The state for a new job: its own level has to show first, the lowest one is kept for comparison."""
    return {**state, "window": []}


def rise(state: State, share: float = _SHARE, *, least: int = WINDOW) -> Rise | None:
    """The rise, or None: by `share` of the best level at least, and by twice the usual step.

    `least` values have to be there: after `renew` fewer than a window may be enough.

    A spike that comes back within half a window does not move the median; drops are no rise. Where the values
    lie about zero, or jump by as much as they are, there is no level that they could leave.
    """
    window, best = state.get("window", ()), state.get("best")
    if best is None or len(window) < least:
        return None
    level = statistics.median(window)
    if level * best <= 0 or state["noise"] > 0.5 * abs(best):
        return None
    if level - best <= max(share * abs(best), _NOISE * state["noise"]):
        return None
    return Rise(level, best)
