"""What a check declares beside its function: what brings it, what it shows where, and what rests on it.

Plain values: they travel from the process that loads a user's plugin to the daemon, and into status.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TRIGGERS = ("on_hang", "on_spike", "on_memory", "on_disk", "on_gone")
"""The keys of a run under which its owner says what is to be done."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `status` and of the page. Results fill it by its `title` (see Result.cells).

    `right`: its cells stand to the right. `time`: they are times, in seconds since the epoch, shown as what
    has gone by `since` then, or is left `until` then. Columns stand in the `order` of their numbers.
    """

    title: str
    right: bool = False
    time: Literal["", "since", "until"] = ""
    order: int = 100


@dataclass(frozen=True, slots=True)
class Chart:
    """How the page draws a metric: a line a subject, under `title`, in `unit`, in the `group` of such charts.

    `rate`: so much divided by the metric is drawn (60 makes of seconds a step steps a minute); 0: it itself.
    `limit` is a metric that bounds it, `full_in` one of the seconds until it gets there: each subject then
    has a chart of its own, with the limit and the forecast.
    """

    metric: str
    title: str = ""
    unit: str = ""
    group: str = "More"
    rate: float = 0.0
    limit: str = ""
    full_in: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """All of it; see `watchdogd.plugin.check` for the meaning of each."""

    watches: Literal["", "run", "disk"] = ""
    needs: str = ""
    jobs: bool = False
    evidence: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    charts: tuple[Chart, ...] | None = None
    trend: str = ""

    @property
    def fault(self) -> str:
        """What is wrong with it, with the fix, or empty."""
        if self.watches not in ("", "run", "disk"):
            return f"watches='{self.watches}' is neither 'run' nor 'disk'"
        strange = next((key for key in self.triggers if key not in TRIGGERS), "")
        return f"there is no key '{strange}': write one of {', '.join(TRIGGERS)}" if strange else ""
