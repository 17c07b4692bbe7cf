"""Stopping of the watchdog with all its jobs, beginning with those that could take over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence

from watchdogd.batch import slurm
from watchdogd.batch.models import Job
from watchdogd.chain import link_script, live_links
from watchdogd.chain.live_links import ChainResult
from watchdogd.errors import HomeError, SlurmSilentError, WatchdogError
from watchdogd.home import lease, markers
from watchdogd.home.layout import Home
from watchdogd.home.lease_record import lives
from watchdogd.system.account import own_name

_GONE, _SILENT = 90.0, 30.0
_LOOK = 0.5


def stop(home: Home, reason: str = "", *, jobs_go_on: bool = False) -> ChainResult:
    """Stop the watchdog for good; `jobs_go_on`: keep queued jobs of its drop-ins.

    WatchdogError where something is left after 90 seconds, or Slurm does not answer for 30: then the stop
    marker ends it later. An ended job that has not left its node by then (an epilogue, a dead node) is a
    warning.
    """
    with contextlib.suppress(OSError):  # a full disk: it is ended without the marker
        markers.mark_stopped(home, reason, jobs_go_on=jobs_go_on)
    if jobs_go_on:
        with contextlib.suppress(OSError):  # otherwise the next tick reports the stop, and removes them
            markers.remove_ticks(home)
    begin = time.monotonic()
    ended: dict[str, str] = {}
    while True:
        left = _end_process(home, ended)
        leaving: list[str] = []
        try:
            jobs = _end_jobs(home, ended, dropins=not jobs_go_on)
            left += [f"{live_links.describe(each)} of {each.user}" for each in jobs if not each.leaving]
            leaving = [
                f"{live_links.describe(each)} is over, but has not left yet" for each in jobs if each.leaving
            ]
            patience = _GONE
        except SlurmSilentError as error:
            left.append(f"what it has in the queue ({error})")
            patience = _SILENT
        late = time.monotonic() - begin > patience
        if not left and (late or not leaving):
            said = f"ended {', '.join(ended.values())}" if ended else "it was not running"
            others = () if jobs_go_on else _of_others(home)
            return ChainResult((said,), bool(ended), warnings=(*leaving, *others))
        if late:
            raise WatchdogError(
                f"{', '.join(left)} may go on: the stop mark in home ends it as soon as it sees it"
            )
        time.sleep(_LOOK)


def cancel(home: Home, jobs: Sequence[Job]) -> None:
    """Cancel links and jobs of drop-ins, waiting ones first. SlurmError.

    Jobs of drop-ins are recorded first, so that their end is no failure to the next daemon.
    """
    mark = link_script.mark_of(home)
    dropped = [job.array_id or job.raw_id for job in jobs if job.comment != mark]
    if dropped:
        with contextlib.suppress(OSError):  # a full disk: they are reported as cancelled
            markers.note_ended_jobs(home, dropped)
    slurm.scancel([job.handle for job in jobs if job.waiting])
    slurm.scancel([job.handle for job in jobs if not job.waiting and not job.leaving])


def _end_jobs(home: Home, ended: dict[str, str], *, dropins: bool) -> list[Job]:
    """Cancel this user's jobs; return those that are left and worth waiting for."""
    found = live_links.all_links(home, dropins=dropins)
    mine = [each for each in found if _is_mine(each)]
    ended.update((each.id, f"job {each.id}") for each in mine)
    cancel(home, mine)
    mark = link_script.mark_of(home)
    alive = any(each.comment == mark for each in found)  # another user's link ends its own drop-ins
    return [each for each in found if alive or _is_mine(each)]


def _of_others(home: Home) -> tuple[str, ...]:
    """Return a line for each job of a drop-in that only another user can end."""
    return tuple(
        f"{live_links.describe(each)} ({each.comment.partition(' ')[2]}) goes on: only {each.user} can end it"
        for each in live_links.all_links(home, dropins=True)
        if not _is_mine(each)
    )


def _is_mine(job: Job) -> bool:
    return os.geteuid() == 0 or job.user == own_name()


def _end_process(home: Home, ended: dict[str, str]) -> list[str]:
    """Stop a daemon that is no link; return what is left.

    On another node, or of another user, it sees the stop marker.
    """
    try:
        holder = lease.alive(home)
    except OSError as error:
        raise HomeError(f"{home.path} cannot be read: {error.strerror}") from None
    if holder is None:
        return []
    if holder.job_id:
        ended.setdefault(holder.job_id, f"job {holder.job_id}")
    elif holder.id not in ended:
        ended[holder.id] = str(holder)
        if lives(holder):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or another user's
                os.kill(holder.pid, signal.SIGTERM)
    return [str(holder)]
