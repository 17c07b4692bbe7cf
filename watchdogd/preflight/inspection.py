"""Inspection of the job that this process is in, with one deadline for all nodes."""

from __future__ import annotations

import os
import re
import socket
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from watchdogd.batch import node_steps, slurmtext
from watchdogd.batch.models import Job
from watchdogd.checks import checkpoint_files
from watchdogd.config import switch_places
from watchdogd.errors import UsageError, WatchdogError
from watchdogd.home import suspect_nodes, switches
from watchdogd.home.layout import Home
from watchdogd.home.touchfile import finished
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.quota.models import BYTES
from watchdogd.plugin import Run
from watchdogd.plugins.disk_quota.quota_sources import QuotaPath, ask_quotas, automatic
from watchdogd.preflight import affinity, gpu_trial
from watchdogd.preflight.affinity import NodeBinding
from watchdogd.preflight.gpu_trial import Trial
from watchdogd.preflight.verdicts import Facts, NodeDisk, Room
from watchdogd.probe.node_answers import query_gpus
from watchdogd.system import account, command, pathname
from watchdogd.system.bounded_io import BoundedIO
from watchdogd.system.mounts import mount_at
from watchdogd.system.number import digits
from watchdogd.system.pathname import file_name

NODE_SCRIPT = r"""
echo "@@ node ${SLURMD_NODENAME:-$(uname -n | cut -d. -f1)}"
sed -n 's/^Cpus_allowed_list:/@@ cpus/p' /proc/self/status
for path; do
    said=$(mktemp "$path/.watchdogd.XXXXXX" 2>&1)
    if [ $? = 0 ]; then
        rm -f "$said"
        echo "@@ free $(df -Pk "$path" | tail -n 1 | awk '{print $(NF-2)}') $path"
    else
        echo "@@ fail $path: $said"
    fi
done
"""
"""Its arguments are folders; it prints the free KiB of each, after a test file could be created there."""
_DISK = re.compile(r"^@@ (?:free (\d+) (.+)|fail (.+?): (.*))$", re.MULTILINE)
_CPUS = re.compile(r"^@@ cpus\s+(\S+)", re.MULTILINE)
_SIZED = 3
"""Number of newest checkpoints from which the size of one is estimated."""


def this_job() -> Job:
    """Return the Slurm job of this process. UsageError where it is in none."""
    raw_id, nodes = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_JOB_NODELIST")
    if not raw_id or not nodes:
        raise UsageError("preflight belongs into a job script: SLURM_JOB_ID is not set here")
    user = account.user_name(os.getuid())
    return Job(raw_id, raw_id, os.environ.get("SLURM_JOB_NAME", ""), user, "RUNNING", nodes=nodes)


def hosts_of_job() -> tuple[str, ...]:
    """Return the nodes of this process's Slurm job; none outside a job."""
    return slurmtext.expand_hostlist(os.environ.get("SLURM_JOB_NODELIST", ""))


@dataclass(frozen=True, slots=True)
class SwitchState:
    """State of a run's switches; empty fields where nothing is set.

    `stopped`: who stopped or finished it; `save_switch`: who set that; `unread`: why the state is unknown.
    """

    stopped: str = ""
    save_switch: str = ""
    unread: str = ""


def facts(
    run: Run,
    pressed: SwitchState,
    suspects: Mapping[str, str],
    node_disks: Sequence[str],
    checkpoints: str | None,
    gpus: bool,
    deadline: float,
) -> Facts:
    """Return all facts to be judged. Never raises because of a node, a disk or a tool."""
    job = this_job() if run.backend == "slurm" else None
    hosts = slurmtext.expand_hostlist(job.nodes) if job else (socket.gethostname(),)
    until = time.monotonic() + deadline
    heard = _heard(job, hosts, node_disks, deadline)
    gpu_nodes, no_gpus = _gpus(run, job, heard, until) if gpus and not heard.trouble else ((), "")
    return Facts(
        hosts=hosts,
        tasks=_number("SLURM_NTASKS"),
        cores=len(os.sched_getaffinity(0)),
        stopped=pressed.stopped,
        save_switch=pressed.save_switch,
        unread=pressed.unread,
        silent=heard.silent,
        suspects=suspects,
        unasked=heard.trouble,
        gpus=gpu_nodes,
        no_gpus=no_gpus,
        disks=tuple(disk for node, text in heard.texts.items() for disk in read_disks(node, text)),
        room=_room(checkpoints) if checkpoints else None,
        given={node: read_cpus(text) for node, text in heard.texts.items()},
    )


def ranks(
    given: Mapping[str, frozenset[int]], options: Sequence[str], deadline: float
) -> dict[str, NodeBinding] | str:
    """Return the ranks of the job by node, started by `srun OPTIONS` like the training, or why not.

    It inherits Slurm's variables of the job script, as the training's srun does. Empty inside a step, which
    cannot start another.
    """
    if os.environ.get("SLURM_STEP_ID", "").isdecimal():
        return {}
    kept = {name: value for name, value in os.environ.items() if name.startswith(("SLURM_", "SRUN_"))}
    ours = ("--immediate=20", "--input=none", "--kill-on-bad-exit=0", "--job-name=watchdogd")
    answer = command.ask(
        ("srun", *options, *ours, "sh", "-c", affinity.SCRIPT),
        deadline=deadline,
        env=command.environment(kept),
    )
    each = re.findall(r"\d+", re.sub(r"\(x\d+\)", "", os.environ.get("SLURM_JOB_CPUS_PER_NODE", "")))
    found = affinity.read(answer.output, given, max(map(digits, each), default=None))
    return found or answer.trouble or node_steps.reason(answer.errors) or answer.complaint()


def tried(run: Run, python: str, *, reduce: bool, deadline: float) -> Trial:
    """Try a small computation on each GPU, and with `reduce` an all-reduce across nodes. Never raises."""
    job = this_job() if run.backend == "slurm" else None
    hosts = slurmtext.expand_hostlist(job.nodes) if job else ("localhost",)
    own = job.raw_id if job else str(os.getpid())
    argv = gpu_trial.argv(python, hosts, own, reduce=reduce, deadline=max(deadline - 10, 5.0))
    if job:
        heard = node_steps.run_on_nodes(job.raw_id, hosts, argv, deadline=deadline)
        nodes = {node: gpu_trial.read(text) for node, text in heard.texts.items()}
        return Trial(nodes, heard.silent, reduce, heard.trouble)
    answer = command.ask(argv, deadline=deadline)
    if not answer.output:
        return Trial({}, {}, reduce, answer.complaint())
    return Trial({socket.gethostname(): gpu_trial.read(answer.output)}, {}, reduce)


def given_cpus() -> int | None:
    """Return the cores assigned by Slurm: to this task if srun started it, else on this node."""
    in_task = os.environ.get("SLURM_STEP_ID", "").isdecimal()
    return _number("SLURM_CPUS_PER_TASK" if in_task else "SLURM_CPUS_ON_NODE")


def read_disks(node: str, text: str) -> Iterator[NodeDisk]:
    """Parse the disks of a node in NODE_SCRIPT's output."""
    for free, path, refused, said in _DISK.findall(text):
        if path:
            yield NodeDisk(node, path, digits(free) * 1024)
        else:
            yield NodeDisk(node, refused, trouble=said.rpartition(": ")[2] or "a file cannot be made")


def read_cpus(text: str) -> frozenset[int]:
    """Parse the job's CPUs on a node in NODE_SCRIPT's output."""
    match = _CPUS.search(text)
    return affinity.cpus(match[1]) if match else frozenset()


def _heard(
    job: Job | None, hosts: Sequence[str], disks: Sequence[str], deadline: float
) -> node_steps.NodeOutputs:
    """Run NODE_SCRIPT on each node, which also shows that steps start there."""
    argv = ("sh", "-c", NODE_SCRIPT, "watchdogd-preflight", *disks)
    if job:
        return _started(node_steps.run_on_nodes(job.raw_id, hosts, argv, deadline=deadline))
    answer = command.ask(argv, deadline=deadline)
    return node_steps.NodeOutputs({hosts[0]: answer.output}, trouble="" if answer.ok else answer.complaint())


def _started(heard: node_steps.NodeOutputs) -> node_steps.NodeOutputs:
    """Return the outputs; where not even this node answers, the trouble that steps cannot be started."""
    if heard.texts or heard.trouble or not heard.silent:
        return heard
    return node_steps.NodeOutputs(trouble=f"no step can be started: {next(iter(heard.silent.values()))}")


def _gpus(
    run: Run, job: Job | None, heard: node_steps.NodeOutputs, until: float
) -> tuple[tuple[GpuNode, ...], str]:
    """Return the GPUs of all nodes that answered, or why there are none."""
    here = job or Job("", "", run.name, "", "RUNNING")
    left = max(until - time.monotonic(), 5.0)
    seen = query_gpus(run, here, deadline=left, now=time.time(), skip=tuple(heard.silent))
    return seen.nodes, seen.trouble or seen.closed


def switches_of(home: Home, name: str, patient: BoundedIO) -> SwitchState:
    """Return the state of a run's switches and of its finished mark. Never raises."""
    try:
        return patient.attempt(partial(_switches, home, name))
    except (WatchdogError, OSError) as error:
        return SwitchState(unread=f"the switches cannot be read: {error}")


def suspects_of(home: Home, name: str, patient: BoundedIO) -> Mapping[str, str]:
    """Return the nodes under suspicion for a run, with reasons; none where they are unknown. Never raises."""
    try:
        found = patient.attempt(partial(suspect_nodes.excluded, home, name, time.time(), None))
    except (WatchdogError, OSError):
        return {}
    return {node: each.reason or f"said {each.by}" for node, each in found.items()}


def _switches(home: Home, name: str) -> SwitchState:
    mark = finished(home).get(file_name(name))
    if mark:
        return SwitchState(stopped=f"the run is marked finished by {mark}")
    kill, save = (
        switches.read(switch_places.find_or_default(str(home.path), name, kind)) for kind in ("kill", "save")
    )
    return SwitchState(f"the kill switch is set {kill}" if kill else "", str(save or ""))


def _room(pattern: str) -> Room:
    """Return the tightest limit for checkpoints, and the median size of the last ones."""
    folder = _folder(pattern)
    try:
        sizes = [
            checkpoint_files.content(entry).size
            for entry in checkpoint_files.find_checkpoints(pattern)[:_SIZED]
        ]
        limits = [("file system", _free(folder)), *_quotas(folder)]
    except OSError as error:
        return Room(folder, 0.0, "", trouble=f"{error.filename or folder}: {error.strerror or error}")
    of, free = min(limits, key=lambda limit: limit[1])
    return Room(folder, free, of, statistics.median(sizes) if sizes else None)


def _folder(pattern: str) -> str:
    """Return the deepest existing folder of a pattern."""
    plain = pathname.before_wildcard(pattern).rpartition("/")[0] or "/"
    while not os.path.isdir(plain) and plain != "/":
        plain = os.path.dirname(plain)
    return plain


def _free(folder: str) -> float:
    stat = os.statvfs(folder)
    return float(stat.f_bavail * stat.f_frsize)


def _quotas(folder: str) -> list[tuple[str, float]]:
    """Return the free bytes of quotas, where the file system has a tool for them; failures are ignored."""
    mount = mount_at(folder)
    if mount is None:
        return []
    said = ask_quotas(automatic(mount), QuotaPath(folder, mount, time.time()))
    return [(limit.of, limit.free()) for limit in said.limits if limit.kind == BYTES]


def _number(name: str, env: Mapping[str, str] = os.environ) -> int | None:
    """Return an integer in the environment, or None."""
    match = re.match(r"\d+", env.get(name, ""))
    return digits(match[0]) if match else None
