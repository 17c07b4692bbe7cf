"""Who follows a link: decided from what the queue shows, with no clock and no Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.system.number import count
from watchdogd.system.walltime import margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchdogd.batch.models import Job

SLOW_START = 180.0
"""Seconds that a newer link gets to submit its own successor before an older one does it instead."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a link has to do: submit a successor with these options of sbatch (None: not), and cancel these.

    `successor` is the link that waits already; `unseen`: the queue does not show ourselves, so it shows
    too little to act on.
    """

    submit: tuple[str, ...] | None = None
    cancel: tuple[str, ...] = ()
    successor: Job | None = None
    unseen: bool = False


def decide(links: Sequence[Job], me: str, now: float, *, lost: bool = False, every: float = 0.0) -> Plan:
    """The plan of link `me`, from the living links of its home.

    `lost`: the controller said that it does not know `me` any more. `every`: tick mode, seconds from one
    link to the next. Times are seconds since the epoch.
    """
    mine = next((link for link in links if link.raw_id == me), None)
    if mine is None and not lost:
        return Plan(unseen=True)
    waiting = [link for link in links if link.waiting and link.raw_id != me]
    if waiting:
        heir = next((link for link in waiting if f":{me}" in link.dependency), waiting[0])
        surplus = tuple(link.raw_id for link in waiting if link is not heir)
        return Plan(cancel=surplus, successor=heir)
    newest = _newest([link for link in links if link.raw_id != me and link.placed and not link.leaving])
    if newest and _precedes(mine, newest) and now - (newest.started_at or now) < SLOW_START:
        return Plan(successor=newest)
    return Plan(submit=(f"--begin=now+{every:.0f}",) if every else _dependency(mine))


def _dependency(mine: Job | None) -> tuple[str, ...]:
    """Eligible once `mine` is over, or has only its margin left, whichever is first: `after` alone waits its
    minutes out when `mine` is cancelled.

    None where the controller lost `mine`: the successor takes over as soon as it runs.
    """
    if mine is None:
        return ()
    walltime = mine.time_limit
    if mine.started_at is not None and mine.ends_at is not None:
        walltime = mine.ends_at - mine.started_at
    if walltime is None:
        return (f"--dependency=afterany:{mine.raw_id}",)
    minutes = max(int((walltime - margin(walltime)) // 60), 1)
    return (f"--dependency=afterany:{mine.raw_id}?after:{mine.raw_id}+{minutes}",)


def _newest(links: Sequence[Job]) -> Job | None:
    return max(links, key=_age, default=None)


def _precedes(mine: Job | None, other: Job) -> bool:
    return mine is None or _age(mine) < _age(other)


def _age(link: Job) -> tuple[float, int]:
    return link.started_at or 0.0, count(link.raw_id) or 0
