"""Situation of a run, as job_liveness judges it, with its wording and the commands for the reader."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from watchdogd.batch import commands, pending_reasons, slurmtext
from watchdogd.batch.models import ENDING_STATES, PAUSED_STATES, STARTING_STATES, Ending, Job, Snapshot
from watchdogd.batch.pending_reasons import Wait
from watchdogd.batch.run_models import SURE, JobDeed
from watchdogd.checks.node_checks import leave_out
from watchdogd.checks.working_job import as_owner, where
from watchdogd.plugin import Advice, Result, Run, Suspect
from watchdogd.plugins.job_liveness.job_history import KillSwitch
from watchdogd.plugins.job_liveness.postmortem import PostMortem
from watchdogd.units import age, local_time

_OF_THE_OWNER = frozenset({"end", "requeue", "hold", "rename"})
"""Commands about a job (fields of BatchCommands) that its owner may give."""


@dataclass(frozen=True, slots=True)
class LivenessLimits:
    """Parameters of job_liveness, in seconds and jobs; `unseen_after`: for a run that was never seen."""

    absent_after: float = 120.0
    unseen_after: float = 120.0
    min_queued: int | None = None
    obey_within: float = 900.0
    estimate_late: float = 3600.0
    completing_for: float = 900.0
    crash_within: float = 600.0
    crashes: int = 3
    walltime_left: float = 3600.0


@dataclass(frozen=True, slots=True)
class RunSituation:
    """Situation of a run: its jobs, its kill switch, the limits, and `now`."""

    run: Run
    snapshot: Snapshot
    jobs: tuple[Job, ...]
    switch: KillSwitch | None
    limits: LivenessLimits
    now: float

    @property
    def process(self) -> bool:
        """True if the run is a plain process: it never waits, and no accounting knows it."""
        return self.snapshot.backend == "process"

    @property
    def noun(self) -> str:
        """Word for one of its jobs."""
        return self.snapshot.noun

    @property
    def running(self) -> tuple[Job, ...]:
        """Jobs that have nodes."""
        return tuple(job for job in self.jobs if job.placed)

    @property
    def uncounted(self) -> tuple[Job, ...]:
        """Live jobs of its name whose users do not count, as far as these were asked for."""
        return tuple(job for job in self.snapshot.elsewhere if not job.own)

    @property
    def waiting(self) -> tuple[Job, ...]:
        """Waiting jobs, whether they will start or not."""
        return tuple(job for job in self.jobs if job.waiting)

    @property
    def renamed(self) -> tuple[Job, ...]:
        """Jobs that had the run's name and have another one now."""
        return tuple(job for job in self.jobs if job.name != self.run.job_name and not self.process)

    @property
    def idle(self) -> dict[str, int]:
        """Numbers of jobs that have nodes but do nothing, by reason; without zeros."""
        kinds = {"starting": STARTING_STATES, "suspended": PAUSED_STATES, "ending": ENDING_STATES}
        counts = {name: sum(job.state in states for job in self.running) for name, states in kinds.items()}
        return {name: count for name, count in counts.items() if count}

    @property
    def strange(self) -> tuple[Job, ...]:
        """Jobs in unknown states."""
        return tuple(job for job in self.jobs if job.strange)

    @property
    def queued(self) -> int:
        """Number of waiting jobs that will start by themselves, array tasks counted one by one."""
        return sum(job.tasks for job in self.waiting if reason_of(job).wait is Wait.PASSES)

    @property
    def time_left(self) -> float | None:
        """Seconds until the last running job reaches its time limit; None without a limit."""
        ends = [job.ends_at for job in self.running if job.ends_at and job.working]
        return max(max(ends) - self.now, 0.0) if ends else None

    @property
    def newest(self) -> Job:
        """The job that started last; there must be one."""
        return max(self.running, key=lambda job: job.started_at or 0.0)

    def ago(self, time: float) -> str:
        """Return how long ago, in words."""
        return age(self.now - time)

    def running_line(self) -> str:
        """Return the running jobs in one line."""
        job, left, one = self.newest, self.time_left, len(self.running) == 1
        state = ("runs" if one else "run") if job.working else f"{'is' if one else 'are'} {job.state}"
        others = "" if one else f" and {len(self.running) - 1} more"
        since = f" for {self.ago(job.started_at)}" if job.started_at else ""
        ends = f", {age(left)} left" if left is not None else ""
        waits = f", {self.queued} waiting" if self.waiting else ""
        return f"{self.noun} {job.id}{others} {state}{since}{on_nodes(job.nodes)}{ends}{waits}"

    def order(self, what: str, job: Job) -> str:
        """Return a command about a job (a field of BatchCommands), or empty."""
        line: str = getattr(commands.of(self.snapshot.backend), what)
        number = job.id if self.process else handle(job)
        return line.format(id=number, name=shlex.quote(self.run.job_name))

    def advice(self, purpose: str, what: str, job: Job, action: str = "") -> tuple[Advice, ...]:
        """Return advice with a command about a job (a field of BatchCommands), if there is one."""
        typed = self.order(what, job)
        purpose += where(self.snapshot.backend, job)
        sentence = as_owner(purpose, job) if what in _OF_THE_OWNER else f"{purpose}:"
        return (Advice(sentence, typed, action),) if typed else ()


def reason_of(job: Job) -> pending_reasons.PendingReason:
    """Return why a waiting job waits, judged."""
    return pending_reasons.judge(job.reason, job.state)


def handle(job: Job) -> str:
    """Return the job's id as scancel and scontrol take it."""
    return shlex.quote(job.handle)


def describe_end(end: Ending, deed: JobDeed | None = None) -> str:
    """Return an end in a line below the first, with its time and nodes. `deed`: how watchdogd ended it."""
    at = f" at {local_time(end.ended_at)}" if end.ended_at else ""
    return f"{fate(end, PostMortem(), deed)}{at}{on_nodes(end.nodes)}"


def fate(end: Ending, found: PostMortem, deed: JobDeed | None = None) -> str:
    """Return an end for a first line: how, after how long, and why or where.

    Examples: `job 4711 FAILED (exit 1) after 7h: GPU out of memory on rank 12, node n3`; `job 329 cancelled
    by its owner alice after 21s`. `deed`: by what watchdogd ended it.
    """
    after = f" after {age(end.lasted)}" if end.lasted is not None else " before it started"
    if deed:
        why = why_cancelled(found, deed)
        return f"job {end.id} cancelled by watchdogd (incident {deed.incident}){after}{why}"
    owner = "its owner " if end.cancelled_by_owner else ""
    how = f"cancelled by {owner}{end.cancelled_by}" if end.cancelled_by else _PLAIN.get(end.how, end.how)
    line, cause = f"job {end.id} {how}{after}", "" if end.cancelled_by else found.cause
    if not cause:
        broken = broken_node(end, found)
        return line + (f", on {broken}" if broken else "")
    return f"{line}: {cause}"


_PLAIN = {"TIMEOUT": "TIMEOUT (its time limit)"}
"""Ends whose word alone would not be understood."""


_OF_THE_CANCEL = ("cancelled", "terminated (SIGTERM)")
"""Kinds of cause that a cancelled job's log shows because of the cancel."""


def why_cancelled(found: PostMortem, deed: JobDeed) -> str:
    """Return why watchdogd cancelled a job, after a colon: `: it had stalled`; empty if not known."""
    if found.cause and found.kind not in _OF_THE_CANCEL:
        return f": {found.cause}"
    return ": it had stalled" if deed.trigger == "on_hang" else ""


def broken_node(end: Ending, found: PostMortem) -> str:
    """Return the node to blame for an end, or empty if it is no node's fault."""
    nodes = slurmtext.expand_hostlist(end.nodes) if end.state in ("NODE_FAIL", "BOOT_FAIL") else ()
    return found.node or (nodes[0] if len(nodes) == 1 else "")


def accusing(result: Result, end: Ending, found: PostMortem, backend: str) -> Result:
    """Return the result of an end, with the node to blame as suspect."""
    node = broken_node(end, found)
    if not node:
        return result
    what = f"ended job {end.id}: {found.cause or end.how}"
    blamed = replace(result, suspects=(Suspect("job", what, SURE, node=node),))
    return blamed.saying(advice=[leave_out(node)] if backend == "slurm" else [])


def describe_stuck(job: Job) -> str:
    """Return a job that will not start by itself, in one line."""
    reason = reason_of(job)
    until = "until it is released" if reason.wait is Wait.HELD else "forever"
    return f"job {job.id} waits {until}, {reason.why}"


def fix_of(job: Job) -> Advice:
    """Return what helps a job that will not start by itself."""
    reason = reason_of(job)
    sentence = f"{reason.purpose}:" if reason.by_admin else as_owner(reason.purpose, job)
    return Advice(sentence, reason.fix.format(id=handle(job)))


def submitted_as(job: str) -> Advice:
    """Return advice to submit it again, with the command that shows how Slurm's job was submitted."""
    how = f"sacct -j {job} -nPX -o WorkDir,SubmitLine"
    shows = "the command it was submitted with"
    return Advice(f"To restart it; this shows {shows}:", how, "resubmit", shows=shows)


def jobs_are(count: int) -> str:
    """Return a number of jobs in words: `no jobs are`, `1 job is`, `7 jobs are`."""
    return "1 job is" if count == 1 else f"{count or 'no'} jobs are"


def on_nodes(nodes: str) -> str:
    """Return ` on node[2-3]`, or empty."""
    return f" on {nodes}" if nodes else ""


def stopped_by(switch: KillSwitch) -> str:
    """Return that a run obeyed its kill switch, and who wanted that."""
    if switch.automatic:
        return f"stopped by its kill switch, pressed{by_whom(switch)}"
    return f"stopped on request{by_whom(switch)}"


def by_whom(switch: KillSwitch) -> str:
    """Return ` by bob: wrong learning rate`, ` by watchdogd (on_hang, incident 19)`, as far as known."""
    who = f" by {switch.by}" if switch.by else ""
    if switch.automatic:
        return f"{who} ({switch.reason})" if switch.reason else who
    return f"{who}: {switch.reason}" if switch.reason else who
