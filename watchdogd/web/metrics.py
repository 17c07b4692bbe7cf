"""The daemon's last results in Prometheus's text format, named by its conventions.

https://prometheus.io/docs/practices/naming/: base units in the name (`_seconds`, `_bytes`, `_ratio`),
counters end in `_total`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdogd.batch import run_models
from watchdogd.errors import ConfigError
from watchdogd.plugin import Status
from watchdogd.system.text import one_line

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_UNITS = {
    "s": ("_seconds", 1.0),
    "B": ("_bytes", 1.0),
    "%": ("_ratio", 0.01),
    "C": ("_celsius", 1.0),
    "W": ("_watts", 1.0),
}
_LABELS = ("check", "run", "subject")


class _StatusCollector:
    """Collector for prometheus_client, used once."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Family]:
        """Yield all families, each name once."""
        yield from _own(self._status)
        yield from _states(self._status["checks"])
        yield from _progress(self._status["checks"])
        yield from _results(self._status["checks"])


def metrics_text(status: Mapping[str, Any]) -> str:
    """Return `status --json`'s value in Prometheus's format. Raise ConfigError without the library."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise ConfigError("metrics need a library: pip install 'watchdogd[prometheus]'") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(status))
    return generate_latest(registry).decode("utf-8")


def _gauge(name: str, text: str, labels: Iterable[str] = ()) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, text, labels=list(labels))


def _own(status: Mapping[str, Any]) -> Iterator[Family]:
    alive = _gauge("watchdogd_alive", "Whether the daemon lives.")
    alive.add_metric([], float(status["alive"]))
    yield alive
    if status["last_round"]:
        last = _gauge("watchdogd_last_round_timestamp_seconds", "When the last round was judged.")
        last.add_metric([], datetime.fromisoformat(status["last_round"]).timestamp())
        yield last
    unresolved = _gauge(
        "watchdogd_incidents", "Incidents that are open, by status and state.", ("status", "state")
    )
    counts: dict[tuple[str, str], int] = {(each.name, "open"): 0 for each in Status if each is not Status.OK}
    for incident in status["incidents"]:
        key = (incident["status"], incident["state"])
        counts[key] = counts.get(key, 0) + 1
    for key, number in counts.items():
        unresolved.add_metric(list(key), number)
    yield unresolved
    opened = _gauge(
        "watchdogd_incident_opened_timestamp_seconds",
        "When an incident that is open began.",
        (*_LABELS, "status", "state"),
    )
    began: dict[tuple[str, ...], float] = {}
    for incident in status["incidents"]:
        labels = tuple(one_line(str(incident[label] or "")) for label in (*_LABELS, "status", "state"))
        at = datetime.fromisoformat(incident["opened_at"]).timestamp()
        began[labels] = min(at, began.get(labels, at))
    for labels, at in began.items():
        opened.add_metric(list(labels), at)
    yield opened


def _states(checks: Iterable[Mapping[str, Any]]) -> Iterator[Family]:
    """Yield the state of each run, as in `status`: 1 with the state as label."""
    runs: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in checks:
        if result["run"]:
            runs[one_line(str(result["run"]))].append(result)
    family = _gauge("watchdogd_run_state", "What a run does.", ("run", "state"))
    for run, results in runs.items():
        if state := run_models.run_state(results):
            family.add_metric([run, "unknown" if state == "?" else state], 1.0)
    yield family


def _progress(checks: Iterable[Mapping[str, Any]]) -> Iterator[Family]:
    """Yield how far each run is by its own report, and whether it stands still although it should not."""
    stalled = _gauge("watchdogd_run_stalled", "Whether a run that should make progress does not.", ("run",))
    ratio = _gauge("watchdogd_run_progress_ratio", "Share of a run that is done.", ("run",))
    left = _gauge("watchdogd_run_remaining_seconds", "What is left of a run at its present pace.", ("run",))
    found: dict[str, Mapping[str, Any]] = {}
    for result in checks:
        if result["run"] and result.get("progress"):
            found[one_line(str(result["run"]))] = result["progress"]
    for run, progress in found.items():
        stalled.add_metric([run], float(progress["stalled"]))
        done, total, pace = (progress.get(name) for name in ("done", "total", "pace"))
        if done is not None and total:
            ratio.add_metric([run], done / total)
            if pace is not None:
                left.add_metric([run], max(total - done, 0.0) * pace)
    yield from (stalled, ratio, left)


def _results(checks: Iterable[Mapping[str, Any]]) -> Iterator[Family]:
    """Yield the status of each result, and its metrics by name."""
    judged = _gauge("watchdogd_check_status", "Last result: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.", _LABELS)
    values: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    worst: dict[tuple[str, ...], Status] = {}  # names that differ in what a line cannot show are one series
    for result in checks:
        labels = tuple(one_line(str(result[label] or "")) for label in _LABELS)
        found = Status[result["status"]]
        worst[labels] = max(found, worst.get(labels, found), key=lambda status: status.severity)
        for name, metric in result["metrics"].items():
            if isinstance(metric["value"], int | float) and math.isfinite(metric["value"]):
                full, factor = _named(result["check"], name, metric["unit"])
                values[full][labels] = metric["value"] * factor
    for labels, status in worst.items():
        judged.add_metric(list(labels), int(status))
    yield judged
    for full, samples in sorted(values.items()):
        family = _family(full)
        for labels, value in samples.items():
            family.add_metric(list(labels), value)
        yield family


def _family(full: str) -> Any:
    """Return a counter if the unit is one that only grows, else a gauge."""
    from prometheus_client.core import CounterMetricFamily

    text = "As the check of this name measured it."
    if full.endswith("_total"):
        return CounterMetricFamily(full, text, labels=list(_LABELS))
    return _gauge(full, text, _LABELS)


def _named(check: str, metric: str, unit: str) -> tuple[str, float]:
    """Return the name of a metric, and the factor to its base unit."""
    plugin = check.rpartition("/")[2].partition(".")[0]
    suffix, factor = _UNITS.get(unit, ("", 1.0))
    base = re.sub(r"[^a-z0-9]+", "_", f"watchdogd_{plugin}_{metric}".lower()).strip("_")
    if unit == "c":
        return f"{base.removesuffix('_total')}_total", 1.0
    # `_total`, `_count` and the like are endings of other types: a gauge must not bear them
    base = re.sub(r"_(total|count|sum|bucket|info|created)$", r"_\1_value", base)
    return base + suffix, factor
