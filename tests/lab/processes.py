"""Which processes belong to a cluster, how one is started, and how they end."""

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from psutil import Process

from tests.waiting import wait_until

PATIENCE = 240.0
"""Seconds at most for a process that is about to end by itself."""


@contextmanager
def started(argv: Sequence[str | Path], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """Start a process, whose end is waited for as with Popen itself, but not for ever.

    It is killed where the block fails, and where it lives on.
    """
    process = subprocess.Popen(argv, **options)
    try:
        with ExitStack() as stack:
            for pipe in filter(None, (process.stdin, process.stderr, process.stdout)):
                stack.callback(pipe.close)
            yield process
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)


def belonging_to(folder: Path) -> list[Process]:
    """All processes of the cluster in `folder`: daemons, steps, jobs, and what they or the users started.

    Known by the SLURM_CONF that they inherited; where it is gone, by where they work: a user's program
    may have cleaned its environment, and slurmstepd's title overwrites its own. (Not root's other
    programs: somebody may have a look around there.)
    """
    return [process for process in _others() if _belongs(process, folder)]


def _belongs(process: Process, folder: Path) -> bool:
    try:
        if process.environ().get("SLURM_CONF") == str(folder / "slurm.conf"):
            return True
        works_there = Path(process.cwd()).is_relative_to(folder)
        return works_there and (process.uids().real != 0 or Path(process.exe()).name.startswith("slurm"))
    except (psutil.Error, OSError):
        return False  # gone, or a kernel thread


def of_user(uid: int) -> list[Process]:
    """All living processes of one user."""
    return [process for process in _others() if _uid(process) == uid]


def lineage(process: Process) -> set[int]:
    """The ids of a process and of all above it."""
    try:
        return {process.pid, *(parent.pid for parent in process.parents())}
    except psutil.NoSuchProcess:
        return {process.pid}


def end(processes: Iterable[Process]) -> None:
    """Kills them at once and waits until they are gone; raises AssertionError when one stays."""
    doomed = list(processes)
    for process in doomed:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    wait_until(lambda: not any(map(lives, doomed)), 20.0, f"these processes are gone: {doomed}", every=0.01)


def _others() -> Iterator[Process]:
    """All processes but the tests' own and those above it."""
    own = {os.getpid(), *(parent.pid for parent in Process().parents())}
    return (process for process in psutil.process_iter() if process.pid not in own and lives(process))


def lives(process: Process) -> bool:
    """A zombie does not: it waits for its parent, which may never ask (a container's first process)."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _uid(process: Process) -> int | None:
    try:
        return process.uids().real
    except psutil.NoSuchProcess:
        return None
