"""The daemon as a background process of this machine, for where there is no Slurm, or none is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from watchdogd.chain import link
from watchdogd.errors import WatchdogError
from watchdogd.home import lease
from watchdogd.system import umask
from watchdogd.system.plainfile import open_plain

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.home.layout import Home

_UP = 30.0
_LOOK = 0.1


def launch(home: Home) -> str:
    """Start it in a session of its own; returns who it is once it acts. WatchdogError if it ends."""
    log = link.log_of(home)
    link.prepare_log(home)
    before = log.stat().st_size if log.exists() else 0
    users = umask.users()
    # Not through watchdogd.system.command: this one shall outlive us.
    with open(open_plain(log, os.O_WRONLY | os.O_APPEND), "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "watchdogd", "run", "--home", str(home.path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home.path,
            env=_environment(),
            start_new_session=True,
            umask=-1 if users is None else users,
        )
    until = time.monotonic() + _UP
    while time.monotonic() < until:
        holder = lease.alive(home)
        if holder and holder.pid == process.pid:
            return str(holder)
        if process.poll() is not None:
            raise WatchdogError(f"it ended at once: {_last_line(log, before) or f'see {log}'}")
        time.sleep(_LOOK)
    return f"process {process.pid}, which does not act yet: see {log}"


def _environment() -> dict[str, str]:
    """Ours, without what a link or a job would leave in it."""
    return {key: value for key, value in os.environ.items() if key != "WATCHDOGD_LINK"}


def _last_line(log: Path, since: int) -> str:
    with open(open_plain(log), "rb") as file:
        file.seek(since)
        lines = file.read(65536).decode("utf-8", "replace").split("\n")
    return next((line.removeprefix("watchdogd: ") for line in reversed(lines) if line.strip()), "")
