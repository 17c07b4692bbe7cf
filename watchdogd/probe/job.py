"""Probe of a job script: it starts one sampler a node, and ends them with the job's work.

The samplers are one step of the job (`srun --overlap` takes nothing from the training), since Slurm kills at
once what a batch script leaves behind, but ends a step gently. They end when the pipe to their standard input
closes, so also when this process is killed. Outside Slurm, or where no step starts, one sampler runs here.

The probe ends when only it is left below the batch shell, so that a bare `wait` in the script returns. Not
counted are the probe and its children, other probes, and loggers: a child that reads the shell's output
(`exec > >(tee log)`) lives as long as the shell.
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
"""Kernel functions in which a process waits for its children (proc(5), wchan)."""


def shell_above(process: psutil.Process) -> psutil.Process | None:
    """Return the batch shell, started by slurmstepd, or the parent without Slurm; None where it is gone."""
    try:
        parents = process.parents()
    except psutil.Error:
        return None
    for below, above in itertools.pairwise(parents):
        if above.name().startswith("slurmstepd"):
            return below
    return parents[0] if parents and parents[0].pid > 1 else None


def waited_for(shell: psutil.Process, probe: psutil.Process) -> bool:
    """Return whether `shell` waits and nothing that counts runs below it; False where it is gone."""
    try:
        written = _pipes(shell, 1, 2) | _pipes(probe, 1, 2)
        return _waits(shell) and not _busy(shell, probe, written)
    except psutil.Error:
        return False  # a process came or went: look again


def _busy(shell: psutil.Process, probe: psutil.Process, written: frozenset[str]) -> bool:
    """Return whether anything that counts runs below; a waiting shell counts by its children."""
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

    Where the kernel does not say what it waits for, any sleeping shell counts as such.
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
    """Return the pipes among these descriptors, by the kernel's names."""
    found = set()
    for descriptor in descriptors:
        try:
            found.add(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"))
        except OSError:
            continue  # closed, or another user's
    return frozenset(name for name in found if name.startswith("pipe:"))


_LOOK = 2.0
_IN_A_ROW = 3
"""Consecutive looks, two seconds apart, that must find the script waiting for the probe only."""
_GRACE = 8.0
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_ALWAYS = frozenset({signal.SIGUSR1, signal.SIGUSR2})


@dataclass(frozen=True, slots=True)
class OwnJob:
    """Job of this process: raw id (empty: none) and number of nodes."""

    job: str
    nodes: int
    slurm: bool

    @classmethod
    def here(cls) -> OwnJob:
        """Return the job of this process by Slurm's or PBS's variables."""
        env = os.environ
        slurm = env.get("SLURM_JOB_ID", "")
        nodes = count(env.get("SLURM_JOB_NUM_NODES") or env.get("SLURM_NNODES"))
        return cls(slurm or env.get("PBS_JOBID", ""), nodes or 1, bool(slurm))


def accompany(place: OwnJob, run: str, inbox: str, words: Sequence[str]) -> None:
    """Sample until the job's work is over. `words`: arguments of the sampler. OSError without inbox."""
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
    """Stay until the work is over.

    `again`: arguments for a sampler on this node, should the step on all nodes end early.
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
    """Start a child with the usual signal mask, and a pipe that closes with this process."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=command.environment() if argv[0] == "srun" else None,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDS, *_ALWAYS}),
    )


def _argv(place: OwnJob, words: Sequence[str]) -> list[str]:
    """Return the command for one sampler a node, like `node_steps`' but for the life of the job."""
    return [
        *("srun", f"--jobid={place.job}", "--overlap", f"--nodes={place.nodes}", f"--ntasks={place.nodes}"),
        *("--ntasks-per-node=1", "--cpu-bind=none", "--mpi=none", "--chdir=/", "--wait=0"),
        *("--kill-on-bad-exit=0", "--job-name=watchdogd-probe", "--quiet", "--", *_here(words)),
    ]


def _here(words: Sequence[str]) -> list[str]:
    return own_python("from watchdogd.cli import main; sys.exit(main())", "probe", *words)


def _signalled(seconds: float) -> bool:
    """Wait so long; return whether a signal asked for the end. Signals to save are ignored."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        received = signal.sigtimedwait({*_ENDS, *_ALWAYS}, left)
        if received is not None and received.si_signo in _ENDS:
            return True
    return False


def _say(text: str) -> None:
    print(f"watchdogd: probe: {text}", file=sys.stderr, flush=True)
