"""Which of a run's keys (`on_hang`, `on_memory` ...) an incident pulls. Pure.

A forecast pulls none, a shortage has to be measured; a log that was never there is no hang, and a job that
somebody cancelled is not gone unexpectedly. What tells them apart are the figures of the check's last
result, and its words where it has none.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from watchdogd import wildcard
from watchdogd.plugin import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.incident import Incident
    from watchdogd.plugin import Result

SHORTAGES = frozenset({"bytes", "inodes", "targets"})
"""Subjects of disk_quota that tell of room; the others tell of the place itself."""
_NO_LOG = "no log:"
_CANCELLED = re.compile(r"\bCANCELLED by \w")


def pulled(plugin: str, incident: Incident, last: Result | None) -> str:
    """The key that an incident of this plugin pulls, or empty. `last` is the subject's newest result."""
    critical = incident.status is Status.CRITICAL
    match plugin, incident.subject:
        case "log_staleness", "":
            return "on_hang" if critical and not incident.summary.startswith(_NO_LOG) else ""
        case "log_staleness", "loss":
            return "on_spike"
        case "gpu_health", "collective":
            return "on_hang" if critical else ""
        case "memory_leak", subject:
            return "on_memory" if subject and _short_of(last, "left") else ""
        case "disk_quota", subject:
            return "on_disk" if subject in SHORTAGES and (critical or _short_of(last, "free")) else ""
        case "node_disks", subject:
            return "on_disk" if subject and _short_of(last, "free") else ""
        case "job_liveness", "":
            by_somebody = _CANCELLED.search(incident.summary)
            return "on_gone" if critical and _nothing_left(last) and not by_somebody else ""
    return ""


def uses(disk: str, places: Iterable[str]) -> bool:
    """Whether one of a run's files (log, checkpoints, switches; wildcards allowed) lies under a disk's path.

    By the paths as they are written: links are not followed, since the file system may hang.
    """
    top = os.path.normpath(disk).rstrip("/") + "/"
    return any(_plain(place).startswith(top) for place in places if place)


def _plain(place: str) -> str:
    """The part of a path before its first wildcard."""
    plain = wildcard.plain(place)
    return os.path.normpath(plain) + "/" if plain == place else plain


def _short_of(last: Result | None, name: str) -> bool:
    """Whether what is left was measured to be below a threshold."""
    metric = last.metrics.get(name) if last else None
    if metric is None:
        return False
    limits = [limit for limit in (metric.warn, metric.crit) if limit is not None]
    return any(metric.value < limit for limit in limits)


def _nothing_left(last: Result | None) -> bool:
    """Whether nothing of the run is in the queue: it is gone, not stuck."""
    if last is None:
        return False
    counts = [last.metrics.get(name) for name in ("running", "waiting")]
    return all(metric is not None and metric.value == 0 for metric in counts)
