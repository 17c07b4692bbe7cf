"""Which link follows another, and the maintenance windows that cut it short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from watchdogd.batch import slurmtext
from watchdogd.batch.models import Job
from watchdogd.batch.slurm import QUERY_DEADLINE
from watchdogd.system import command
from watchdogd.system.number import count
from watchdogd.system.times import walltime_margin

SLOW_START = 180.0
"""Seconds that a newer link gets to submit its own successor before an older one does it instead."""


@dataclass(frozen=True, slots=True)
class SuccessionPlan:
    """Plan of a link: submit a successor with these options of sbatch (None: not), and cancel these.

    `successor` is the link that waits already; `unseen`: the queue does not show ourselves, so it shows
    too little to act on.
    """

    submit: tuple[str, ...] | None = None
    cancel: tuple[str, ...] = ()
    successor: Job | None = None
    unseen: bool = False


def decide(
    links: Sequence[Job], me: str, now: float, *, lost: bool = False, every: float = 0.0
) -> SuccessionPlan:
    """Return the plan of link `me`, from the living links of its home.

    `lost`: the controller said that it does not know `me` any more. `every`: tick mode, seconds from one
    link to the next. Times are seconds since the epoch.
    """
    mine = next((link for link in links if link.raw_id == me), None)
    if mine is None and not lost:
        return SuccessionPlan(unseen=True)
    waiting = [link for link in links if link.waiting and link.raw_id != me]
    if waiting:
        successor = next((link for link in waiting if f":{me}" in link.dependency), waiting[0])
        surplus = tuple(link.raw_id for link in waiting if link is not successor)
        return SuccessionPlan(cancel=surplus, successor=successor)
    others = [link for link in links if link.raw_id != me and link.placed and not link.leaving]
    newest = max(others, key=_age, default=None)
    if (
        newest
        and (mine is None or _age(mine) < _age(newest))
        and now - (newest.started_at or now) < SLOW_START
    ):
        return SuccessionPlan(successor=newest)
    return SuccessionPlan(submit=(f"--begin=now+{every:.0f}",) if every else _dependency(mine))


def _dependency(mine: Job | None) -> tuple[str, ...]:
    """Return the dependency on `mine`: its end, or that it has only its margin left, whichever is first.

    `after` alone waits its minutes out when `mine` is cancelled.

    None where the controller lost `mine`: the successor takes over as soon as it runs.
    """
    if mine is None:
        return ()
    walltime = mine.time_limit
    if mine.started_at is not None and mine.ends_at is not None:
        walltime = mine.ends_at - mine.started_at
    if walltime is None:
        return (f"--dependency=afterany:{mine.raw_id}",)
    minutes = max(int((walltime - walltime_margin(walltime)) // 60), 1)
    return (f"--dependency=afterany:{mine.raw_id}?after:{mine.raw_id}+{minutes}",)


def _age(link: Job) -> tuple[float, int]:
    return link.started_at or 0.0, count(link.raw_id) or 0


LEAST = 1800.0
"""Seconds that a link shall run at least: a shorter one waits until the maintenance is over."""
_MAINTENANCE_SHARE = 0.9
_RESERVATION = re.compile(r"^ReservationName=(?>.*? StartTime=)(\S+) (?>.*? Flags=)(\S*)", re.MULTILINE)


def shortest(walltime: float, start: float) -> float:
    """Return seconds that a link may be cut to which starts at `start` or later; 0: not at all.

    0 also where no maintenance is in its way, or it is too near for any link.
    """
    if walltime <= LEAST:
        return 0.0
    argv = ("scontrol", "--oneliner", "show", "reservation")
    answer = command.ask(argv, deadline=QUERY_DEADLINE, env=command.environment(slurmtext.ENVIRONMENT))
    begins = [begin for begin in begins_of(answer.output) if begin > start] if answer.ok else []
    left = min(begins, default=float("inf")) - start
    return 0.0 if left >= walltime or left < LEAST else max(left * _MAINTENANCE_SHARE, LEAST)


def begins_of(text: str) -> list[float]:
    """Return when the maintenances in `scontrol --oneliner show reservation` begin (since the epoch)."""
    found = [(slurmtext.time(begin), flags.split(",")) for begin, flags in _RESERVATION.findall(text)]
    return [begin for begin, flags in found if begin is not None and "MAINT" in flags]


def is_in_the_way(job: Job) -> bool:
    """Return whether a link waits because a maintenance would begin before its end."""
    return job.waiting and "maintenance" in job.reason.lower()
