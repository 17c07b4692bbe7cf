"""`watchdogd queue`: all jobs of the team in one table: what runs, what waits for what, what never starts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Any

from watchdogd.batch import commands, pbs, pending_reasons, slurm
from watchdogd.batch.models import Job
from watchdogd.batch.pending_reasons import Wait
from watchdogd.batch.run_models import slurm_users
from watchdogd.batch.slurm import QUERY_DEADLINE
from watchdogd.cli.output import one_line, print_json, print_line, terminal
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.doctor import setup_wizard
from watchdogd.home.layout import Home
from watchdogd.units import format_duration, iso


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="a list of jobs")


def run(args: argparse.Namespace) -> int:
    """Print the jobs of `[slurm] users`, running ones first, then by expected start; always return 0."""
    home = Home.existing(args.home)
    config = load(home)
    users = slurm_users(config, home.watcher)
    pbs_alone = {each.backend for each in config.runs.values()} == {"pbs"} or commands.here() == "pbs"
    seen = pbs.all_jobs(QUERY_DEADLINE) if pbs_alone else slurm.all_jobs()
    jobs = order(job for job in seen if job.user in users and not job.ended and not job.own)
    if args.json:
        print_json([as_json(job, config, users) for job in jobs])
    elif jobs:
        _print(jobs, config, users, time.time())
    else:
        print_line(f"{', '.join(sorted(users))}: no jobs in the queue")
    return 0


def order(jobs: Iterable[Job]) -> list[Job]:
    """Return the sort key: running jobs, then waiting ones by expected start, then those that never start."""
    return sorted(jobs, key=lambda job: (job.waiting, never(job), _begins(job), job.raw_id))


def _begins(job: Job) -> float:
    return job.start_estimate or job.started_at or float("inf")


def never(job: Job) -> bool:
    """Return True if a job waits for something that does not happen by itself."""
    return job.waiting and pending_reasons.judge(job.reason, job.state).wait is not Wait.PASSES


def waits_for(job: Job) -> str:
    """Return what a job waits for, with the fix if it would wait for ever; empty if it runs."""
    if not job.waiting:
        return ""
    reason = pending_reasons.judge(job.reason, job.state)
    why = reason.why or job.reason or job.state
    after = f" ({job.dependency})" if job.dependency else ""
    fix = f": {reason.fix_for(job.handle)}" if never(job) and reason.fix else ""
    return f"{why}{after}{fix}"


def as_json(job: Job, config: Config, users: frozenset[str]) -> dict[str, Any]:
    return {
        "job": job.id,
        "run": setup_wizard.watched_as(config, job, users) or None,
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "nodes": job.node_count,
        "tasks": job.tasks,
        "started_at": None if job.started_at is None else iso(job.started_at),
        "expected_at": None if job.start_estimate is None else iso(job.start_estimate),
        "ends_at": None if job.ends_at is None else iso(job.ends_at),
        "waits_for": waits_for(job) or None,
        "never": never(job),
    }


def _print(jobs: Sequence[Job], config: Config, users: frozenset[str], now: float) -> None:
    from rich.table import Table

    table = Table(
        "job", "run", "user", "state", "nodes", "start", "left", "waits for", box=None, pad_edge=False
    )
    for job in jobs:
        run = setup_wizard.watched_as(config, job, users) or f"({job.name})"
        left = format_duration(max(job.ends_at - now, 0.0)) if job.ends_at and not job.waiting else ""
        cells = (
            job.id,
            run,
            job.user,
            job.state.lower(),
            str(job.node_count),
            _start(job, now),
            left,
            waits_for(job),
        )
        table.add_row(*map(one_line, cells), style="yellow" if never(job) else None)
    terminal().print(table)


def _start(job: Job, now: float) -> str:
    if not job.waiting:
        return f"{format_duration(max(now - job.started_at, 0.0))} ago" if job.started_at else ""
    if never(job):
        return "never"
    return f"in {format_duration(max(job.start_estimate - now, 0.0))}" if job.start_estimate else "not known"
