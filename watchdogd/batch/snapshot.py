"""Snapshot of a batch system: jobs in the queue and ended ones. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdogd.batch.endings import Ending
from watchdogd.batch.models import Job


@dataclass(frozen=True)
class Snapshot:
    """State of a batch system at one time, shared by all checks of a round.

    jobs             living jobs, or None without an answer (`trouble` says why): then no job counts as gone
    endings          ends by controller and accounting, newest last (of the last minutes, and more for a run
                     without a living job), or None without an answer
    endings_trouble  why accounting did not answer
    attempts         ends of attempts of requeued jobs that live on, where accounting was asked
    hidden           users whose jobs the site hides (PrivateData)
    renamed          living jobs that had a run's name when last seen
    elsewhere        living jobs of users who do not count, with names in `sought`
    sought           names without a living job that were searched under other users
    veiled           whether other users' jobs are hidden, so that finding none means nothing
    running          ids of all running jobs, as users see them and raw
    known            input of the next snapshot: raw ids to account for, and when each was last seen alive
    """

    taken_at: float
    jobs: tuple[Job, ...] | None = None
    trouble: str = ""
    endings: tuple[Ending, ...] | None = None
    endings_trouble: str = ""
    attempts: tuple[Ending, ...] = ()
    backend: str = "slurm"
    users: frozenset[str] = field(default_factory=frozenset)
    hidden: frozenset[str] = field(default_factory=frozenset)
    renamed: tuple[Job, ...] = ()
    elsewhere: tuple[Job, ...] = ()
    sought: frozenset[str] = field(default_factory=frozenset)
    veiled: bool = False
    running: frozenset[tuple[str, str]] = frozenset()
    known: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> tuple[Job, ...]:
        """Return the living jobs with a run's job name, without watchdogd's own."""
        return tuple(
            job
            for job in self.jobs or ()
            if job.name == name and not job.own and (not self.users or job.user in self.users)
        )

    def ended(self, name: str) -> tuple[Ending, ...]:
        """Return the ends of jobs with a run's job name, oldest first, without watchdogd's own."""
        return tuple(
            end
            for end in self.endings or ()
            if end.name == name and not end.own and (not self.users or end.user in self.users)
        )
