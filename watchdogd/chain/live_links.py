"""Links of a home in the queue, found by their comment even where every record of them is lost.

Also the decision which link follows another, and which maintenance windows shorten it.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchdogd.batch import pending_reasons, scontrol, slurmtext
from watchdogd.batch.models import Job
from watchdogd.batch.slurm import QUERY_DEADLINE, listed_jobs
from watchdogd.chain import link_script
from watchdogd.errors import NoClusterError
from watchdogd.home.layout import Home
from watchdogd.system import command
from watchdogd.system.account import is_member, own_name
from watchdogd.system.number import count
from watchdogd.system.times import walltime_margin
from watchdogd.units import iso

_LIMITS = re.compile(
    r"(QOS|Assoc)(Grp|Max)\w|Partition(Down|Inactive)|NodeDown|ReqNodeNotAvail|Nodes required|Licenses"
)


def queued_links(mark: str, users: Iterable[str] | None = None) -> tuple[Job, ...]:
    """Return the waiting and running links, oldest first. `users`: None: one's own; empty: everybody's.

    SlurmSilentError where squeue did not answer, or printed nonsense.
    """
    return tuple(job for job in links_and_dropin_jobs(mark, users) if job.comment == mark)


def links_and_dropin_jobs(mark: str, users: Iterable[str] | None = None) -> tuple[Job, ...]:
    """Return links and jobs of drop-ins, whose comment continues after the mark; see `queued_links`."""
    whose = (own_name(),) if users is None else users
    found = [job for job in listed_jobs(whose) if f"{job.comment} ".startswith(f"{mark} ") and not job.ended]
    return tuple(sorted(found, key=lambda job: count(job.raw_id) or 0))


def all_links(home: Home, *, dropins: bool = False) -> tuple[Job, ...]:
    """Return this home's links, of all users who may submit them. SlurmSilentError.

    None where there is no Slurm, or an unconfigured one that was never used here. `dropins`: include jobs of
    drop-ins. An empty answer is asked for twice, since squeue of a busy controller can time out with one. The
    mark is no proof: everybody can read it in the queue and submit a job with it.
    """
    if not shutil.which("squeue"):
        return ()
    mark = link_script.mark_of(home)
    ask = links_and_dropin_jobs if dropins else queued_links
    try:
        found = ask(mark, ()) or ask(mark, ())
        return tuple(job for job in found if _is_homes(home, job.user))
    except NoClusterError:
        _, walltime = link_script.remembered(home)
        if walltime:
            raise
        return ()


def _is_homes(home: Home, name: str) -> bool:
    """Return whether this user's jobs can be this home's: the owner's, the caller's, root's or a member's."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return name == str(os.geteuid())  # no user has a name here
    if uid in (0, os.geteuid(), home.path.stat().st_uid):
        return True
    return home.group is not None and is_member(uid, home.group)


def active_links(home: Home) -> tuple[Job, ...]:
    """Return the links without ended ones that have not left their node.

    An epilogue or a dead node can hold one for hours; it neither watches nor submits a successor.
    """
    return tuple(job for job in all_links(home) if not job.leaving)


def is_unknown(job_id: str) -> bool:
    """Return whether the controller says that it does not know this job."""
    answer = command.ask(("scontrol", "show", "job", job_id), deadline=QUERY_DEADLINE)
    return not answer.ok and not answer.silent and scontrol.unknown_job(answer.errors + answer.output)


def blocked(job: Job) -> str:
    """Return why a waiting link will never start by itself, with the fix, or empty."""
    never = stuck(job)
    return f"link {never}" if never else ""


def stuck(job: Job) -> str:
    """Return why a waiting job will never start by itself, with its number and the fix; or empty."""
    if not job.waiting:
        return ""
    reason = pending_reasons.judge(job.reason, job.state)
    if reason.wait is pending_reasons.Wait.PASSES:
        return ""
    return f"{job.raw_id} will not start ({job.reason}): {reason.why}: {reason.fix_for(job.raw_id)}"


def limited(job: Job) -> str:
    """Return a line where a link waits for a limit, a partition or a node out of service; or empty."""
    if not job.waiting or not _LIMITS.match(job.reason):
        return ""
    return (
        f"link {job.raw_id} does not wait for its turn, but for a limit or what is out of service "
        f"({job.reason}): nobody can say for how long; see 'scontrol show job {job.raw_id}'"
    )


def held_up(job: Job) -> str:
    """Return why a waiting link does not start in its turn, or empty."""
    return blocked(job) or limited(job)


def describe(job: Job) -> str:
    """Return `job 88 RUNNING on node1`, `job 89 PENDING (Priority), expected on node2`."""
    expected = f", expected on {job.expected_nodes}" if job.expected_nodes else ""
    where = f"({job.reason or 'no reason given'}){expected}" if job.waiting else f"on {job.nodes}"
    return f"job {job.raw_id} {job.state} {where}"


def as_json(job: Job) -> dict[str, object]:
    """Return a link as `status --json` shows it."""
    return {
        "job_id": job.raw_id,
        "state": job.state,
        "reason": job.reason,
        "node": job.nodes or None,
        "expected_node": job.expected_nodes or None,
        "partition": job.partition,
        "user": job.user,
        "started_at": None if job.started_at is None else iso(job.started_at),
        "ends_at": None if job.ends_at is None else iso(job.ends_at),
        "starts_about": None if job.start_estimate is None else iso(job.start_estimate),
    }


@dataclass(frozen=True, slots=True)
class ChainResult:
    """Result of starting or stopping: lines to print; `link`: the job submitted or found."""

    lines: tuple[str, ...]
    changed: bool
    link: Job | None = None
    warnings: tuple[str, ...] = ()


SLOW_START = 180.0
"""Seconds for a newer link to submit its own successor before an older one does it."""


@dataclass(frozen=True, slots=True)
class SuccessionPlan:
    """Plan of a link: submit a successor with these sbatch options (None: do not), cancel these jobs.

    `successor`: the link that waits already. `unseen`: the queue does not even show this link, so it shows
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

    `lost`: the controller does not know `me` any more. `every`: in tick mode, seconds between links. Times
    are seconds since the epoch.
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
    """Return a dependency on the end of `mine`, or on its last margin of walltime, whichever comes first.

    `after` alone would wait its full time when `mine` is cancelled. None where the controller lost `mine`:
    then the successor takes over as soon as it runs.
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
"""Minimum seconds for a link: a shorter one waits until the maintenance is over."""
_MAINTENANCE_SHARE = 0.9
_RESERVATION = re.compile(r"^ReservationName=(?>.*? StartTime=)(\S+) (?>.*? Flags=)(\S*)", re.MULTILINE)


def shortest(walltime: float, start: float) -> float:
    """Return the seconds to which a link starting at `start` or later may be shortened; 0: it may not.

    0 also where no maintenance window is in its way, or one is too close for any link.
    """
    if walltime <= LEAST:
        return 0.0
    argv = ("scontrol", "--oneliner", "show", "reservation")
    answer = command.ask(argv, deadline=QUERY_DEADLINE, env=command.environment(slurmtext.ENVIRONMENT))
    begins = [begin for begin in begins_of(answer.output) if begin > start] if answer.ok else []
    left = min(begins, default=float("inf")) - start
    return 0.0 if left >= walltime or left < LEAST else max(left * _MAINTENANCE_SHARE, LEAST)


def begins_of(text: str) -> list[float]:
    """Return the begins of maintenance windows (epoch) in `scontrol --oneliner show reservation`."""
    found = [(slurmtext.time(begin), flags.split(",")) for begin, flags in _RESERVATION.findall(text)]
    return [begin for begin, flags in found if begin is not None and "MAINT" in flags]


def is_in_the_way(job: Job) -> bool:
    """Return whether a link waits because a maintenance would begin before its end."""
    return job.waiting and "maintenance" in job.reason.lower()
