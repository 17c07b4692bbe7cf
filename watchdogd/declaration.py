"""Declarations of a check beside its function: what brings it, what it shows where, and what rests on it.

They are plain values, which travel from the process that loads a user's plugin to the daemon, and into
status.json.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from itertools import repeat
from typing import Literal

TRIGGERS = ("on_hang", "on_spike", "on_memory", "on_disk", "on_gone", "on_crash_loop")
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
    """A chart of the page for a metric: a line a subject, under `title`, in `unit`, in its `group`.

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
    """Everything that a check declares; see `watchdogd.plugin.check` for the meaning of each."""

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
        """The first wrong thing in it, in a line that says what to write; or empty."""
        for name in ("evidence", "triggers"):
            if isinstance(getattr(self, name), str):
                return f"{name} is one word: write {name}=('{getattr(self, name)}',)"
        if self.watches not in ("", "run", "disk"):
            return f"watches='{self.watches}' is neither 'run' nor 'disk'"
        strange = next((key for key in self.triggers if key not in TRIGGERS), "")
        if strange:
            return f"there is no key '{strange}': write one of {', '.join(TRIGGERS)}"
        return next(filter(None, map(_misshapen, self.columns, repeat(Column))), "") or next(
            filter(None, map(_misshapen, self.charts or (), repeat(Chart))), ""
        )


def _misshapen(value: object, wanted: type[Column | Chart]) -> str:
    """Return what is wrong with one column or chart, or empty: others would meet it in status.json."""
    if not isinstance(value, wanted):
        return f"{value!r} is no {wanted.__name__}: write {wanted.__name__}({value!r})"
    for field in fields(value):
        kind = str if field.default is MISSING else type(field.default)
        found = getattr(value, field.name)
        if not isinstance(found, (int, float) if kind is float else kind):
            return f"{field.name}={found!r} of a {wanted.__name__} is no {kind.__name__}"
    if isinstance(value, Column) and value.time not in ("", "since", "until"):
        return f"time='{value.time}' of a Column is neither 'since' nor 'until'"
    return ""
