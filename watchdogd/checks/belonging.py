"""Which jobs and ends are a run's: those of its name, and those that bore it when last seen. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.checks import hetjob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchdogd.checks.past import Life, Past
    from watchdogd.jobs import Ending, Job, Snapshot
    from watchdogd.plugin import Run


def living(run: Run, snapshot: Snapshot, past: Past) -> tuple[Job, ...]:
    """The run's living jobs, also one that was renamed (`scontrol update`) since it was last seen."""
    found = list(snapshot.of(_name(run, snapshot)))
    if snapshot.backend != "process":
        found += (job for job in snapshot.jobs or () if job.name != run.job_name and _known(job, past.lives))
    return hetjob.living(job for job in found if not run.users or job.user in run.users)


def over(run: Run, snapshot: Snapshot, past: Past, jobs: tuple[Job, ...]) -> tuple[Ending, ...]:
    """The run's ends likewise; `jobs` are its living."""
    name, lives = _name(run, snapshot), {**past.lost, **past.lives}
    found = list(snapshot.ended(name))
    found += (end for end in snapshot.endings or () if end.name != name and _known(end, lives))
    return hetjob.over((end for end in found if not run.users or end.user in run.users), jobs)


def _name(run: Run, snapshot: Snapshot) -> str:
    return run.name if snapshot.backend == "process" else run.job_name


def _known(item: Job | Ending, lives: Mapping[str, Life]) -> bool:
    """Whether it is one of these lives under another name: of its id and, since ids are reused, its start."""
    life = lives.get(item.raw_id)
    return life is not None and not item.own and life.started_at in (None, item.started_at)
