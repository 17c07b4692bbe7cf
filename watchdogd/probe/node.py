"""Sampler on one node of the job: writes a sample to home at intervals, until its input ends.

It is light: nice 19, one sample every half minute, one small file that is replaced. Anonymous memory is
resident less shared (statm): the exact share of each page (PSS) would delay the training. When
`inbox/RUN.stacks-request` appears or is touched, stacks of the job's processes on this node are written to
`inbox/RUN.stacks.HOST.PID.json`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil

from watchdogd.parsers import probe_sample
from watchdogd.parsers.gpu import node_script
from watchdogd.parsers.gpu.node_script import GpuNode
from watchdogd.parsers.probe_sample import Cpu, Disk, GpuSample, NodeMemory
from watchdogd.probe import job_usage, sample_files
from watchdogd.stacks.stack_collection import py_spy
from watchdogd.system import command
from watchdogd.system.mounts import mount_at
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import host_name, replace_file
from watchdogd.system.startup import own_python

_DISK_DEADLINE = 5.0
_NUMBERS = {os.strerror(number): number for number in errno.errorcode}
_hung: set[str] = set()
"""Paths that did not answer: further processes would hang in the kernel, and delay the job's end."""


def disks(paths: Sequence[str]) -> dict[str, Disk]:
    """Examine all paths at once; a missing or silent one has its trouble."""
    if not paths:
        return {}
    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(paths, pool.map(_disk, paths), strict=True))


def _disk(path: str) -> Disk:
    if path in _hung:
        return Disk(trouble="it did not answer before")
    answer = command.ask(
        ["stat", "--file-system", f"--format={probe_sample.STAT_FORMAT}", "--", path], deadline=_DISK_DEADLINE
    )
    if answer.silent:
        _hung.add(path)
        return Disk(trouble=answer.trouble)
    read_only = _read_only(path) if answer.ok else False
    return probe_sample.read_stat(answer.output, read_only=read_only) or _unseen(answer)


def _unseen(answer: command.Answer) -> Disk:
    """Return a disk with its trouble: the system's error after stat(1)'s last colon."""
    word = answer.said.rpartition(": ")[2]
    return Disk(trouble=word or answer.complaint(), errno=_NUMBERS.get(word, 0))


def _read_only(path: str) -> bool:
    """Return whether the file system itself is read-only, for instance after an error."""
    mount = mount_at(path)
    return mount is not None and "ro" in mount.options.split(",")


LOOK = 5.0
"""Seconds between two looks for a request, one stat(2) each."""
_STACKS_DEADLINE = 15.0
_SAMPLES, _APART = 3, 1.5


@dataclass(slots=True)
class StackInbox:
    """Requests for stacks of one run, for one node of its job (`job` is empty outside Slurm)."""

    inbox: str
    run: str
    job: str
    node: str
    _seen: int | None = None

    def __post_init__(self) -> None:
        """Ignore earlier requests."""
        self._seen = self._asked()

    def serve(self) -> None:
        """Answer a new request, if py-spy is there. Never raises because of files."""
        asked = self._asked()
        if asked is None or asked == self._seen:
            return
        self._seen = asked
        tool = py_spy()
        if tool is None:
            return  # Guards may answer
        text = self._taken(tool)
        answer = {"kind": "stacks", "run": self.run, "job": self.job, "node": self.node, "text": text}
        with contextlib.suppress(OSError):  # whoever asked reports that nobody answered
            replace_file(self._path(), json.dumps(answer) + "\n", sample_files.mode(self.inbox))

    def clear(self) -> None:
        """Remove an answer that nobody fetched."""
        with contextlib.suppress(OSError):
            os.unlink(self._path())

    def _asked(self) -> int | None:
        """Return the time of the last request; None: there is none."""
        try:
            return os.stat(os.path.join(self.inbox, f"{file_name(self.run)}.stacks-request")).st_mtime_ns
        except OSError:
            return None

    def _path(self) -> str:
        name = f"{file_name(self.run)}.stacks.{file_name(self.node.partition('.')[0])}.{os.getpid()}.json"
        return os.path.join(self.inbox, name)

    def _taken(self, tool: str) -> str:
        whose = ["--job", self.job] if os.environ.get("SLURM_JOB_ID") else ["--below", str(os.getsid(0))]
        words = [*whose, "--py-spy", tool]
        words += ["--samples", str(_SAMPLES), "--every", str(_APART), "--deadline", str(_STACKS_DEADLINE - 3)]
        env = command.environment({"SLURMD_NODENAME": self.node})
        argv = own_python("from watchdogd.stacks.node_stacks import main; main()", *words)
        return command.ask(argv, deadline=_STACKS_DEADLINE, env=env).output


_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PASSED_OVER = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that Slurm sends to all steps of a job when the training should save."""


class Ended(BaseException):
    """The job ends by a signal. Derived from BaseException, so that no error handler catches it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Task of a sampler: what to sample, where to write it, and how often (seconds)."""

    run: str
    job: str
    inbox: str
    disks: tuple[str, ...]
    every: float


def serve(task: Task) -> None:
    """Sample until standard input ends or a signal comes; then remove the sample."""
    for number in _PASSED_OVER:
        signal.signal(number, signal.SIG_IGN)
    for number in _ENDS:
        signal.signal(number, _end)
    os.nice(19)
    name = os.environ.get("SLURMD_NODENAME") or host_name()
    path = sample_files.path(task.inbox, task.run, name)
    inbox = StackInbox(task.inbox, task.run, task.job, name)
    try:
        _look_again_and_again(task, name, path, inbox)
    except Ended:
        pass
    finally:
        inbox.clear()
        with contextlib.suppress(OSError):
            os.unlink(path)


def _look_again_and_again(task: Task, name: str, path: str, inbox: StackInbox) -> None:
    reported = ""
    wait = random.uniform(0.3, 1.0) * task.every  # noqa: S311 - so that not all nodes write at once
    while True:
        text = look(task, name)
        trouble = _leave(path, text)
        if trouble and trouble != reported:
            print(f"watchdogd: probe on {name}: {path}: {trouble}", file=sys.stderr, flush=True)
        reported = trouble
        if _wait_at(inbox, wait):
            return
        wait = task.every


def tell(job: str, *paths: str) -> None:
    """Print this node's memory and disks once, as `node_steps` reads it."""
    name = os.environ.get("SLURMD_NODENAME") or host_name()
    print(f"@@ node {name}")
    sample = probe_sample.usage_json(*_of_job(job, disks(paths)))
    print(json.dumps({"run": "", "job": job, "node": name, **sample}), flush=True)


def look(task: Task, name: str) -> str:
    seconds = max(task.every / 6, 2.0)
    env = command.environment({"SLURMD_NODENAME": name})  # as in a step
    answer = command.ask(node_script.argv(seconds), deadline=min(task.every, 6 * seconds), env=env)
    seen = node_script.read(answer.output)
    node = GpuNode(name, seen.readout, seen.trouble if answer.output else answer.complaint())
    sample = json.loads(probe_sample.gpus_json(GpuSample(task.run, task.job, node)))
    return json.dumps(sample | probe_sample.usage_json(*_of_job(task.job, disks(task.disks)))) + "\n"


def _of_job(job: str, found: dict[str, Disk]) -> tuple[NodeMemory, dict[str, Disk], Cpu]:
    """Return memory and processor time of the job here, with the disks between them."""
    memory, cpu = job_usage.usage(_processes(job))
    return memory, found, cpu


def _processes(job: str) -> Iterator[psutil.Process]:
    """Yield this user's processes of the job on this node."""
    node = os.environ.get("SLURMD_NODENAME", "")
    for each in psutil.process_iter(["uids"]):
        uids = each.info["uids"]
        if uids is None or uids.real != os.getuid():
            continue
        with contextlib.suppress(psutil.Error):
            env = each.environ()
            if env.get("SLURM_JOB_ID", "") == job and env.get("SLURMD_NODENAME", node) == node:
                yield each


def _leave(path: str, text: str) -> str:
    """Replace the sample; return why that failed, or empty. Signals wait until the file is complete."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        replace_file(path, text, sample_files.mode(os.path.dirname(path)))
    except OSError as error:
        return error.strerror or str(error)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    return ""


def _wait_at(inbox: StackInbox, seconds: float) -> bool:
    """Wait so long, answering requests for stacks; return True where the input ends."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if _input_ends(min(left, LOOK)):
            return True
        inbox.serve()
    return False


def _input_ends(seconds: float) -> bool:
    """Wait so long, or until the other end of standard input is closed."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([sys.stdin], [], [], left)
        if ready and not os.read(sys.stdin.fileno(), 4096):
            return True
    return False


def _end(number: int, frame: object) -> None:  # noqa: ARG001 - signal's signature
    for each in _ENDS:
        signal.signal(each, signal.SIG_IGN)
    raise Ended
