"""Maintenance ahead: a link has to be over before it, and Slurm cuts it to fit where --time-min allows.

Only then does it get a short one: Slurm's backfill gives a job its --time-min and not its --time, though
nothing is in the way (22.05: measured), and each hand-over is a chance for the queue to leave a gap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd import command
from watchdogd.readers import slurmtext
from watchdogd.slurm.links import DEADLINE

if TYPE_CHECKING:
    from watchdogd.jobs import Job

_LEAST = 1800.0
_WORTH_IT = 3600.0
_RESERVATION = re.compile(r"^ReservationName=.*? StartTime=(\S+) .*? Flags=(\S*)", re.MULTILINE)


def shortest(walltime: float, now: float) -> float:
    """Seconds that a link may be cut to: half of it, half an hour before a maintenance; 0: not at all."""
    if walltime < _WORTH_IT:
        return 0.0
    answer = command.ask(("scontrol", "--oneliner", "show", "reservation"), deadline=DEADLINE)
    begins = [begin for begin in begins_of(answer.output) if begin > now] if answer.ok else []
    near = min(begins, default=float("inf")) < now + walltime
    return _LEAST if near else walltime / 2


def begins_of(text: str) -> list[float]:
    """When the maintenances in `scontrol --oneliner show reservation` begin, in seconds since the epoch."""
    found = [(slurmtext.time(begin), flags.split(",")) for begin, flags in _RESERVATION.findall(text)]
    return [begin for begin, flags in found if begin is not None and "MAINT" in flags]


def is_in_the_way(job: Job) -> bool:
    """Whether a link waits because a maintenance would begin before its end."""
    return job.waiting and "maintenance" in job.reason.lower()
