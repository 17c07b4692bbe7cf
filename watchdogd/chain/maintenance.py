"""Maintenance ahead: a link has to be over before it, and Slurm cuts it to fit where --time-min allows.

Only then does it get one: Slurm's backfill may give a job its --time-min and not its --time though nothing
is in the way (22.05: measured), and each hand-over is a chance for the queue to leave a gap. So --time-min is
nine tenths of what is left before the maintenance. A successor that starts too late for that, or waits for a
maintenance that was announced after it was submitted, is replaced by one that may be cut to half an hour.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd.batch import slurmtext
from watchdogd.batch.queue import DEADLINE
from watchdogd.system import command

if TYPE_CHECKING:
    from watchdogd.batch.models import Job

LEAST = 1800.0
"""Seconds that a link shall run at least: a shorter one waits until the maintenance is over."""
_SHARE = 0.9
_RESERVATION = re.compile(r"^ReservationName=(?>.*? StartTime=)(\S+) (?>.*? Flags=)(\S*)", re.MULTILINE)


def shortest(walltime: float, start: float) -> float:
    """Seconds that a link may be cut to which starts at `start` or later; 0: not at all, no maintenance is
    in its way, or it is too near for any link."""
    if walltime <= LEAST:
        return 0.0
    argv = ("scontrol", "--oneliner", "show", "reservation")
    answer = command.ask(argv, deadline=DEADLINE, env=command.environment(slurmtext.ENVIRONMENT))
    begins = [begin for begin in begins_of(answer.output) if begin > start] if answer.ok else []
    left = min(begins, default=float("inf")) - start
    return 0.0 if left >= walltime or left < LEAST else max(left * _SHARE, LEAST)


def begins_of(text: str) -> list[float]:
    """When the maintenances in `scontrol --oneliner show reservation` begin, in seconds since the epoch."""
    found = [(slurmtext.time(begin), flags.split(",")) for begin, flags in _RESERVATION.findall(text)]
    return [begin for begin, flags in found if begin is not None and "MAINT" in flags]


def is_in_the_way(job: Job) -> bool:
    """Whether a link waits because a maintenance would begin before its end."""
    return job.waiting and "maintenance" in job.reason.lower()
