"""Probe of a job script: it starts one sampler a node, stays beside it, and ends it with the job's work.

The samplers are one step of the job (`srun --overlap`: it takes nothing from the training), since Slurm kills
what a batch script leaves behind at once, a step gently. They end when the pipe to their standard input
closes, so also when this process is killed. Outside of Slurm, or where no step starts, one sampler runs here.

The probe ends when only it is left below the batch shell, so that a bare `wait` ends too. Not counted are
the probe and what it started, other probes, and loggers: a child that reads what the shell writes
(`exec > >(tee log)`) lives for as long as the shell.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from watchdogd.probe import sample_files
from watchdogd.system import command
from watchdogd.system.number import count
from watchdogd.system.startup import own_python

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "slurm_script", "zsh"})
_ENDED = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_WAITS = frozenset({"do_wait", "kernel_wait4", "do_wait4"})
"""Where the kernel says a process stands that waits for its children (proc(5), wchan)."""


def shell_above(process: psutil.Process) -> psutil.Process | None:
    """Return the batch shell, started by slurmstepd, or the parent without Slurm; None where it has gone."""
    try:
        parents = process.parents()
    except psutil.Error:
        return None
    for below, above in itertools.pairwise(parents):
        if above.name().startswith("slurmstepd"):
            return below
    return parents[0] if parents and parents[0].pid > 1 else None


def waited_for(shell: psutil.Process, probe: psutil.Process) -> bool:
    """Return whether `shell` stands in a wait and nothing that counts runs below; False where it has gone."""
    try:
        written = _pipes(shell, 1, 2) | _pipes(probe, 1, 2)
        return _waits(shell) and not _busy(shell, probe, written)
    except psutil.Error:
        return False  # something came or went meanwhile: the next look tells


def _busy(shell: psutil.Process, probe: psutil.Process, written: frozenset[str]) -> bool:
    """Return whether anything that counts runs below.

    A shell that itself waits counts by its children alone.
    """
    for child in shell.children():
        if child == probe or child.status() in _ENDED or _is_probe(child):
            continue
        if _pipes(child, 0) & written:
            continue
        if not (_waits(child) and child.children()) or _busy(child, probe, written):
            return True
    return False


def _is_probe(process: psutil.Process) -> bool:
    words = process.cmdline()
    return "probe" in words and any("watchdogd" in word for word in words[: words.index("probe")])


def _waits(process: psutil.Process) -> bool:
    """Return whether a process waits for its children.

    Where the kernel does not tell what for, any sleeping shell is taken to do so.
    """
    try:
        with open(f"/proc/{process.pid}/wchan", encoding="ascii", errors="replace") as file:
            where = file.read().strip()
    except OSError:
        where = ""
    if where not in ("", "0"):
        return where in _WAITS
    return process.status() == psutil.STATUS_SLEEPING and process.name() in _SHELLS


def _pipes(process: psutil.Process, *descriptors: int) -> frozenset[str]:
    """Return those of these descriptors that are pipes, by the kernel's name for them."""
    found = set()
    for descriptor in descriptors:
        try:
            found.add(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"))
        except OSError:
            continue  # closed, or another user's
    return frozenset(name for name in found if name.startswith("pipe:"))


_LOOK = 2.0
_IN_A_ROW = 3
"""Looks, two seconds apart, that all find the script waiting for the probe alone."""
_GRACE = 8.0
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_ALWAYS = frozenset({signal.SIGUSR1, signal.SIGUSR2})


@dataclass(frozen=True, slots=True)
class OwnJob:
    """The job that this process is in: its raw id (empty: none), and how many nodes it has."""

    job: str
    nodes: int
    slurm: bool

    @classmethod
    def here(cls) -> OwnJob:
        """Return the job of this process, as Slurm or PBS tell in the environment."""
        env = os.environ
        slurm = env.get("SLURM_JOB_ID", "")
        nodes = count(env.get("SLURM_JOB_NUM_NODES") or env.get("SLURM_NNODES"))
        return cls(slurm or env.get("PBS_JOBID", ""), nodes or 1, bool(slurm))


def accompany(place: OwnJob, run: str, inbox: str, words: Sequence[str]) -> None:
    """Sample until the job's work is over. `words` are those of the sampler's verb. OSError: no inbox."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, *_ALWAYS})
    me = psutil.Process()
    shell = shell_above(me)
    sample_files.sweep(inbox, run, place.job, time.time())
    sampler = _start(_argv(place, words) if place.slurm else _here(words))
    try:
        _stay(me, shell, sampler, words if place.slurm else None)
    finally:
        sample_files.sweep(inbox, run, place.job, time.time())


def _stay(
    me: psutil.Process,
    shell: psutil.Process | None,
    sampler: subprocess.Popen[bytes],
    again: Sequence[str] | None,
) -> None:
    """Stay beside the sampler until the work is over.

    `again`: the words of a sampler here, where the step on the nodes ends before its time.
    """
    alone = 0
    while not _signalled(_LOOK) and shell is not None and shell.is_running():
        alone = alone + 1 if waited_for(shell, me) else 0
        if alone >= _IN_A_ROW:
            break
        if sampler.poll() is not None:
            if again is None:
                _say(f"its sampler ended with exit code {sampler.returncode}")
                return
            _say(f"srun ended with exit code {sampler.returncode}: only this node is sampled")
            sampler, again = _start(_here(again)), None
    _finish(sampler)


def _finish(sampler: subprocess.Popen[bytes]) -> None:
    if sampler.stdin:
        sampler.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            sampler.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            sampler.wait(_GRACE)
            return


def _start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child with the signal mask of everybody else, and a pipe that closes with us."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=command.environment() if argv[0] == "srun" else None,
        preexec_fn=_unblock,
    )


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDS, *_ALWAYS})


def _argv(place: OwnJob, words: Sequence[str]) -> list[str]:
    """Return the command for one sampler a node.

    It starts as `slurm.fanout` starts its processes, but for the life of the job.
    """
    return [
        "srun",
        f"--jobid={place.job}",
        "--overlap",
        f"--nodes={place.nodes}",
        f"--ntasks={place.nodes}",
        "--ntasks-per-node=1",
        "--cpu-bind=none",
        "--mpi=none",
        "--chdir=/",
        "--wait=0",
        "--kill-on-bad-exit=0",
        "--job-name=watchdogd-probe",
        "--quiet",
        "--",
        *_here(words),
    ]


def _here(words: Sequence[str]) -> list[str]:
    return own_python("from watchdogd.cli import main; sys.exit(main())", "probe", *words)


def _signalled(seconds: float) -> bool:
    """Wait so long; whether a signal asks for the end. Those that ask trainings to save are passed over."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        received = signal.sigtimedwait({*_ENDS, *_ALWAYS}, left)
        if received is not None and received.si_signo in _ENDS:
            return True
    return False


def _say(text: str) -> None:
    print(f"watchdogd: probe: {text}", file=sys.stderr, flush=True)
