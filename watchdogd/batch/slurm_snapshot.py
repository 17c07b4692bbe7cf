"""Snapshot of Slurm, taken once a round for all runs: one squeue, and one sacct where necessary.

squeue also lists jobs that ended within the controller's MinJobAge, so that an end is known even where
accounting lags, fails, or has no record (a job cancelled before its start). Where accounting does not know an
end, `scontrol show job` still has the exit code.
"""

from __future__ import annotations

import dataclasses
import os
import pwd
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial

from watchdogd.batch import sacct, scontrol, slurmtext, squeue
from watchdogd.batch.models import Ending, Job, Snapshot
from watchdogd.errors import UnreadableError
from watchdogd.system import account, command
from watchdogd.system.account import own_name, user_name
from watchdogd.system.number import count

LOOKBACK = 2 * 86400.0
"""Seconds of accounting that are searched for a run without a living job."""
FORGET = 1800.0
"""Seconds for which a vanished job's end is asked for."""
_DETAILS_A_LOOK = 4
_DOUBTED_A_LOOK = 3
_SAY_LITTLE = frozenset({"FAILED", "TIMEOUT", "CANCELLED", "REQUEUED"})
"""States of jobs for which the steps' ends are read."""
_BEFORE_START = ("CANCELLED", "DEADLINE")
"""Ends of jobs that were never eligible to start."""
_CLOCK_SLACK = 60.0
_NEWS = 600.0
"""Seconds for which steps of a failed job are asked for if it was never seen alive."""
_NEVER = float("inf")
_ROUNDED = 1.0
"""Resolution of Slurm's times, in seconds."""
_FUNCTION = re.compile(r"^slurm_\w+ error: ")


def look(
    wanted: Collection[str],
    users: Collection[str],
    known: Mapping[str, float],
    deadline: float,
    now: float,
    sought: Collection[str] | None = None,
) -> Snapshot:
    """Return the living jobs, and the ends of those that are over.

    `wanted`: job names of the runs that should be alive; `users`: whose jobs count (none: the daemon's);
    `known`: that of the last Snapshot; `deadline`: seconds for all of it. `sought`: names for which jobs of
    other users were searched recently (None: do not search); another name without a living job brings one
    more squeue. Never raises: trouble is in the Snapshot.
    """
    people = frozenset(users) or frozenset({own_name()})
    return _Look(frozenset(wanted), people, known, deadline, now, sought).take()


class _Look:
    """One snapshot in the making: its request, and the time left."""

    def __init__(
        self,
        wanted: frozenset[str],
        users: frozenset[str],
        known: Mapping[str, float],
        deadline: float,
        now: float,
        sought: Collection[str] | None = None,
    ) -> None:
        self.wanted, self.users, self.known, self.now = wanted, users, known, now
        self.until = time.monotonic() + deadline
        self.sought = wanted if sought is None else frozenset(sought)
        self.unknown_fields: list[str] = []
        self.people = frozenset(filter(_in_name_service, users))

    def take(self) -> Snapshot:
        listed, trouble = self._queue()
        if listed is None:
            return self._silent(trouble)
        living = tuple(job for job in listed if not job.ended)
        over = tuple(job for job in listed if job.ended)
        vanished = self._vanished(living)
        absent = self.wanted - {job.name for job in living if not job.own}
        endings, attempts, endings_trouble = self._endings(over, living, vanished, absent)
        ended = {ending.raw_id for ending in endings if ending.ended_at}
        if doubt := self._doubt(vanished.keys() - ended, empty=not listed):
            return self._silent(doubt)
        elsewhere, names = self._elsewhere(absent)
        return Snapshot(
            self.now,
            jobs=living,
            endings=endings,
            endings_trouble=endings_trouble,
            attempts=attempts,
            users=self.users,
            hidden=self._hidden(listed) if absent else frozenset(),
            elsewhere=elsewhere,
            sought=names,
            veiled=bool(names) and self._veiled((*listed, *elsewhere)),
            renamed=tuple(job for job in living if job.raw_id in self.known and not self._is_wanted(job)),
            known={
                **{raw_id: seen for raw_id, seen in vanished.items() if raw_id not in ended},
                **{
                    job.raw_id: self.now
                    for job in living
                    if self._is_wanted(job) or (job.raw_id in self.known and not job.own)
                },
            },
        )

    def _is_wanted(self, job: Job) -> bool:
        return job.name in self.wanted and not job.own

    def _silent(self, trouble: str) -> Snapshot:
        return Snapshot(self.now, trouble=trouble, users=self.users, known=self.known)

    def _ask(self, argv: Sequence[str]) -> command.Answer:
        left = round(max(self.until - time.monotonic(), 0.1), 1)
        return command.ask(argv, deadline=left, env=command.environment(slurmtext.ENVIRONMENT))

    def _queue(self) -> tuple[tuple[Job, ...] | None, str]:
        """Return squeue's jobs, or None and the reason in one line."""
        if not self.people:
            return None, f"the name service knows none of the users {', '.join(sorted(self.users))}"
        mark = slurmtext.mark()
        answer = self._ask(squeue.argv(self.people, ended=True, mark=mark))
        if not answer.ok:
            return None, _complaint("squeue", answer)
        try:
            jobs = squeue.read(answer.output, mark)
        except UnreadableError as error:
            return None, str(error)
        if not jobs and answer.errors.strip():
            return None, f"squeue listed nothing and said: {answer.complaint()}"
        return tuple(job for job in jobs if self._asked_for(job.user)), ""

    def _asked_for(self, name: str) -> bool:
        """Return whether the user of a record is among those requested, perhaps under another name."""
        return name in self.people or account.user_id(name) in map(account.user_id, self.people)

    def _vanished(self, living: tuple[Job, ...]) -> dict[str, float]:
        """Return known jobs that no longer live, unless their end has been unknown for too long."""
        here = {job.raw_id for job in living}
        return {
            raw_id: seen
            for raw_id, seen in self.known.items()
            if raw_id not in here and self.now - seen < FORGET
        }

    def _requeued(self, submitted: Mapping[str, float]) -> bool:
        """Return whether a job was seen alive before its submission time, since a requeue is a submission."""
        return any(at + _ROUNDED > self.known.get(raw_id, _NEVER) for raw_id, at in submitted.items())

    def _endings(
        self,
        over: tuple[Job, ...],
        living: tuple[Job, ...],
        vanished: Mapping[str, float],
        absent: frozenset[str],
    ) -> tuple[tuple[Ending, ...], tuple[Ending, ...], str]:
        """Return all known ends, oldest first, those of requeued attempts, and accounting's trouble."""
        last_look = max(self.known.values(), default=0.0)
        fresh = {
            job.raw_id
            for job in over
            if job.name in self.wanted and (job.ends_at or self.now) >= last_look - _CLOCK_SLACK
        }
        known = {job.raw_id: _ending(job) for job in over}
        submitted = {job.raw_id: job.submitted_at or 0.0 for job in living}
        attempts: tuple[Ending, ...] = ()
        trouble = ""
        if vanished or absent or self._requeued(submitted) or fresh - self.known.keys():
            since = self.now - LOOKBACK if absent else min([last_look, *vanished.values()])
            accounted, earlier, trouble = self._accounting(since)
            attempts = tuple(
                end
                for end in (*earlier, *accounted)
                if end.ended_at and (end.submitted_at or 0.0) < submitted.get(end.raw_id, 0.0)
            )
            for ending in (end for end in accounted if end not in attempts):
                if ending.ended_at or ending.raw_id not in known:
                    known[ending.raw_id] = ending
            if not trouble and any(_unexplained(known.get(each)) for each in fresh | vanished.keys()):
                unstarted, _, trouble = self._accounting(since, _BEFORE_START)
                known |= {end.raw_id: end for end in unstarted if _unexplained(known.get(end.raw_id))}
            self._details(known, (fresh | vanished.keys()) & known.keys())
            attempts = self._with_steps(known, attempts, fresh | vanished.keys(), last_look)
        return tuple(sorted(known.values(), key=_order)), attempts, trouble

    def _accounting(
        self, since: float, states: Collection[str] = ()
    ) -> tuple[tuple[Ending, ...], tuple[Ending, ...], str]:
        """Return sacct's ends and those of earlier attempts, or none and the reason in one line.

        `states`: ends in these states only, also of jobs that were never eligible to start.
        """
        minutes = int((self.now - since) / 60) + 10
        without, mark = self.unknown_fields, slurmtext.mark()
        request = partial(
            sacct.argv, self.people, self.wanted, since_minutes=minutes, states=states, mark=mark
        )
        answer = self._ask(request(without=without))
        while (field := sacct.refused_field(answer.errors)) and field not in without:
            without.append(field)
            answer = self._ask(request(without=without))
        if not answer.ok:
            return (), (), _complaint("sacct", answer)
        try:
            endings, earlier = sacct.read_all(answer.output, without, mark)
        except UnreadableError as error:
            return (), (), str(error)
        if not endings and answer.errors.strip():
            return (), (), f"sacct listed nothing and said: {answer.complaint()}"
        return self._named(filter(self._fits, endings)), self._named(filter(self._fits, earlier)), ""

    def _fits(self, end: Ending) -> bool:
        return not end.user or self._asked_for(end.user)

    def _named(self, endings: Iterable[Ending]) -> tuple[Ending, ...]:
        """Return ends with squeue's spelling of job names, and with names for user ids."""
        names = {sacct.accounting_name(name): name for name in self.wanted}
        return tuple(
            dataclasses.replace(
                end,
                name=names.get(sacct.accounting_name(end.name), end.name),
                cancelled_by=_name(end.cancelled_by),
            )
            for end in endings
        )

    def _with_steps(
        self, known: dict[str, Ending], attempts: tuple[Ending, ...], fresh: Collection[str], last_look: float
    ) -> tuple[Ending, ...]:
        """Add the steps' ends of `fresh` and recently failed jobs; return the attempts with theirs."""
        since = (last_look or self.now - _NEWS) - _CLOCK_SLACK
        ends = [*known.values(), *attempts]
        late = [end for end in ends if end.raw_id in fresh or (end.ended_at or 0.0) >= since]
        doubted = sorted((end for end in late if end.state in _SAY_LITTLE), key=_order)
        wanted = {end.raw_id for end in doubted[-_DETAILS_A_LOOK:] if end.name in self.wanted}
        if not wanted:
            return attempts
        minutes = int((self.now - min(end.started_at or since for end in doubted)) / 60) + 10
        without, mark = self.unknown_fields, slurmtext.mark()
        answer = self._ask(sacct.steps_argv(wanted, since_minutes=minutes, without=without, mark=mark))
        try:
            steps = sacct.read_steps(answer.output, without, mark) if answer.ok else ()
        except UnreadableError:
            return attempts
        for raw_id in wanted & known.keys():
            known[raw_id] = sacct.with_step(known[raw_id], steps)
        return tuple(sacct.with_step(end, steps) if end.raw_id in wanted else end for end in attempts)

    def _details(self, known: dict[str, Ending], fresh: Collection[str]) -> None:
        """Ask the controller for missing exit codes, and for the output files of failed jobs."""
        wanted = [known[raw_id] for raw_id in fresh if not known[raw_id].well]
        for ending in sorted(wanted, key=_order)[-_DETAILS_A_LOOK:]:
            answer = self._ask(("scontrol", "show", "job", ending.raw_id))
            text = answer.output if answer.ok else ""
            if found := scontrol.exit_codes(text).get(ending.raw_id) if ending.exit_code is None else None:
                ending = dataclasses.replace(ending, exit_code=found[0], signal=found[1])
            files = scontrol.files(text, ending.raw_id)
            outputs = tuple(dict.fromkeys(files[name] for name in ("StdErr", "StdOut") if name in files))
            known[ending.raw_id] = dataclasses.replace(
                ending, outputs=outputs, work_dir=files.get("WorkDir", "")
            )

    def _doubt(self, gone: Collection[str], *, empty: bool) -> str:
        """Return why an answer in which jobs are suddenly missing is not believed.

        Empty where the controller confirms it. squeue of a busy controller can time out with exit 0 and no
        output, and one of several clusters may be silent.
        """
        lists = "suddenly listed nothing" if empty else "does not list all"
        for raw_id in sorted(gone, key=lambda each: (self.known[each], each))[: -_DOUBTED_A_LOOK - 1 : -1]:
            answer = self._ask(("scontrol", "show", "job", raw_id))
            if scontrol.users(answer.output).get(raw_id, "") not in {"", *self.users}:
                continue  # an earlier daemon counted that user's jobs
            if raw_id in (states := scontrol.states(answer.output)):
                reason = f"it still knows job {raw_id}, {states[raw_id]}"
            elif not empty or scontrol.unknown_job(answer.errors + answer.output):
                continue
            else:
                reason = f"scontrol: {answer.complaint()}"
            return f"squeue {lists}, which the controller does not confirm ({reason})"
        return ""

    def _elsewhere(self, absent: frozenset[str]) -> tuple[tuple[Job, ...], frozenset[str]]:
        """Return other users' jobs with absent names, and the names searched, unless all were recently."""
        if absent <= self.sought:
            return (), frozenset()
        mark = slurmtext.mark()
        answer = self._ask(squeue.argv(names=absent, mark=mark))
        try:
            found = squeue.read(answer.output, mark) if answer.ok else ()
        except UnreadableError:
            return (), frozenset()
        theirs = (job for job in found if job.name in absent and job.user not in self.users)
        return tuple(job for job in theirs if not job.own), absent if answer.ok else frozenset()

    def _hidden(self, listed: tuple[Job, ...]) -> frozenset[str]:
        """Return the users whose jobs the site hides; not oneself, nor one whose jobs are visible."""
        others = self.people - {own_name()} - {job.user for job in listed}
        return others if others and self._private else frozenset()

    def _veiled(self, seen: tuple[Job, ...]) -> bool:
        """Return whether other users' jobs may exist and be hidden."""
        return all(job.user == own_name() for job in seen) and self._private

    @cached_property
    def _private(self) -> bool:
        """Return whether the site shows users only their own jobs."""
        if os.geteuid() == 0:
            return False
        answer = self._ask(("scontrol", "show", "config"))
        return answer.ok and scontrol.hides_jobs(answer.output)


def _unexplained(end: Ending | None) -> bool:
    """Return whether a job's end, or who cancelled it, is not known."""
    return end is None or not end.ended_at or (end.state == "CANCELLED" and not end.cancelled_by)


def _complaint(tool: str, answer: command.Answer) -> str:
    """Return the failure with the tool's name once and without the library function's."""
    if answer.trouble or not answer.said:
        return answer.complaint()
    return f"{tool}: {_FUNCTION.sub('', answer.said.removeprefix(f'{tool}: '))}"


def _ending(job: Job) -> Ending:
    """Return the end of a job in squeue, without its exit code."""
    exit_code, signal = (0, 0) if job.state == "COMPLETED" else (None, None)
    return Ending(
        id=job.id,
        raw_id=job.raw_id,
        name=job.name,
        user=job.user,
        state=job.state,
        exit_code=exit_code,
        signal=signal,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ends_at,
        nodes=job.nodes,
        comment=job.comment,
        reason=job.reason,
    )


def _order(ending: Ending) -> tuple[bool, float, str]:
    return ending.ended_at is None, ending.ended_at or 0.0, ending.raw_id


def _in_name_service(name: str) -> bool:
    """Return whether the name service knows the user: sacct fails altogether for an unknown one."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _name(uid: str) -> str:
    """Return the name of a numeric user id; others unchanged."""
    return uid if count(uid) is None else user_name(int(uid))
