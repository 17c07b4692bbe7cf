"""State of job_liveness: the jobs of a run as last seen, and how one look changes it. Pure.

This module also decides which jobs and ends belong to a run: those with its name, and jobs that had it when
last seen. `advance` takes a JobHistory and what is seen now, and returns the next one; nothing is judged
here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from watchdogd.batch.models import WAITING_STATES, Ending, Job, Snapshot
from watchdogd.batch.run_models import JobDeed
from watchdogd.checks import working_job
from watchdogd.plugin import Run
from watchdogd.plugins.job_liveness.postmortem import PostMortem, Remains

PostMortemOf = Callable[[Remains], PostMortem]

ENDS_KEPT = 12
LIVES_KEPT = 200
TAKEN_KEPT = 300
FORGET = 1800.0
"""Seconds for which the end of a vanished job is waited for."""
CLOCK_SLACK = 10.0
"""Seconds by which the clocks of Slurm and of the switch's file server may differ."""


@dataclass(frozen=True, slots=True)
class KillSwitch:
    """Kill switch that is set: since when, by whom, and why (empty if somebody just touched it).

    `automatic`: watchdogd pressed it for an incident.
    """

    set_at: float
    by: str = ""
    reason: str = ""
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """Job as last seen alive; `since` is when its present state was first seen.

    `stalled_at`: since when it has made no progress, if it should make some.
    """

    id: str
    state: str
    since: float
    seen_at: float
    started_at: float | None = None
    nodes: str = ""
    user: str = ""
    stalled_at: float | None = None

    @property
    def ran(self) -> bool:
        """True if it had nodes when it was last seen."""
        return self.state not in WAITING_STATES

    @property
    def key(self) -> str:
        """Key of this job, different for each attempt under its id."""
        return f"{self.id} since {self.started_at or 0:.0f}"


@dataclass(frozen=True, slots=True)
class JobHistory:
    """State of a run between rounds; times in seconds since the epoch.

    `observed`: jobs of the last look, by raw id. `lost`: jobs that left the queue without a known end.
    `ends`: last ends of this run's jobs, oldest first. `unreported`: keys of those not reported yet.
    `tries`: last attempts of live jobs that were requeued under their ids.
    `taken`: keys of all ends processed so far, without those up to `taken_until`.
    `stop`: the kill switch as it was last seen set, at `stop_seen_at`. `stopped`: the run ended because of
        it.
    `resting`: that switch is cleared, and no job has been seen since.
    `gone`: number of rounds for which the run has been judged as over.
    `faults`: number of rounds for which the verdict on the run has been a fault; unknown ones do not count.
    `late`: its first job was seen only after it had been reported as never seen, and no fault came since.
    `post_mortems`: what is known of the work and the cause of bad ends, by key.
    `deed`: by what watchdogd ended the last job, if it did.
    """

    taken_until: float
    watched_since: float
    seen_at: float | None = None
    absent_since: float | None = None
    observed: Mapping[str, ObservedJob] = field(default_factory=dict)
    lost: Mapping[str, ObservedJob] = field(default_factory=dict)
    requeued: Mapping[str, ObservedJob] = field(default_factory=dict)
    ends: tuple[Ending, ...] = ()
    unreported: tuple[str, ...] = ()
    tries: tuple[Ending, ...] = ()
    taken: tuple[str, ...] = ()
    stop: KillSwitch | None = None
    stop_seen_at: float = 0.0
    stopped: bool = False
    resting: bool = False
    gone: int = 0
    finished: str = ""
    queue_reported: bool = False
    crashes_reported: bool = False
    faults: int = 0
    late: bool = False
    post_mortems: Mapping[str, PostMortem] = field(default_factory=dict)
    deed: JobDeed | None = None

    @property
    def last(self) -> Ending | None:
        """The end to report: the newest, but rather one that ran than one that was cancelled with it.

        Of several that ran and ended together, it is the one that started last, which did the run's work.
        """
        if not self.ends:
            return None
        newest = self.ends[-1].ended_at or 0.0
        ran = [end for end in self.ends if end.started_at and (end.ended_at or 0.0) >= newest - 60]
        return max(reversed(ran), key=lambda end: end.started_at or 0.0) if ran else self.ends[-1]

    @property
    def trials(self) -> tuple[Ending, ...]:
        """Ends, including those of earlier attempts of live jobs, oldest first."""
        return tuple(sorted((*self.ends, *self.tries), key=_order))

    @property
    def news(self) -> tuple[Ending, ...]:
        """Ends that were not reported yet."""
        return tuple(end for end in self.ends if end_key(end) in self.unreported)

    def post_mortem_at(self, end: Ending) -> PostMortem:
        """Return what is known of the work and the cause of an end."""
        return self.post_mortems.get(end_key(end), PostMortem())

    @property
    def ended_by_switch(self) -> bool:
        """True if the run's last job ended after the kill switch was set, as far as is known."""
        if self.stop is None:
            return False
        if any(seen_job.ran for seen_job in self.lost.values()):
            return True
        end = self.ends[-1].ended_at if self.ends else self.absent_since
        return end is not None and end + CLOCK_SLACK >= self.stop.set_at


def begin_round(history: JobHistory | None, now: float) -> JobHistory:
    """Return the state at the beginning of a round; None: there was none.

    If the clock was set back, what we saw in the future counts as seen now, since an absence would else be
    reported hours late. Times from Slurm stay as they are.
    """
    if history is None:
        return JobHistory(taken_until=now, watched_since=now)
    if max(history.seen_at or 0.0, history.absent_since or 0.0) <= now:
        return history
    return dataclasses.replace(
        history,
        seen_at=None if history.seen_at is None else min(history.seen_at, now),
        absent_since=None if history.absent_since is None else min(history.absent_since, now),
        observed=_seen_by(history.observed, now),
        lost=_seen_by(history.lost, now),
    )


def _seen_by(observed: Mapping[str, ObservedJob], now: float) -> dict[str, ObservedJob]:
    return {
        raw_id: dataclasses.replace(
            seen_job, since=min(seen_job.since, now), seen_at=min(seen_job.seen_at, now)
        )
        for raw_id, seen_job in observed.items()
    }


def end_key(end: Ending) -> str:
    """Return the key of an end, different for each end under the same id."""
    return f"{end.raw_id}@{end.ended_at or 0:.0f}"


def advance(
    history: JobHistory,
    jobs: Sequence[Job],
    endings: Sequence[Ending],
    switch: KillSwitch | None,
    *,
    attempts: Sequence[Ending] = (),
    stalled_at: float | None = None,
    looked_at: float,
    now: float,
) -> JobHistory:
    """Return the state after a look: `jobs` were alive and had `endings` at `looked_at`.

    `stalled_at`: since when they have made no progress, if they should. `switch` is the kill switch as seen
    `now`. `attempts` are ends of earlier attempts of live jobs, as far as this look shows them. One look may
    serve several rounds; it then counts only once.
    """
    here = {job.raw_id for job in jobs}  # a COMPLETING job has an end but is alive: reported once it is gone
    fresh = _fresh(history, [end for end in endings if end.raw_id not in here])
    if history.stop is not None and switch is None:
        history = _cleared(history, jobs, fresh)
    history = _completed(history, endings)
    history = _taken_in(history, fresh, silent=switch is not None or history.resting)
    history = _seen(history, jobs, looked_at, stalled_at)
    tries = {end_key(end): end for end in (*history.tries, *attempts) if end.raw_id in here}
    history = dataclasses.replace(history, tries=tuple(sorted(tries.values(), key=_order))[-ENDS_KEPT:])
    if switch is not None:
        history = dataclasses.replace(history, stop=switch, stop_seen_at=now, resting=False)
        stopped = all(job.waiting for job in jobs) and (history.stopped or history.ended_by_switch)
        history = dataclasses.replace(history, stopped=stopped)
    return history


def add_post_mortems(
    history: JobHistory, post_mortem_of: PostMortemOf, *, absent_after: float, now: float
) -> JobHistory:
    """Add the result of `post_mortem_of` for each bad end, asked once for each."""
    wanted = {
        end_key(end): Remains(
            end.id, end.raw_id, end.started_at, end.ended_at or now, end.nodes, end.outputs, end.work_dir
        )
        for end in history.ends
        if not end.well and end.started_at is not None
    }
    quiet = {
        raw: seen_job
        for raw, seen_job in history.lost.items()
        if seen_job.ran and now - seen_job.seen_at >= absent_after
    }
    for raw_id, seen_job in (*quiet.items(), *history.requeued.items()):
        times = seen_job.started_at, seen_job.seen_at
        wanted[seen_job.key] = Remains(seen_job.id, raw_id, *times, seen_job.nodes)
    post_mortems = {
        name: history.post_mortems[name] if name in history.post_mortems else post_mortem_of(remains)
        for name, remains in wanted.items()
    }
    return dataclasses.replace(history, post_mortems=post_mortems)


def note_deed(history: JobHistory, run: Run) -> JobHistory:
    """Note by what watchdogd ended the last job of a run.

    Once that was judged twice it stays, since actions are remembered for a day only.
    """
    if history.absent_since is None:
        return dataclasses.replace(history, deed=None)
    if history.gone >= 2:
        return history
    lost = max(history.lost.values(), key=lambda each: each.ran, default=None)
    deed = None
    if lost is not None and lost.ran:
        deed = run.deed("cancel", lost.started_at, lost.seen_at, history.absent_since)
    elif history.last is not None:
        deed = deed_of(run, history.last)
    return dataclasses.replace(history, deed=deed)


def deed_of(run: Run, end: Ending) -> JobDeed | None:
    """Return by what watchdogd ended a job, or None: somebody else did, or it ended by itself."""
    if end.ended_at is None or end.started_at is None:
        return None
    return run.deed("cancel", end.started_at, end.ended_at, end.ended_at + CLOCK_SLACK)


def _fresh(history: JobHistory, endings: Sequence[Ending]) -> tuple[Ending, ...]:
    """Return the ends not yet processed: of jobs that were seen alive, and all since watching began."""
    observed = {**history.lost, **history.observed}
    found = []
    for end in endings:
        seen_job = observed.get(end.raw_id)
        new = (end.ended_at or 0.0) > history.taken_until or (
            seen_job is not None and (end.ended_at or 0.0) >= (seen_job.started_at or 0.0)
        )
        if end.over and new and end_key(end) not in history.taken:
            found.append(end)
    return tuple(sorted(found, key=_order))


def _order(end: Ending) -> tuple[float, bool]:
    """Return the sort key by time; of ends at the same time, that of a job that ran is the newest."""
    return end.ended_at or 0.0, end.started_at is not None


def _cleared(history: JobHistory, jobs: Sequence[Job], fresh: Sequence[Ending]) -> JobHistory:
    """Decide, once the kill switch is cleared, whether the run rests or is expected to be alive."""
    assert history.stop is not None
    set_at = history.stop.set_at
    revived = any(
        (end.submitted_at or 0.0) > set_at and (end.ended_at or 0.0) > history.stop_seen_at for end in fresh
    )
    between = history.observed and all(
        end.well for end in fresh
    )  # it obeyed after our look, and the switch was cleared then
    if not jobs and not revived and (history.stopped or between):
        return dataclasses.replace(history, resting=True, stopped=True)
    here = {job.raw_id for job in jobs}
    left = {raw_id: each for raw_id, each in history.observed.items() if raw_id in here or not between}
    return dataclasses.replace(
        history,
        observed=left,
        stop=None,
        stopped=False,
        resting=False,
        ends=() if history.stopped else history.ends,
        unreported=(),
    )


def _completed(history: JobHistory, endings: Sequence[Ending]) -> JobHistory:
    """Add to the known ends what accounting reports late: who cancelled a job, and its exit code."""
    found = {end_key(end): end for end in endings if end.complete}
    ends = tuple(end if end.complete else found.get(end_key(end), end) for end in history.ends)
    return history if ends == history.ends else dataclasses.replace(history, ends=ends)


def _taken_in(history: JobHistory, fresh: Sequence[Ending], *, silent: bool) -> JobHistory:
    keys = tuple(end_key(end) for end in fresh)
    taken = (*history.taken, *keys)
    until = history.taken_until
    if len(taken) > TAKEN_KEPT:
        dropped, taken = taken[: -TAKEN_KEPT // 2], taken[-TAKEN_KEPT // 2 :]
        until = max(until, *(float(old.rpartition("@")[2]) for old in dropped))
    ends = tuple(sorted((*history.ends, *fresh), key=_order))[-ENDS_KEPT:]
    unreported = () if silent else (*history.unreported, *keys)[-ENDS_KEPT:]
    return dataclasses.replace(history, ends=ends, unreported=unreported, taken=taken, taken_until=until)


def _seen(history: JobHistory, jobs: Sequence[Job], now: float, stalled_at: float | None) -> JobHistory:
    """Update which jobs are alive, were requeued, or vanished without an end."""
    here = {job.raw_id: job for job in jobs[:LIVES_KEPT]}
    over = {end.raw_id for end in history.ends}
    vanished = {**history.lost, **history.observed}
    lost = {
        raw_id: seen_job
        for raw_id, seen_job in vanished.items()
        if raw_id not in here and raw_id not in over and now - seen_job.seen_at < FORGET
    }
    return dataclasses.replace(
        history,
        observed={
            raw_id: _observe(history.observed.get(raw_id), job, now, stalled_at)
            for raw_id, job in here.items()
        },
        lost=dict(list(lost.items())[-LIVES_KEPT:]),
        requeued={
            raw_id: seen_job
            for raw_id, seen_job in history.observed.items()
            if raw_id in here and _requeued(seen_job, here[raw_id])
        },
        late=history.late or (bool(jobs) and history.seen_at is None and history.faults > 0),
        seen_at=now if jobs else history.seen_at,
        absent_since=None if jobs else now if history.absent_since is None else history.absent_since,
    )


def _observe(before: ObservedJob | None, job: Job, now: float, stalled_at: float | None) -> ObservedJob:
    since = before.since if before is not None and before.state == job.state else now
    return ObservedJob(job.id, job.state, since, now, job.started_at, job.nodes, job.user, stalled_at)


def _requeued(before: ObservedJob, job: Job) -> bool:
    """Return True if it had nodes and now waits, or has started again, under the same id."""
    if not before.ran:
        return False
    later = (job.started_at or 0.0) > (before.started_at or 0.0) + 1
    return job.waiting or (before.started_at is not None and later)


def living_jobs(run: Run, snapshot: Snapshot, history: JobHistory) -> tuple[Job, ...]:
    """Return the run's live jobs, including one renamed (`scontrol update`) since it was last seen."""
    found = list(snapshot.of(job_name_of(run, snapshot)))
    found += (job for job in snapshot.renamed if job.name != run.job_name and _known(job, history.observed))
    return working_job.merge_het_jobs(job for job in found if not run.users or job.user in run.users)


def ended_jobs(run: Run, snapshot: Snapshot, jobs: tuple[Job, ...]) -> tuple[Ending, ...]:
    """Return the run's ends; `jobs` are its live jobs."""
    found = snapshot.ended(job_name_of(run, snapshot))
    return working_job.merge_het_ends((end for end in found if not run.users or end.user in run.users), jobs)


def job_name_of(run: Run, snapshot: Snapshot) -> str:
    return run.name if snapshot.backend == "process" else run.job_name


def _known(job: Job, observed: Mapping[str, ObservedJob]) -> bool:
    """Return True if it was seen under another name: same id and, since ids are reused, same start."""
    seen_job = observed.get(job.raw_id)
    return seen_job is not None and not job.own and seen_job.started_at in (None, job.started_at)
