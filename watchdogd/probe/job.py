"""In the job script: starts one sampler a node, stays beside it, and ends it when the job's work is over.

The samplers are one step of the job (`srun --overlap`: it takes nothing from the training), since Slurm kills
what a batch script leaves behind at once, a step gently. They end when the pipe to their standard input
closes, so also when this process is killed. Outside of Slurm, or where no step starts, one sampler runs here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from watchdogd.probe import family, files
from watchdogd.system import command
from watchdogd.system.number import count
from watchdogd.system.startup import own_python

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOOK = 2.0
_IN_A_ROW = 3
"""Looks, two seconds apart, that all find the script waiting for the probe alone."""
_GRACE = 8.0
_ENDS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
_ALWAYS = frozenset({signal.SIGUSR1, signal.SIGUSR2})


@dataclass(frozen=True, slots=True)
class Place:
    """The job that this process is in: its raw id (empty: none), and how many nodes it has."""

    job: str
    nodes: int
    slurm: bool

    @classmethod
    def here(cls) -> Place:
        """As Slurm or PBS tell in the environment."""
        env = os.environ
        slurm = env.get("SLURM_JOB_ID", "")
        nodes = count(env.get("SLURM_JOB_NUM_NODES") or env.get("SLURM_NNODES"))
        return cls(slurm or env.get("PBS_JOBID", ""), nodes or 1, bool(slurm))


def accompany(place: Place, run: str, inbox: str, words: Sequence[str]) -> None:
    """Sample until the job's work is over. `words` are those of the sampler's verb. OSError: no inbox."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_ENDS, *_ALWAYS})
    me = psutil.Process()
    shell = family.shell_above(me)
    files.sweep(inbox, run, place.job, time.time())
    sampler = _start(_argv(place, words) if place.slurm else _here(words))
    try:
        _stay(me, shell, sampler, words if place.slurm else None)
    finally:
        files.sweep(inbox, run, place.job, time.time())


def _stay(
    me: psutil.Process,
    shell: psutil.Process | None,
    sampler: subprocess.Popen[bytes],
    again: Sequence[str] | None,
) -> None:
    """`again`: the words of a sampler here, where the step on the nodes ends before its time."""
    alone = 0
    while not _signalled(_LOOK) and shell is not None and shell.is_running():
        alone = alone + 1 if family.waited_for(shell, me) else 0
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
    """A child with the signal mask of everybody else, and a pipe that closes with us."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=command.environment() if argv[0] == "srun" else None,
        preexec_fn=_unblock,
    )


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_ENDS, *_ALWAYS})


def _argv(place: Place, words: Sequence[str]) -> list[str]:
    """One sampler a node, as `slurm.fanout` starts its processes, but for the life of the job."""
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
        told = signal.sigtimedwait({*_ENDS, *_ALWAYS}, left)
        if told is not None and told.si_signo in _ENDS:
            return True
    return False


def _say(text: str) -> None:
    print(f"watchdogd: probe: {text}", file=sys.stderr, flush=True)
