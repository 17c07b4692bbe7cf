"""Values that the page shows, and how they are gathered from a home."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from watchdogd.batch import run_models
from watchdogd.batch.run_models import IDLE, plugin_of
from watchdogd.errors import WatchdogError
from watchdogd.history.models import STALLED
from watchdogd.incidents.models import SELF
from watchdogd.integrations.experiment_trackers import ExperimentTracker, trackers
from watchdogd.plugin import CANCELLED, DIVERGED, Plugin, Status
from watchdogd.plugins import modules
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.smallfile import open_plain, parse_json
from watchdogd.system.text import split_lines
from watchdogd.web.charts import DrawnChart, charts_of, declared_by, declared_charts
from watchdogd.web.columns import ROUND, cells_of, columns_of, doubt, in_words, shown_state, standstills
from watchdogd.web.run_forecast import HowFar, how_far, lost
from watchdogd.web.timeline import Link, Span, links, timeline, totals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from watchdogd.history.models import Gap, Measure, UserAction
    from watchdogd.history.store import Store
    from watchdogd.home.layout import Home
    from watchdogd.incidents.models import Incident
    from watchdogd.notify.notification import Message, Notification
    from watchdogd.web.timeline import Points


@dataclass(frozen=True, slots=True)
class Explanation:
    """Lines on what a check found, what its verdict rests on, and what it ignored."""

    check: str
    lines: tuple[str, ...]


def explanations(store: Store, results: Iterable[Mapping[str, Any]], now: float) -> tuple[Explanation, ...]:
    """Return the explanations for these results' checks, if their plugins have one.

    Raise HistoryError if the checks' state cannot be read.
    """
    known = _explaining()
    checks = {result["check"]: plugin_of(result) for result in results if plugin_of(result) in known}
    return tuple(_explained(checks, known, store.memories(checks), now)) if checks else ()


def _explained(
    checks: Mapping[str, str], known: Mapping[str, Plugin], memories: Mapping[str, str], now: float
) -> Iterator[Explanation]:
    for check, text in memories.items():
        try:
            lines = known[checks[check]].explained(parse_json(text), now)
        except ValueError:
            continue  # damaged: the check begins anew
        if lines:
            yield Explanation(check, tuple(lines))


@cache
def _explaining() -> dict[str, Plugin]:
    """Return our own plugins that explain themselves; users' code is not run here."""
    found = [each for module in modules() for each in vars(module).values() if isinstance(each, Plugin)]
    return {plugin.name: plugin for plugin in found if plugin.explain}


SHOWN = 60
"""How many ended incidents, messages and actions the page shows: the newest."""
MANY = 3
"""How many parts of a run that are OK are shown at once; more are folded."""
_RUNNING = ("", "running")
"""Metric by which the check that counts a run's jobs is recognised."""
_DONE = ("", "progress")
"""Metric in which a check records how far a run is."""
EVIDENCE_FILES, EVIDENCE_BYTES = 8, 4_000
"""Files of evidence shown for an incident, and bytes from the end of each; home has the rest."""
WHOLE_BYTES = 20_000
"""Largest file offered as a download in bytes, since half a document is useless."""
LOG, LAST_LINES = "log.txt", 5
"""File with the end of the log, and how many of its lines are shown beside an incident."""
WITH_EVIDENCE = 10
"""How many incidents have their evidence on the page: open ones first, then the newest."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run: its checks' last results, also in columns, their reasons, and its states over time."""

    name: str
    spans: tuple[Span, ...]
    results: tuple[Mapping[str, Any], ...]
    far: HowFar
    lost: float = 0.0
    incidents: tuple[IncidentRow, ...] = ()
    charts: tuple[DrawnChart, ...] = ()
    explained: tuple[Explanation, ...] = ()
    cells: Mapping[str, str] = field(default_factory=dict)
    gained: float | None = None
    """What `far` counts, since the beginning of the page; None: not known."""
    trackers: tuple[ExperimentTracker, ...] = ()
    doubted: Mapping[str, Any] | None = None
    """The bad result that makes it doubtful whether it gets on."""

    @property
    def state(self) -> str:
        """The run's state now, as in `status`; `unwatched` if nobody watches.

        `doubtful`, `failing` or `diverged` if it seems to run, but a check doubts its progress.
        """
        last = self.spans[-1].state if self.spans else "unwatched"
        found = last if last == "unwatched" else run_models.run_state(self.results) or last
        critical = {
            (row.incident.check, row.incident.subject)
            for row in self.open
            if row.incident.status is Status.CRITICAL
        }
        return shown_state(found, self.doubted, critical)

    @property
    def moves(self) -> bool:
        """Return whether it gets on, as far as is known."""
        return self.state in ("running", "doubtful")

    @property
    def doubt(self) -> str:
        """Reason to doubt its progress: what a check reports, and whether that is confirmed."""
        if self.doubted is None:
            return ""
        here = (self.doubted["check"], self.doubted["subject"] or "")
        opened = {(row.incident.check, row.incident.subject) for row in self.open}
        return f"{'' if here in opened else 'not confirmed yet: '}{self.doubted['summary']}"

    @property
    def open(self) -> tuple[IncidentRow, ...]:
        """The open incidents about it."""
        return tuple(row for row in self.incidents if row.incident.resolved_at is None)

    @property
    def behind_state(self) -> tuple[IncidentRow, ...]:
        """The open incidents that its state tells of: of the checks by which it does not get on."""
        if self.state == "running":
            return ()
        telling = {
            (each["check"], each["subject"] or "")
            for each in self.results
            if each["status"] != "OK"
            and (each.get("run_state") or (each.get("progress") or {}).get("stalled") or each is self.doubted)
        }
        return tuple(row for row in self.open if (row.incident.check, row.incident.subject) in telling)

    @property
    def bad(self) -> bool:
        """Return whether it does not get on, which is confirmed."""
        return self.state in ("hung", "gone", "failing", DIVERGED)

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """Sort key of runs, the heaviest first."""
        severity = max((Status[each["status"]].severity for each in self.results), default=0)
        return self.bad, self.state == "doubtful", severity

    @property
    def shown(self) -> tuple[Mapping[str, Any], ...]:
        """The results shown at once: each check as a whole, and everything that is not OK."""
        return tuple(each for each in self.results if each not in self.well)

    @property
    def well(self) -> tuple[Mapping[str, Any], ...]:
        """Parts that are OK (nodes, GPUs), if there are many."""
        parts = tuple(each for each in self.results if each["subject"] and each["status"] == "OK")
        return parts if len(parts) > MANY else ()

    @property
    def totals(self) -> dict[str, float]:
        """Seconds in each state."""
        return totals(self.spans)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A file kept when an incident opened; `cut`: home has more of it."""

    name: str
    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident with its evidence, and the messages on what watchdogd did about it, oldest first."""

    incident: Incident
    evidence: tuple[Evidence, ...] = ()
    deeds: tuple[MessageRow, ...] = ()

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The end of the log when the incident opened."""
        log = next((each.text for each in self.evidence if each.name == LOG), "")
        return tuple(line for line in split_lines(log) if line.strip())[-LAST_LINES:]

    @property
    def files(self) -> tuple[Evidence, ...]:
        """The evidence to be read here; files for programs are downloads."""
        return tuple(each for each in self.evidence if not each.name.endswith(".json"))

    @property
    def downloads(self) -> tuple[Evidence, ...]:
        """The evidence for programs, as far as it is complete here."""
        return tuple(each for each in self.evidence if each.name.endswith(".json") and not each.cut)


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One message, and its delivery on each channel."""

    at: float
    message: Message
    sent: tuple[Notification, ...]


@dataclass(frozen=True, slots=True)
class PageContent:
    """Content of the page. Times in seconds.

    `status`: output of `watchdogd status --json`. `command`: how the verbs are called for its home.
    """

    name: str
    at: float
    since: float
    status: Mapping[str, Any]
    runs: tuple[RunRow, ...]
    open: tuple[IncidentRow, ...]
    over: tuple[IncidentRow, ...]
    charts: tuple[DrawnChart, ...]
    messages: tuple[MessageRow, ...]
    gaps: tuple[Gap, ...]
    touches: tuple[UserAction, ...]
    links: tuple[Link, ...]
    command: str = "watchdogd"

    @property
    def beside_states(self) -> tuple[IncidentRow, ...]:
        """The open incidents of which no run's state speaks."""
        told = {row.incident.id for run in self.runs for row in run.behind_state}
        return tuple(row for row in self.open if row.incident.id not in told)

    @property
    def flapping(self) -> frozenset[int]:
        """Numbers of the open incidents that come and go, so that their messages are held back."""
        return frozenset(each["id"] for each in self.status["incidents"] if each.get("flapping"))

    @property
    def all_charts(self) -> Iterator[DrawnChart]:
        """Yield the charts of the runs, and all others."""
        for run in self.runs:
            yield from run.charts
        yield from self.charts


def gather(
    home: Home,
    store: Store,
    status: Mapping[str, Any],
    name: str,
    *,
    since: float,
    now: float,
    logs: Mapping[str, str] = MappingProxyType({}),
) -> PageContent:
    """Gather the page's content from `since` to `now`. Raise HistoryError if the history cannot be read.

    `logs` are the runs' log patterns in config.toml, beside which experiment trackers are looked for.
    """
    measures = store.measures(None, since)
    incidents = store.incidents(since=since)
    gaps = store.gaps(since)
    explained = explanations(store, status["checks"], now)
    series = store.series_of(list(dict.fromkeys(each.check for each in measures)), since)
    since = max(
        since, min((points[0][0] for each in series.values() for points in each.values()), default=since)
    )
    messages = message_rows(store.notifications(since=since, limit=8 * SHOWN))
    rows = _incident_rows(home, incidents, standstills(status), messages)
    charts, beside = _charts(measures, series, status), _trackers(logs)
    runs = [
        replace(
            _run(run, status, series, rows, gaps, since, now, tuple(charts.pop(run, ())), explained),
            trackers=beside.get(run, ()),
        )
        for run in _runs(status["checks"], measures)
    ]
    return PageContent(
        name=name,
        at=now,
        since=since,
        status=status,
        runs=tuple(sorted(runs, key=lambda run: run.weight, reverse=True)),
        open=tuple(row for row in rows if row.incident.resolved_at is None),
        over=tuple(row for row in rows if row.incident.resolved_at is not None)[:SHOWN],
        charts=tuple(chart for found in charts.values() for chart in found),
        messages=messages[:SHOWN],
        gaps=tuple(gaps),
        touches=tuple(reversed(store.touches(since)[-SHOWN:])),
        links=links(series.get(SELF, {}).get(("chain", "link"), ()))[:SHOWN],
        command=home.program,
    )


def _runs(checks: Iterable[Mapping[str, Any]], measures: Iterable[Measure]) -> list[str]:
    """Return the runs in the status, then those that only the history knows."""
    named = [each["run"] for each in checks] + [each.run for each in measures]
    return list(dict.fromkeys(name for name in named if name))


def _run(
    run: str,
    status: Mapping[str, Any],
    series: Mapping[str, Mapping[tuple[str, str], Any]],
    incidents: Iterable[IncidentRow],
    gaps: Iterable[Gap],
    since: float,
    now: float,
    charts: tuple[DrawnChart, ...],
    explained: Iterable[Explanation],
) -> RunRow:
    mine = {check: points for check, points in series.items() if check.startswith(f"{run}/")}
    own = tuple(row for row in incidents if row.incident.run == run)
    counted = next((check for check, points in mine.items() if _RUNNING in points), "")
    jobs = mine.get(counted, {})
    results = tuple(each for each in status["checks"] if each["run"] == run)
    stalls = {
        (check, key[0]): points[key] for check, points in mine.items() for key in points if key[1] == STALLED
    }
    spans = timeline(
        {kind: jobs.get(("", kind), ()) for kind in ("running", "waiting", "held", "elsewhere", *IDLE)},
        stalled=list(stalls.values()),
        unseen=[
            (row.incident.began, row.incident.opened_at)
            for row in own
            if row.incident.status is Status.CRITICAL and (row.incident.check, row.incident.subject) in stalls
        ],
        gone=[
            (row.incident.began, row.incident.resolved_at or now)
            for row in own
            if row.incident.check == counted
            and (row.incident.status is Status.CRITICAL or row.incident.fault == CANCELLED)
        ],
        gaps=[(gap.begin, gap.end) for gap in gaps],
        since=since,
        now=now,
    )
    done: Points = next((points[_DONE] for points in mine.values() if _DONE in points), ())
    progress = [each["progress"] for each in results if each.get("progress")]
    moves = run_models.run_state(results) == "running"
    columns = columns_of(status)
    return RunRow(
        run,
        spans,
        results,
        how_far(progress, done, moves=moves),
        lost(spans, now),
        own,
        charts,
        tuple(each for each in explained if each.check.startswith(f"{run}/")),
        in_words(cells_of(results, columns, now, status.get("round_every") or ROUND), columns),
        done[-1][1] - done[0][1] if len(done) > 1 else None,
        doubted=doubt(results, status),
    )


def _trackers(logs: Mapping[str, str]) -> dict[str, tuple[ExperimentTracker, ...]]:
    """Return the experiment trackers beside each run's log; none after the first that does not answer."""
    place, found = BoundedIO("the logs' file system"), {}
    for run, pattern in logs.items():
        with contextlib.suppress(OSError, WatchdogError):
            found[run] = place.attempt(partial(trackers, pattern))
    place.close()
    return found


def _charts(
    measures: Iterable[Measure],
    series: Mapping[str, Mapping[tuple[str, str], Any]],
    status: Mapping[str, Any],
) -> dict[str, list[DrawnChart]]:
    """Return the charts of all checks by run, disk or check.

    A check that is no longer configured is drawn like others of its plugin.
    """
    runs = {each.check: each.run for each in measures}
    declared = declared_charts(status)
    found: dict[str, list[DrawnChart]] = defaultdict(list)
    for check, points in series.items():
        owner = runs[check] or check.rpartition("/")[0] or check
        found[owner] += charts_of(check, declared_by(declared, check), owner, points)
    return found


def message_rows(notifications: Iterable[Notification]) -> tuple[MessageRow, ...]:
    """Return each message once, with all its channels, the newest first."""
    found: dict[str, list[Notification]] = defaultdict(list)
    for each in notifications:
        found[each.key.rpartition("@")[0]].append(each)
    rows = [MessageRow(each[0].created_at, each[0].message, tuple(each)) for each in found.values()]
    return tuple(sorted(rows, key=lambda row: row.at, reverse=True))


def _incident_rows(
    home: Home,
    incidents: Iterable[Incident],
    standing: frozenset[tuple[str, str]],
    messages: Sequence[MessageRow] = (),
) -> tuple[IncidentRow, ...]:
    """Return open incidents by weight, runs that stand still first, then ended ones, the newest first."""
    found = list(incidents)
    ordered = sorted(
        (each for each in found if each.resolved_at is None), key=lambda each: each.weight_among(standing)
    )
    ordered += sorted((each for each in found if each.resolved_at), key=lambda each: -(each.resolved_at or 0))
    deeds: defaultdict[int, list[MessageRow]] = defaultdict(list)
    for row in reversed(messages):
        for number in row.message.incidents if row.message.status == "ACTION" else ():
            deeds[number].append(row)
    return tuple(
        IncidentRow(
            incident,
            tuple(_evidence(home, incident.id)) if place < WITH_EVIDENCE else (),
            tuple(deeds[incident.id]),
        )
        for place, incident in enumerate(ordered)
    )


def _evidence(home: Home, identity: int) -> Iterable[Evidence]:
    """Yield the kept files (of the log its end); unreadable ones are left out."""
    folder = home.evidence / str(identity)
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file() and not path.is_symlink())
    except OSError:
        return
    for path in files[:EVIDENCE_FILES]:
        try:
            with open(open_plain(path), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - EVIDENCE_BYTES, 0) if path.name == LOG else 0)
                text = file.read(WHOLE_BYTES if path.suffix == ".json" else EVIDENCE_BYTES)
        except OSError:
            continue
        yield Evidence(path.name, text.decode("utf-8", "replace"), size > len(text))
