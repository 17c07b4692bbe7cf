"""Several homes on one page: the state of each, what is open there, and a link to its own page."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watchdogd.batch.run_models import run_state
from watchdogd.web.columns import STATE_WORDS
from watchdogd.web.render import LIVE_EVERY, assets, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class HomeRow:
    """One home.

    `open`: incidents as in status.json. `runs`: names with states. `link` leads to its page, unless `page` is
    included. `trouble`: why nothing is known of it, or empty.
    """

    name: str
    path: str
    alive: bool = False
    open: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[tuple[str, str], ...] = ()
    link: str = ""
    page: str = ""
    trouble: str = ""


def row_of(name: str, path: str, status: Mapping[str, Any], *, link: str = "", page: str = "") -> HomeRow:
    """Return the row of a home from its `status --json`."""
    results: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in status["checks"]:
        if result["run"]:
            results[result["run"]].append(result)
    runs = tuple((run, run_state(found) or "?") for run, found in results.items())
    return HomeRow(name, path, bool(status["alive"]), tuple(status["incidents"]), runs, link, page)


def render_homes(rows: Sequence[HomeRow], at: float, *, live: bool = False) -> str:
    """Render all homes, the worst first; `live`: the page reloads itself."""
    ordered = sorted(rows, key=lambda row: (row.alive and not row.trouble, not row.open))
    return environment().get_template("homes.html.j2").render(
        rows=ordered, at=at, live_every=LIVE_EVERY if live else 0, words=STATE_WORDS, assets=assets()
    )  # fmt: skip
