"""Outlook of a run: how far it is, when it will be done, what it lost. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from watchdogd.units import LONGEST, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from watchdogd.plugin import Status
    from watchdogd.web.timeline import Points, Span

WEEK = 7 * 86400.0
LOST = ("hung", "gone")
"""States in which a run loses time, since it should train and does not."""
_WINDOWS = (3600.0, 6 * 3600.0, 86400.0, WEEK)
"""Periods (seconds until now) over which a run's pace is measured; the day's is shown."""
_DAY = 86400.0
_SAME = 0.05
"""Forecasts that differ by less than this share of the remaining time are given as one."""


class Eta(NamedTuple):
    """Seconds until the last step: as the last day went, and by the quickest and the slowest pace of late."""

    left: float
    soonest: float
    latest: float

    @property
    def spread(self) -> str:
        """Return `6h30m to 7h20m`; empty if the paces agree."""
        if self.latest - self.soonest <= _SAME * self.left:
            return ""
        return f"{coarse(self.soonest)} to {coarse(self.latest)}"


@dataclass(frozen=True, slots=True)
class HowFar:
    """Progress of a run: `done` of `total` in `unit`, `pace` seconds for each, and when it will be done.

    None: not known. `said` is the last line of its log.
    """

    done: float | None = None
    total: float | None = None
    unit: str = ""
    pace: float | None = None
    eta: Eta | None = None
    said: str = ""

    @property
    def share(self) -> float | None:
        """Share that is done, from 0 to 1."""
        if self.done is None or not self.total:
            return None
        return min(max(self.done / self.total, 0.0), 1.0)

    @property
    def units(self) -> str:
        """Return the word for what is counted, plural unless it is one."""
        return (self.unit or "step") if (self.total or self.done) == 1 else self._many

    @property
    def _many(self) -> str:
        return (
            f"{self.unit}{'es' if self.unit.endswith(('tch', 's', 'x')) else 's'}" if self.unit else "steps"
        )

    @property
    def speed(self) -> str:
        """Return the pace as people say it: `2.4 s/iteration`, `12 iterations/s`."""
        if not self.pace or self.pace <= 0:
            return ""
        unit = self.unit or "step"
        slow = self.pace >= 1
        number = self.pace if slow else 1 / self.pace
        shown = f"{number:,.{1 if number < 10 else 0}f}"
        return f"{shown} s/{unit}" if slow else f"{shown} {self._many}/s"


def how_far(progress: Iterable[Mapping[str, Any]], points: Points, *, moves: bool) -> HowFar:
    """Return how far a run is by its checks' last results (as in status.json).

    `points` are (time, number done), oldest first. A run that stands still has no forecast.
    """
    told = sorted(progress, key=lambda each: ("done" in each, "said" in each), reverse=True)
    if not told:
        return HowFar()
    said = next((str(each["said"]) for each in told if each.get("said")), "")
    first = told[0]
    done, total, own = (first.get(name) for name in ("done", "total", "pace"))
    paces = dict(_paces(points))
    usual = next((paces[window] for window in (_DAY, *reversed(_WINDOWS[:2]), WEEK) if window in paces), own)
    eta = None
    if moves and total and done is not None and usual:
        left, known = max(total - done, 0.0), [*paces.values(), *([own] if own else [])]
        eta = Eta(left * usual, left * min(known), left * max(known))
        eta = eta if left and eta.latest < LONGEST else None  # what is over, or in no calendar
    return HowFar(done, total, str(first.get("unit", "")), own or usual, eta, said)


def _paces(points: Points) -> Iterator[tuple[float, float]]:
    """Yield the seconds for a step in each window of which at least half is known."""
    if not points:
        return
    end, number = points[-1]
    for window in _WINDOWS:
        at, before = next(point for point in points if point[0] >= end - window)
        if end - at >= window / 2 and number > before:
            yield window, (end - at) / (number - before)


def lost(spans: Sequence[Span], now: float) -> float:
    """Return how many seconds of the last week it should have trained and did not."""
    begin = now - WEEK
    return sum(max(min(span.end, now) - max(span.begin, begin), 0.0) for span in spans if span.state in LOST)


def coarse(seconds: float) -> str:
    """Return a duration rounded for people: no seconds from a minute on, then no minutes, then no hours."""
    units = ((10 * _DAY, _DAY), (2 * _DAY, 3600), (60, 60), (0, 1))
    unit = next(unit for least, unit in units if seconds >= least)
    return format_duration(round(seconds / unit) * unit)


_ORDER = (
    ("running", "train"), ("doubtful", "uncertain"), ("hung", "stalled"), ("gone", "gone"),
    ("failing", "failing"), ("diverged", "diverged"),
    ("starting", "starting"), ("waiting", "waiting"), ("suspended", "suspended"), ("ending", "ending"),
    ("finished", "finished"),
    ("absent", "not running"), ("none", "not running"), ("?", "unknown"), ("unwatched", "unwatched"),
)  # fmt: skip


def headline(states: Sequence[str], others: Sequence[Status] = ()) -> str:
    """Return `2 of 4 runs train, 1 stalled, 1 gone; 1 CRITICAL open`.

    `others`: statuses of the open incidents of which the states of the runs do not speak.
    """
    counts = {status: others.count(status) for status in sorted(set(others), key=lambda each: -each.severity)}
    found = ", ".join(f"{count} {status.name}" for status, count in counts.items())
    return f"{_states(states)}; {found} open" if found else _states(states)


def _states(states: Sequence[str]) -> str:
    if not states:
        return "No run is watched"
    counts: dict[str, int] = {}
    for state, word in _ORDER:
        counts[word] = counts.get(word, 0) + states.count(state)
    whole, train = len(states), counts.pop("train")
    others = [f"{count} {word}" for word, count in counts.items() if count]
    if whole == 1:
        return "The run trains" if train else f"The run is {dict(_ORDER)[states[0]]}"
    if train == whole:
        return f"All {whole} runs train"
    return ", ".join([f"{train or 'None'} of {whole} runs train{'s' if train == 1 else ''}", *others])
