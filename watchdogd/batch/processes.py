"""Runs that are plain processes of this machine (`backend = "process"`), as a Snapshot like Slurm's.

A run is the process in its `pid_file`, or all whose command line matches its `command`. Only one's own
processes count, since a colleague's training may have the same command line; those of all users for root, or
where the run has a `user`. The daemon, its children and its parents never count, nor do zombies. A reused pid
is another Job: the start time is part of `raw_id`, and a process younger than its pid file is not the one
meant.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from watchdogd.batch.models import Job, Snapshot
from watchdogd.batch.run_models import Run
from watchdogd.system.account import own_name, user_name
from watchdogd.system.number import count
from watchdogd.system.smallfile import open_plain

UNKNOWN = "UNKNOWN"
"""State of a Job for a run whose process cannot be searched for; `reason` says why."""
_INFO = ["pid", "username", "status", "create_time", "cmdline", "cwd"]
_PID_FILE_LIMIT = 64
_CLOCK_SLACK = 300.0
"""Seconds by which the clock of the pid file's server may differ from this machine's."""


def look(runs: Iterable[Run], deadline: float, now: float, uid: int | None = None) -> Snapshot:
    """Return the living processes of `runs`, each named as its run, within `deadline` seconds. Never raises.

    `uid`: whose processes count where a run names nobody; None: one's own.
    """
    mine = os.geteuid() if uid is None else uid
    until = time.monotonic() + deadline
    lineage = _own_ancestry()
    candidates = functools.cache(lambda: _candidates(lineage, until))
    found = [(run, _of(run, lineage, candidates, mine)) for run in runs]
    absent = [run for run, (jobs, _) in found if not jobs]
    veiled = bool(absent) and _hides_others()
    return Snapshot(
        now,
        jobs=tuple(job for _, (jobs, _) in found for job in jobs),
        endings_trouble="plain processes have no accounting",
        backend="process",
        elsewhere=tuple(job for _, (_, theirs) in found for job in theirs),
        sought=frozenset(run.name for run in absent),
        veiled=veiled,
        hidden=frozenset(each for run in absent for each in run.users if each != own_name())
        if veiled
        else frozenset(),
    )


def _of(
    run: Run, lineage: list[psutil.Process], candidates: Callable[[], _Candidates | None], mine: int
) -> tuple[list[Job], list[Job]]:
    """Return the run's processes or, where there are none, matching ones of other users."""
    try:
        if run.pid_file:
            return list(_by_pid_file(run, lineage)), []
        found = list(_by_command(run, candidates(), None if run.users or mine == 0 else mine))
    except OSError as error:
        return [_unknown(run, f"{run.pid_file} cannot be read: {error.strerror or error}")], []
    if found or run.users or mine == 0:
        return found, []
    return [], [job for job in _by_command(run, candidates(), None) if job.user != user_name(mine)]


def _own_ancestry() -> list[psutil.Process]:
    """Return this process and its ancestors, as far as they are visible."""
    found = [psutil.Process()]
    try:
        while above := found[-1].parent():
            found.append(above)
    except psutil.Error:
        pass
    return found


def _hides_others() -> bool:
    """Return whether this machine hides other users' processes (proc(5), hidepid); root sees all."""
    try:
        with open("/proc/1/cmdline", "rb"):
            return False
    except OSError:
        return os.geteuid() != 0


def _is_hidden(pid: int) -> bool:
    """Return whether the process exists but is hidden."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _by_pid_file(run: Run, lineage: list[psutil.Process]) -> Iterator[Job]:
    try:
        with open(open_plain(run.pid_file, follow=True), encoding="utf-8", errors="replace") as file:
            text = file.read(_PID_FILE_LIMIT).strip()
            written = os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return
    number = text.partition("\n")[0].strip()
    if count(number) is None and number.isascii() and number.isdigit():
        return  # more digits than any process id
    if count(number) is None:
        yield _unknown(run, f"{run.pid_file} holds no process id: {text[:40]!r}")
        return
    try:
        process = psutil.Process(int(number))
        info = process.as_dict(_INFO)
    except OverflowError:
        return
    except psutil.NoSuchProcess:
        info = {"create_time": None}
    if info["create_time"] is None:
        if _is_hidden(int(number)):
            hidden = "is somebody else's, and this machine hides those (hidepid)"
            yield _unknown(run, f"process {number} of {run.pid_file} {hidden}")
        return
    if process not in lineage and (
        info["create_time"] <= written + _CLOCK_SLACK or _works_beside(process, run.pid_file)
    ):
        yield from _job(run, info)


def _works_beside(process: psutil.Process, pid_file: str) -> bool:
    """Return whether the process works in the folder of its pid file.

    Then it is no other one that has been given the same number: the clock was set forward since, and with
    it the start of every process, but not the time of the file.
    """
    try:
        return os.path.samefile(process.cwd(), os.path.dirname(pid_file) or os.curdir)
    except (psutil.Error, OSError):
        return False


@dataclass(frozen=True)
class _Candidates:
    """Processes that may be runs, with their command lines and users' ids; and every process's parent."""

    found: list[tuple[psutil.Process, str, int | None]]
    parents: dict[int, int]


def _candidates(lineage: list[psutil.Process], until: float) -> _Candidates | None:
    """Return them, without watchdogd's own; None where that takes too long."""
    family, seen = _family(lineage), _Candidates([], {})
    for process in psutil.process_iter(["cmdline", "ppid", "uids"]):
        if time.monotonic() > until:
            return None
        seen.parents[process.pid] = process.info["ppid"]
        line, uids = " ".join(process.info["cmdline"] or ()), process.info["uids"]
        if line and process.pid not in family:
            seen.found.append((process, line, uids and uids.real))
    return seen


def _by_command(run: Run, seen: _Candidates | None, uid: int | None) -> Iterator[Job]:
    """Yield matching processes without their children, since data loaders have the same command line."""
    if seen is None:
        yield _unknown(run, "looking through all processes took too long")
        return
    pattern = re.compile(run.command)
    matching = [process for process, line, own in seen.found if uid in (None, own) and pattern.search(line)]
    pids = {process.pid for process in matching}
    for process in matching:
        if not pids & set(_above(process.pid, seen.parents)):
            with contextlib.suppress(psutil.NoSuchProcess):
                yield from _job(run, process.as_dict(_INFO))


def _above(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    seen = {pid}
    while (pid := parents.get(pid, 0)) and pid not in seen:
        seen.add(pid)
        yield pid


def _job(run: Run, info: dict[str, Any]) -> Iterator[Job]:
    """Yield the process as a Job, unless it is dead."""
    if info["status"] in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
        return
    suspended = info["status"] in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    yield Job(
        id=str(info["pid"]),
        raw_id=f"{info['pid']}@{_start_ticks(info['pid'])}",
        name=run.name,
        user=info["username"] or "",
        state="SUSPENDED" if suspended else "RUNNING",
        reason="stopped by a signal" if suspended else "",
        nodes=socket.gethostname(),
        started_at=info["create_time"],
        work_dir=info["cwd"] or "",
    )


def _unknown(run: Run, reason: str) -> Job:
    return Job("", "", run.name, next(iter(run.users), ""), UNKNOWN, reason)


def _family(lineage: list[psutil.Process]) -> frozenset[int]:
    """Return the ids of this process and its ancestors, and of all children of watchdogd among them."""
    found = {process.pid for process in lineage}
    for process in lineage:
        try:
            if _is_watchdogd(process):
                found |= {child.pid for child in process.children(recursive=True)}
        except psutil.Error:
            continue
    return frozenset(found)


def _is_watchdogd(process: psutil.Process) -> bool:
    """Return whether it is a worker or daemon, by its command line."""
    words = process.cmdline()[:4]
    return any(os.path.basename(word) == "watchdogd" or word.startswith("watchdogd.") for word in words)


def _start_ticks(pid: int) -> str:
    """Return a process's start in ticks since boot, proc(5), which no clock change affects."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
