"""`watchdogd watch JOB`: adopt a live Slurm job: its name, user, log and GPUs become a run in config.toml."""

from __future__ import annotations

import argparse
import contextlib
import glob
import re
import time

from watchdogd.batch import commands, pbs, slurm
from watchdogd.batch.models import Job
from watchdogd.batch.run_models import slurm_users
from watchdogd.batch.slurm import QUERY_DEADLINE
from watchdogd.cli.output import one_line, print_json, print_line, warn
from watchdogd.config.loading import load
from watchdogd.config.models import Config
from watchdogd.doctor import setup_wizard
from watchdogd.doctor.setup_wizard import AdoptedRun
from watchdogd.errors import UsageError
from watchdogd.home import lease, markers
from watchdogd.home.layout import Home
from watchdogd.parsers.logs import log_files
from watchdogd.plugins.log_staleness.explain import first_look
from watchdogd.system.account import own_name


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("job", metavar="JOB", help="a live job's id or name")
    parser.add_argument("--name", metavar="NAME", help="the run's name (default: made of the job's)")
    parser.add_argument("--json", action="store_true", help="the run, and whether it is new, as JSON")


def run(args: argparse.Namespace) -> int:
    """Adopt the job; return 0, also if it is watched already, 1 if there is no such job."""
    if not args.job.strip():
        raise UsageError("watch: JOB is empty: give the id or name of a live job, as squeue shows it")
    home = Home.existing(args.home)
    config = load(home)
    me = own_name()
    pbs_here = commands.here() == "pbs"
    jobs = pbs.all_jobs(QUERY_DEADLINE) if pbs_here else slurm.all_jobs()
    job = setup_wizard.choose(jobs, args.job, me)
    users = slurm_users(config, home.watcher)
    known = setup_wizard.watched_as(config, job, users)
    if known:
        _say(args, known, f"job {job.id} '{job.name}' is watched already, as run '{known}'")
        return 0
    adopt = _of_pbs if pbs_here else _adopted
    adopted = adopt(job, _name(args.name, job, config))
    setup_wizard.add(home, adopted)
    warn(_warnings(job, adopted, me))
    _say(args, adopted.name, f"added to {home.config}:", adopted)
    if not args.json:
        alive = lease.alive(home)
        start = home.command(markers.start_verb(home))
        then = "the watchdog takes it up with its next round" if alive else f"next: {start}"
        _print_understood(adopted.log)
        look = home.command(f"check {adopted.name}")
        print_line(f"try it with '{look}'; {then}")
    return 0


def _print_understood(log: str) -> None:
    """Print what is understood of the run's log, for the person who sets it up."""
    with contextlib.suppress(OSError):
        lines = list(first_look(log, time.time())) if log else []
        if lines:
            print_line("what its log shows so far:")
        for line in lines:
            print_line(f"  {one_line(line)}")


def _name(wished: str | None, job: Job, config: Config) -> str:
    """Return the run's name. Raise UsageError if the wanted one is taken."""
    taken = {*config.runs, *config.disks, *config.checks}
    if wished in taken:
        raise UsageError(f"watch: the name '{wished}' is taken in config.toml: give another --name")
    return wished or setup_wizard.run_name(job.name, taken)


def _of_pbs(job: Job, name: str) -> AdoptedRun:
    """Return the run for a job of PBS, whose output file has the job's number in its name."""
    number = re.escape(re.split(r"[.[]", job.raw_id)[0])
    ids = rf"(?<!\d){number}(?:[.-](?:\d+|\^array_index\^)$|(?!\d))(?!.*/)"
    log = re.sub(ids, "*", job.stdout)
    return AdoptedRun(name, job.name, job.user, log, backend="pbs")


def _adopted(job: Job, name: str) -> AdoptedRun:
    return AdoptedRun(
        name=name,
        job_name=job.name,
        user=job.user,
        log=log_files.glob_of(slurm.log_pattern(job), job),
        gpus=setup_wizard.gpus_of(slurm.gpus_per_node(job)),
    )


def _warnings(job: Job, adopted: AdoptedRun, me: str) -> list[str]:
    """Return what the user must take care of."""
    found = []
    if not adopted.log and adopted.backend == "pbs":
        found.append(
            'PBS shows its output once it has ended: add log = "..." to see hangs, or submit with qsub -k doe'
        )
    elif not adopted.log:
        found.append('its output goes nowhere that Slurm knows of: add log = "..." to see hangs')
    elif log_files.is_anybodys(adopted.log, job):
        found.append(
            f"{adopted.log} also matches the logs of other jobs in that folder, which can hide a hang: "
            "submit with --output='logs/%x-%j.out', and set log to that"
        )
    elif not job.waiting and not glob.glob(adopted.log):
        found.append(
            f"nothing matches {adopted.log} from here: does this node see that folder, may you read it?"
        )
    if job.user != me:
        found.append(f"it is {job.user}'s: Slurm lets only {job.user} look into its nodes (watchdogd probe)")
    return found


def _say(args: argparse.Namespace, name: str, line: str, adopted: AdoptedRun | None = None) -> None:
    if args.json:
        print_json({"run": name, "added": adopted is not None, "message": line.rstrip(":")})
        return
    print_line(line)
    for row in adopted.table().splitlines() if adopted else ():
        print_line(f"  {row}")
