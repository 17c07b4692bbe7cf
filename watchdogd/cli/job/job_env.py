"""env RUN: the run's live job as shell exports, so that a new shell can work with it at once."""

from __future__ import annotations

import argparse
import shlex
import socket
from collections.abc import Mapping

from watchdogd.batch import live_job
from watchdogd.batch.live_job import LiveJob
from watchdogd.cli.output import print_json
from watchdogd.home.layout import Home
from watchdogd.units import iso


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", metavar="RUN", help='use it as: eval "$(watchdogd env RUN)"')
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--hostfile", action="store_true", help="a line a host for mpirun and deepspeed: node1 slots=8"
    )
    form.add_argument("--json", action="store_true", help="the same as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the exports. Raise WatchdogError, with nothing on stdout, if the run has no live job."""
    live = live_job.find(Home.existing(args.home), args.name)
    gpus = live_job.gpus(live)
    if args.hostfile:
        print("\n".join(f"{host} slots={count}" if count else host for host, count in gpus.items()))
    elif args.json:
        print_json({"run": args.name, **exports(live, gpus)})
    else:
        print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in exports(live, gpus).items()))
        if live.run.backend == "pbs":
            print(_pbs_lines(live, gpus))
    return 0


def _pbs_lines(live: LiveJob, gpus: Mapping[str, int]) -> str:
    """Return shell lines that make PBS_NODEFILE (one line for each rank) and a launcher that uses it."""
    ranks = [host for host in live.hosts for _ in range(gpus.get(host) or 1)]
    file, words = '"$PBS_NODEFILE"', shlex.join(ranks)
    launch = f"mpiexec -n {len(ranks)} --hostfile {file}"
    made = f"PBS_NODEFILE=$(mktemp) && printf '%s\\n' {words} > {file} && export PBS_NODEFILE"
    return f'{made}\nexport LAUNCH={shlex.quote(launch)}  # eval "$LAUNCH COMMAND"'


def exports(live: LiveJob, gpus: Mapping[str, int]) -> dict[str, str]:
    """Return names and values; with Slurm's, a bare `srun` starts in the job."""
    job, hosts = live.job, live.hosts
    values = {
        "WATCHDOGD_RUN": live.run.name,
        "JOB_ID": job.id if live.run.backend == "process" else job.raw_id,
        "JOB_END": iso(job.ends_at) if job.ends_at else "",
        "HOSTS": " ".join(hosts),
        "NUM_HOSTS": str(len(hosts)),
        "GPUS_PER_HOST": _per_host(gpus),
        "NUM_GPUS": str(sum(gpus.values())),
        "MASTER_ADDR": hosts[0] if hosts else socket.gethostname(),
    }
    if live.run.backend == "pbs":
        return values | {"PBS_JOBID": job.raw_id, "PBS_JOBNAME": job.name, "PBS_QUEUE": job.partition}
    return values | (_slurm_exports(live) if live.run.backend == "slurm" else {})


def _slurm_exports(live: LiveJob) -> dict[str, str]:
    job = live.job
    values = {
        "SLURM_JOB_ID": job.raw_id,
        "SLURM_JOB_NAME": job.name,
        "SLURM_JOB_USER": job.user,
        "SLURM_JOB_PARTITION": job.partition,
        "SLURM_JOB_NODELIST": job.nodes,
        "SLURM_JOB_NUM_NODES": str(len(live.hosts)),
        "SLURM_NNODES": str(len(live.hosts)),
    }
    if job.array_id:
        values |= {"SLURM_ARRAY_JOB_ID": job.array_id, "SLURM_ARRAY_TASK_ID": job.id.rpartition("_")[2]}
    if job.ends_at:
        values["SLURM_JOB_END_TIME"] = str(int(job.ends_at))
    return values


def _per_host(gpus: Mapping[str, int]) -> str:
    """Return one number if it is the same for all hosts, else one for each, in the order of HOSTS."""
    counts = list(gpus.values())
    return str(counts[0]) if len(set(counts)) == 1 else " ".join(map(str, counts))
