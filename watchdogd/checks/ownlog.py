"""Whose a log is, where files' names bear the ids of jobs: a pattern may match those of other runs, too."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from watchdogd.checks.working import of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.plugin import Run, Snapshot
    from watchdogd.readers.logtail import Found


def names(job_id: str, raw_id: str) -> list[re.Pattern[str]]:
    """How a file's name may bear a job's id: `%j`, and `%A_%a` of an array's task.

    The raw id of an array's last task is the array's own, which all of its files bear.
    """
    array, task, number = job_id.partition("_")
    wanted = [rf"{re.escape(array)}[_.-]0*{re.escape(number)}"] if task else []
    wanted += [re.escape(raw_id)] if raw_id != array or not task else []
    return [re.compile(rf"(?<!\d)0*{each}(?!\d)") for each in wanted]


def without_others(files: list[Found], run: Run | None, snapshot: Snapshot | None) -> list[Found]:
    """`files` without those of running jobs that are not the run's: what they write is no sign of its life.

    Names are believed only where a file bears the id of a job of the run: the logs are named so here.
    """
    if len(files) < 2 or run is None or snapshot is None or snapshot.backend == "process":
        return files
    ours = {(job.id, job.raw_id) for job in of(run, snapshot)}
    named = [file.path for file in files if _bears(file, ours)]
    if not named:
        return files
    return [file for file in files if file.path in named or not _bears(file, snapshot.running - ours)]


def _bears(file: Found, jobs: Iterable[tuple[str, str]]) -> bool:
    name = os.path.basename(file.path)
    return any(each.search(name) for job in jobs for each in names(*job))
