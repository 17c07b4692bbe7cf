"""Which job of a run works just now, so that its progress can be judged, or why none can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdogd.plugin import Job, Run, Snapshot


@dataclass(frozen=True, slots=True)
class Working:
    """The job that runs; or `excuse`, why nothing is to be judged; or `blind`, why nobody knows.

    None of the three: the check speaks of no run, and is judged at all times.
    """

    job: Job | None = None
    excuse: str = ""
    blind: str = ""


def working(run: Run | None, snapshot: Snapshot | None) -> Working:
    """Of several running jobs the one that started last.

    A plain process that is stopped counts as running: nobody pauses one on purpose; its silence is a hang.
    """
    if run is None or snapshot is None:
        return Working()
    if snapshot.jobs is None:
        return Working(blind=snapshot.trouble or "the queue did not answer")
    process = snapshot.backend == "process"
    jobs = [job for job in snapshot.of(run.name if process else run.job_name) if not job.ended]
    running = [job for job in jobs if job.state == "RUNNING" or (process and job.state == "SUSPENDED")]
    if running:
        return Working(max(running, key=lambda job: (job.started_at or 0.0, job.raw_id)))
    if not jobs:
        return Working(excuse="no job runs")
    job = jobs[0]
    if job.waiting:
        reason = f" ({job.reason})" if job.reason not in ("", "None") else ""
        return Working(excuse=f"job {job.id} waits{reason}")
    return Working(excuse=f"job {job.id} is {job.state.lower()}")
