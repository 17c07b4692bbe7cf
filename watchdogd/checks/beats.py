"""The Guard's heartbeats of a run in the inbox: the newest one of the job that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.probe.files import left
from watchdogd.readers import beat

if TYPE_CHECKING:
    from watchdogd.plugin import Job, Run
    from watchdogd.readers.beat import Beat

SLACK = 300.0
"""Seconds by which the clock of the inbox's file server may differ."""


def newest(run: Run | None, job: Job | None) -> Beat | None:
    """None where none beats. Only what the job's owner wrote counts, and no beat of an earlier job."""
    if run is None or job is None:
        return None
    found = []
    for written, text in left(run.inbox, run.name, job.user, kind="beat"):
        try:
            one = beat.read(text, written)
        except UnreadableError:
            continue  # none of ours
        if one.run == run.name and _of(one, job):
            found.append(one)
    return max(found, key=lambda one: one.written, default=None)


def _of(one: Beat, job: Job) -> bool:
    """By the batch system's id, a het job's leader's too; a plain process has none, and goes by the time."""
    if one.job and "@" not in job.raw_id:
        return one.job in (job.raw_id, job.id, job.handle)
    return one.written >= (job.started_at or 0.0) - SLACK
