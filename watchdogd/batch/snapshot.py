"""Jobs of the queue and those that ended, at one time. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watchdogd.batch.endings import Ending
from watchdogd.batch.models import Job


@dataclass(frozen=True)
class Snapshot:
    """State of the batch system at one time, shared by all checks of a round.

    `jobs` is what lives now, or None where the system did not answer (`trouble` says why): then nothing
    may be called gone. `endings` is what controller and accounting say of jobs that are over, newest last
    (those of the last minutes, and more where a run has no living job), or None where nobody could be asked;
    `endings_trouble` says why accounting did not answer. `attempts` are the ends of attempts of jobs that
    were requeued and live on under their id, as far as accounting was asked. `hidden` are users whose jobs
    the site does not show us (PrivateData). `renamed` are living jobs that were some run's when last seen
    and bear no run's name now. `elsewhere` are living jobs with a wanted name whose users do not count, as
    far as was looked for them: for the names in `sought`, of which nothing of our users lives. `veiled`: jobs
    of other users are not shown to us, so that finding none says nothing. `running` are the ids of all jobs
    that run, as people see them and raw, also of those that are no run's. `known` is what the next snapshot
    needs: raw ids to account for, and when each was last seen living.
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
        """Return the living jobs of a run by its job name; never watchdogd's own."""
        return tuple(
            job
            for job in self.jobs or ()
            if job.name == name and not job.own and (not self.users or job.user in self.users)
        )

    def ended(self, name: str) -> tuple[Ending, ...]:
        """Return what accounting remembers of a run's jobs, oldest first; never watchdogd's own."""
        return tuple(
            end
            for end in self.endings or ()
            if end.name == name and not end.own and (not self.users or end.user in self.users)
        )
