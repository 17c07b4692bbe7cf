"""Running jobs of a run, and their nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from watchdogd.batch import pbs, processes, qstat, scontrol, slurm_snapshot, slurmtext
from watchdogd.batch.models import PAUSED_STATES, WORKING_STATES, Job, Snapshot
from watchdogd.batch.run_models import Run, run_of, slurm_users
from watchdogd.batch.slurm import QUERY_DEADLINE
from watchdogd.config.loading import load
from watchdogd.errors import SlurmError, SlurmSilentError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.system import command

_REACHABLE = WORKING_STATES | PAUSED_STATES


@dataclass(frozen=True, slots=True)
class LiveJob:
    """A run and its running jobs, newest first.

    `gpus_configured`: the run's `gpus_per_node`, or None.
    """

    run: Run
    jobs: tuple[Job, ...]
    gpus_configured: int | None = None

    @property
    def job(self) -> Job:
        return self.jobs[0]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of its nodes, in Slurm's order."""
        return slurmtext.expand_hostlist(self.job.nodes)


def find(home: Home, name: str) -> LiveJob:
    """Return the run with its running jobs.

    WatchdogError where there is no such run or no running job, SlurmSilentError without an answer.
    """
    config = load(home, pressing=True)
    section = config.run(name)
    run = run_of(name, section, config, home, "slurm")
    return locate(run, slurm_users(config, home.watcher), section.gpus_per_node, home.watcher)


def locate(
    run: Run, users: frozenset[str], gpus_per_node: int | None = None, uid: int | None = None
) -> LiveJob:
    """Return a run with its running jobs.

    Where it names no users, jobs of `users` and processes of `uid` (None: one's own) count.
    """
    users = run.users or users
    seen = _look(run, users, uid)
    if seen.jobs is None:
        raise SlurmSilentError(f"the queue does not tell where {run.name} runs: {seen.trouble}")
    wanted = run.name if run.backend == "process" else run.job_name
    jobs = [job for job in seen.jobs if job.name == wanted and not job.own and job.state in _REACHABLE]
    if not jobs:
        raise WatchdogError(f"no job of {run.name} runs: {_waiting(seen, wanted, users, run.backend)}")
    jobs.sort(key=lambda job: job.started_at or 0.0, reverse=True)
    return LiveJob(run, tuple(jobs), gpus_per_node)


def queued(run: Run, users: frozenset[str]) -> tuple[Job, ...]:
    """Return the run's waiting and running jobs; SlurmSilentError where they are unknown.

    An empty queue is read twice: squeue of a busy controller can time out with an empty answer.
    """
    users = run.users or users
    for _ in range(2):
        seen = _look(run, users)
        if seen.jobs is None:
            raise SlurmSilentError(f"the queue does not tell whether {run.name} lives: {seen.trouble}")
        found = tuple(job for job in seen.jobs if job.name == run.job_name and not (job.own or job.ended))
        if found:
            return found
    return ()


def gpus(live: LiveJob) -> Mapping[str, int]:
    """Return the GPUs of each host, as allocated or else as configured. SlurmError."""
    configured = live.gpus_configured or 0
    if live.run.backend == "process":
        return dict.fromkeys(live.hosts, configured)
    slurm, raw_id = live.run.backend == "slurm", live.job.raw_id
    argv = ("scontrol", "--details", "show", "job", raw_id) if slurm else ("qstat", "-f", raw_id)
    answer = command.ask(argv, deadline=QUERY_DEADLINE)
    if not answer.ok:
        raise SlurmError(f"{argv[0]} does not show job {raw_id}: {answer.complaint()}")
    allocated = scontrol.allocated_gpus(answer.output) if slurm else qstat.gpus(answer.output, raw_id)
    return {host: allocated.get(host) or configured for host in live.hosts}


def _look(run: Run, users: frozenset[str], uid: int | None = None) -> Snapshot:
    """Return a snapshot without names, for which accounting is not asked."""
    now = time.time()
    if run.backend == "process":
        return processes.look([run], QUERY_DEADLINE, now, uid)
    if run.backend == "pbs":
        return pbs.look((), users, {}, QUERY_DEADLINE, now)
    return slurm_snapshot.look((), users, {}, QUERY_DEADLINE, now)


def _waiting(seen: Snapshot, name: str, users: frozenset[str], backend: str) -> str:
    """Describe what there is instead of a running job."""
    if backend == "process":
        return "no process matches its pid_file or command"
    waiting = sum(job.tasks for job in seen.jobs or () if job.name == name and job.waiting and not job.own)
    if waiting:
        return f"{waiting} of its jobs wait in the queue"
    return f"{', '.join(sorted(users))} has no job named '{name}' in the queue"
