"""Usage below a directory, counted by du(1) in the background: slow, and only if configured.

A count outlives the round and the process that started it: du runs on its own and writes to a file, from
which a later round takes the result. Each check runs only one at a time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field

import psutil

from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.system.command import environment
from watchdogd.system.number import count
from watchdogd.system.smallfile import host_name
from watchdogd.system.times import fresh
from watchdogd.units import format_duration

DEADLINE = 6 * 3600.0
"""Seconds after which a count is given up."""
AGAIN = 3600.0
"""Seconds between two counts."""
_SCRIPT = """
count() {
    kind=$1; shift
    said=$(nice -n 19 timeout "$seconds" du -s -x "$@" 2>&1)
    code=$?
    printf '%s %s\\n' "$kind" "$(printf '%s\\n' "$said" | tail -n 1 | cut -f 1)"
    [ $code = 0 ] || printf 'trouble %s\\n' "$(printf '%s\\n' "$said" | head -n 1)"
}
seconds=$1
{ count bytes --block-size=1 -- "$2"; count inodes --inodes -- "$2"; echo done; } >"$3"
"""
"""Count at lowest priority within one file system. du continues past what it may not read, and reports it."""


@dataclass(frozen=True, slots=True)
class DuProcess:
    """Running count: its process and host, its output file, and when it was started."""

    pid: int
    host: str
    file: str
    at: float


@dataclass(slots=True)
class DuState:
    """Last finished count (`found`, by kind), when it was read, and the one that `runs` now."""

    found: dict[str, int] = field(default_factory=dict)
    at: float | None = None
    runs: DuProcess | None = None


def usage(path: str, known: DuState, now: float) -> tuple[tuple[StorageLimit, ...], str]:
    """Return the result of the last finished count, and what went wrong with the newest one.

    The limits have no maximum, since du only knows what is used. Start the next count if it is due.
    """
    trouble = ""
    if known.runs:
        trouble = _fetch(known, known.runs, now)
    elif not fresh(known.at or 0.0, now, AGAIN):
        known.runs = _start(path, now)
    age = format_duration(now - (now if known.at is None else known.at))
    limits = tuple(
        StorageLimit(kind, f"counted by du {age} ago", float(number), path=path)
        for kind, number in known.found.items()
    )
    return limits, trouble


def _fetch(known: DuState, runs: DuProcess, now: float) -> str:
    """Read the result of a finished count; return what went wrong with it."""
    lines = _lines(runs.file)
    if "done" not in lines:
        here = runs.host == host_name()
        if now - runs.at < DEADLINE and (not here or _alive(runs.pid)):
            return ""
    fields = dict(line.partition(" ")[::2] for line in lines)
    found = {kind: number for kind in (BYTES, INODES) if (number := count(fields.get(kind))) is not None}
    known.found, known.at, known.runs = found or known.found, now, None
    with contextlib.suppress(OSError):
        os.unlink(runs.file)
    return fields.get("trouble", "") or ("" if "done" in lines else "du ended before it had counted")


def _start(path: str, now: float) -> DuProcess:
    """Start a count in a session of its own; return where later rounds find it."""
    descriptor, file = tempfile.mkstemp(prefix="watchdogd-du.")
    os.close(descriptor)
    argv = ["sh", "-c", _SCRIPT, "watchdogd-du", f"{DEADLINE / 2:.0f}", path, file]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(
        argv, stdin=quiet, stdout=quiet, stderr=quiet, env=environment(), start_new_session=True
    )
    threading.Thread(target=running.wait, daemon=True, name=f"du {path}").start()  # reap it
    return DuProcess(running.pid, host_name(), file, now)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536).splitlines()
    except OSError:
        return []


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
