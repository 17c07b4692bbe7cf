"""PBS, asked once a round for all runs: one qstat, and one more for jobs that have left the queue."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping

from watchdogd.batch import qstat
from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.errors import SlurmSilentError, UnreadableError
from watchdogd.system import command
from watchdogd.system.account import own_name

FORGET = 1800.0
"""Seconds for which a vanished job's end is asked for."""
_ASKED_AFTER = 20
_PRIVATE = re.compile(r"^[ \t]*+query_other_jobs\s*=\s*False\s*$", re.MULTILINE | re.IGNORECASE)
_REFUSED = ("usage", "option", "conflicting")
"""Words with which a qstat without JSON (TORQUE's, PBS Pro before 14) rejects the option."""


def look(
    wanted: Collection[str],
    users: Collection[str],
    known: Mapping[str, float],
    deadline: float,
    now: float,
    sought: Collection[str] | None = None,
) -> Snapshot:
    """Return the living jobs of `users`, and the ends of those in `known` (last seen, by id).

    `wanted`: names of the runs that should be alive; `deadline`: seconds for all of it. Where a name is
    missing that is not in `sought`, the server is asked whether it hides other users' jobs. Never raises:
    trouble is in the Snapshot.
    """
    until = time.monotonic() + deadline
    names, people = frozenset(wanted), frozenset(users)
    try:
        found = _asked((), until)
        living = qstat.jobs(found)
        jobs = tuple(job for job in living if job.user in people)
    except UnreadableError as error:
        return Snapshot(now, trouble=str(error), backend="pbs", users=people, known=known)
    ends = {end.raw_id: end for end in qstat.endings(found) if end.user in people}
    here = {job.raw_id for job in jobs}
    vanished = {job_id: at for job_id, at in known.items() if job_id not in here and now - at < FORGET}
    trouble = ""
    try:
        ends |= {end.raw_id: end for end in _history(vanished.keys() - ends.keys(), until)}
    except UnreadableError as error:
        trouble = str(error)
    absent = names - {job.name for job in jobs}
    unsought = sought is not None and not absent <= frozenset(sought)
    shown = {job.user for job in living} - {own_name()}
    others = people - {own_name()} - shown if absent else frozenset[str]()
    private = bool(others or (unsought and not shown)) and _private(until)
    return Snapshot(
        now,
        jobs=jobs,
        elsewhere=tuple(job for job in living if job.name in absent and job.user not in people),
        sought=absent if unsought else frozenset(),
        veiled=private and unsought and not shown,
        hidden=others if private else frozenset(),
        endings=tuple(sorted(ends.values(), key=lambda end: (end.ended_at or 0.0, end.raw_id))),
        endings_trouble=trouble,
        backend="pbs",
        users=people,
        known={
            **{job_id: at for job_id, at in vanished.items() if job_id not in ends},
            **{job.raw_id: now for job in jobs if job.name in names},
        },
    )


def all_jobs(deadline: float) -> tuple[Job, ...]:
    """Return all living jobs. SlurmSilentError without an answer."""
    try:
        return qstat.jobs(_asked((), time.monotonic() + deadline))
    except UnreadableError as error:
        raise SlurmSilentError(f"qstat does not tell which jobs live: {error}") from None


def _private(until: float) -> bool:
    """Return whether the server shows only one's own jobs (query_other_jobs)."""
    if os.geteuid() == 0:
        return False
    left = round(max(until - time.monotonic(), 0.1), 1)
    answer = command.ask(("qstat", "-B", "-f"), deadline=left)
    return answer.ok and bool(_PRIVATE.search(answer.output))


def _history(ids: Iterable[str], until: float) -> tuple[Ending, ...]:
    """Return the ends of jobs that have left the queue. UnreadableError where PBS keeps no history."""
    chosen = sorted(ids)[:_ASKED_AFTER]
    return qstat.endings(_asked(chosen, until)) if chosen else ()


def _asked(ids: Collection[str], until: float) -> dict[str, dict[str, str]]:
    """Return qstat's records, from JSON where it can print it. UnreadableError where it fails.

    With several ids of which it knows only some, it fails and lists those.
    """
    for form in (qstat.JSON, qstat.TEXT):
        left = round(max(until - time.monotonic(), 0.1), 1)
        answer = command.ask(qstat.argv(form=form, ids=ids), deadline=left)
        if answer.silent or answer.truncated:
            raise UnreadableError(
                answer.complaint() if answer.silent else "qstat printed more than can be kept"
            )
        refused = not answer.ok and any(word in answer.errors.lower() for word in _REFUSED)
        if form == qstat.JSON and refused:
            continue
        if not answer.ok and not (ids and answer.output.strip()):
            raise UnreadableError(f"qstat: {answer.complaint('qstat')}")
        try:
            return qstat.records(answer.output)
        except UnreadableError:
            if form == qstat.TEXT:
                raise
    raise UnreadableError("qstat knows neither of its forms")
