"""Which jobs and ends are a run's: those of its name, and jobs that bore it when last seen. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.checks import hetjob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.batch.models import Ending, Job, Snapshot
    from watchdogd.checks.past import Life, Past
    from watchdogd.plugin import Run


def living(run: Run, snapshot: Snapshot, past: Past) -> tuple[Job, ...]:
    """The run's living jobs, also one that was renamed (`scontrol update`) since it was last seen."""
    found = list(snapshot.of(name_of(run, snapshot)))
    found += (job for job in snapshot.renamed if job.name != run.job_name and _known(job, past.lives))
    return hetjob.living(job for job in found if not run.users or job.user in run.users)


def over(run: Run, snapshot: Snapshot, jobs: tuple[Job, ...]) -> tuple[Ending, ...]:
    """The run's ends; `jobs` are its living."""
    found = snapshot.ended(name_of(run, snapshot))
    return hetjob.over((end for end in found if not run.users or end.user in run.users), jobs)


def name_of(run: Run, snapshot: Snapshot) -> str:
    """What its jobs are called in the snapshot."""
    return run.name if snapshot.backend == "process" else run.job_name


def _known(job: Job, lives: Mapping[str, Life]) -> bool:
    """Whether it is one of these lives under another name: of its id and, since ids are reused, its start."""
    life = lives.get(job.raw_id)
    return life is not None and not job.own and life.started_at in (None, job.started_at)
