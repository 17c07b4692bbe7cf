"""Values that the page shows, and how they are gathered from a home."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from watchdogd.batch import run_models
from watchdogd.batch.run_models import IDLE, plugin_of
from watchdogd.history.models import STALLED
from watchdogd.incidents.models import SELF
from watchdogd.plugin import Plugin, Status
from watchdogd.plugins import modules
from watchdogd.system.smallfile import read_head
from watchdogd.web.charts import DrawnChart, charts_of, declared_charts
from watchdogd.web.columns import ROUND, cells_of, columns_of
from watchdogd.web.timeline import Link, Span, links, timeline, totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from watchdogd.history.models import Gap, Measure, UserAction
    from watchdogd.history.store import Store
    from watchdogd.home.layout import Home
    from watchdogd.incidents.models import Incident
    from watchdogd.notify.notification import Notification


@dataclass(frozen=True, slots=True)
class Explanation:
    """Lines of what a check found, what it goes by, and what it passed over."""

    check: str
    lines: tuple[str, ...]


def explanations(store: Store, results: Iterable[Mapping[str, Any]], now: float) -> tuple[Explanation, ...]:
    """Return the explanations of these results' checks, where their plugins have one.

    HistoryError where what they remember cannot be read.
    """
    known = _explaining()
    checks = {result["check"]: plugin_of(result) for result in results if plugin_of(result) in known}
    return tuple(_explained(checks, known, store.memories(checks), now)) if checks else ()


def _explained(
    checks: Mapping[str, str], known: Mapping[str, Plugin], memories: Mapping[str, str], now: float
) -> Iterator[Explanation]:
    for check, text in memories.items():
        try:
            lines = known[checks[check]].explained(json.loads(text), now)
        except ValueError:
            continue  # damaged: the check begins anew
        if lines:
            yield Explanation(check, tuple(lines))


@cache
def _explaining() -> dict[str, Plugin]:
    """Our own plugins that have words for it; users' code is not run here."""
    found = [each for module in modules() for each in vars(module).values() if isinstance(each, Plugin)]
    return {plugin.name: plugin for plugin in found if plugin.explain}


SHOWN = 200
"""Incidents and messages on the page: the newest."""
MANY = 3
"""Parts of a run that are well and shown at once; more of them are folded."""
_RUNNING = ("", "running")
"""The number by which to know the check that counts a run's jobs."""
EVIDENCE_FILES, EVIDENCE_BYTES = 8, 20_000
"""Files of evidence that an incident shows, and bytes of each: the rest is in home."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run: what its checks said last, in columns too, what that rests on, and what it did over time."""

    name: str
    spans: tuple[Span, ...]
    results: tuple[Mapping[str, Any], ...]
    explained: tuple[Explanation, ...] = ()
    cells: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The run's state now, as `status` has it; `unwatched` while nobody watches."""
        last = self.spans[-1].state if self.spans else "unwatched"
        return last if last == "unwatched" else run_models.run_state(self.results) or last

    @property
    def shown(self) -> tuple[Mapping[str, Any], ...]:
        """The results that are shown at once: each check as a whole, and what is not OK."""
        return tuple(each for each in self.results if each not in self.well)

    @property
    def well(self) -> tuple[Mapping[str, Any], ...]:
        """Parts of which all is well (nodes, GPUs), where there are many."""
        parts = tuple(each for each in self.results if each["subject"] and each["status"] == "OK")
        return parts if len(parts) > MANY else ()

    @property
    def totals(self) -> dict[str, float]:
        """Seconds in each state."""
        return totals(self.spans)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The beginning of a file that was kept when an incident opened."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident with what was collected when it opened."""

    incident: Incident
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class PageContent:
    """Content of the page. `status` is what `watchdogd status --json` prints; times in seconds."""

    name: str
    at: float
    since: float
    status: Mapping[str, Any]
    runs: tuple[RunRow, ...]
    incidents: tuple[IncidentRow, ...]
    charts: tuple[DrawnChart, ...]
    messages: tuple[Notification, ...]
    gaps: tuple[Gap, ...]
    touches: tuple[UserAction, ...]
    links: tuple[Link, ...]


def gather(
    home: Home, store: Store, status: Mapping[str, Any], name: str, *, since: float, now: float
) -> PageContent:
    """Gather the page's content from `since` to `now`. HistoryError where the history cannot be read."""
    measures = store.measures(None, since)
    incidents = sorted(store.incidents(since=since), key=lambda each: each.state == "resolved")
    gaps = store.gaps(since)
    explained = explanations(store, status["checks"], now)
    series = store.series_of(list(dict.fromkeys(each.check for each in measures)), since)
    since = max(
        since, min((points[0][0] for each in series.values() for points in each.values()), default=since)
    )
    return PageContent(
        name=name,
        at=now,
        since=since,
        status=status,
        runs=tuple(
            replace(
                _run(run, status, series, incidents, gaps, since, now),
                explained=tuple(each for each in explained if each.check.startswith(f"{run}/")),
            )
            for run in _runs(status["checks"], measures)
        ),
        incidents=tuple(_row(home, incident) for incident in incidents[:SHOWN]),
        charts=tuple(_charts(measures, series, status)),
        messages=tuple(reversed(store.notifications(since=since, limit=SHOWN))),
        gaps=tuple(gaps),
        touches=tuple(reversed(store.touches(since)[-SHOWN:])),
        links=links(series.get(SELF, {}).get(("chain", "link"), ()))[:SHOWN],
    )


def _runs(checks: Iterable[Mapping[str, Any]], measures: Iterable[Measure]) -> list[str]:
    """Return the runs of the status, then those that only the history knows."""
    named = [each["run"] for each in checks] + [each.run for each in measures]
    return list(dict.fromkeys(name for name in named if name))


def _run(
    run: str,
    status: Mapping[str, Any],
    series: Mapping[str, Mapping[tuple[str, str], Any]],
    incidents: Iterable[Incident],
    gaps: Iterable[Gap],
    since: float,
    now: float,
) -> RunRow:
    mine = {check: points for check, points in series.items() if check.startswith(f"{run}/")}
    counted = next((check for check, points in mine.items() if _RUNNING in points), "")
    jobs = mine.get(counted, {})
    results = tuple(each for each in status["checks"] if each["run"] == run)
    spans = timeline(
        {kind: jobs.get(("", kind), ()) for kind in ("running", "waiting", "held", "elsewhere", *IDLE)},
        stalled=[points[key] for points in mine.values() for key in points if key[1] == STALLED],
        gone=[
            (each.opened_at, each.resolved_at or now)
            for each in incidents
            if each.check == counted and each.status is Status.CRITICAL
        ],
        gaps=[(gap.begin, gap.end) for gap in gaps],
        since=since,
        now=now,
    )
    cells = cells_of(results, columns_of(status), now, status.get("round_every") or ROUND)
    return RunRow(run, spans, results, cells=cells)


def _charts(
    measures: Iterable[Measure],
    series: Mapping[str, Mapping[tuple[str, str], Any]],
    status: Mapping[str, Any],
) -> Iterable[DrawnChart]:
    """Yield the charts of all checks; one that is no longer configured is drawn like others of its plugin."""
    runs = {each.check: each.run for each in measures}
    declared_by_name = {SELF: (), **declared_charts(status)}
    for check, points in series.items():
        target, _, plugin = check.rpartition("/")
        declared = declared_by_name.get(check, declared_by_name.get(plugin))
        yield from charts_of(check, declared, runs[check] or target or check, points)


def _row(home: Home, incident: Incident) -> IncidentRow:
    return IncidentRow(incident, tuple(_evidence(home, incident.id)))


def _evidence(home: Home, identity: int) -> Iterable[Evidence]:
    """Yield the heads of the files that were kept; what cannot be read is left out."""
    folder = home.evidence / str(identity)
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return
    for path in files[:EVIDENCE_FILES]:
        try:
            text, _ = read_head(path, EVIDENCE_BYTES)
        except OSError:
            continue
        yield Evidence(path.name, text.decode("utf-8", "replace"))
