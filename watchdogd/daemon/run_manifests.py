"""Files that the daemon lays out for training loops, and finds there: switches/RUN.json, RUN.finished."""

from __future__ import annotations

import contextlib
import grp
import json
import os
from pathlib import Path
from typing import Any

from watchdogd.config.models import Config
from watchdogd.daemon.registry.check_factory import Check
from watchdogd.home.layout import Home
from watchdogd.plugin import Run
from watchdogd.system.pathname import file_name
from watchdogd.system.smallfile import NoPlainFileError, read_head


def lay_out(home: Home, config: Config, checks: tuple[Check, ...]) -> None:
    """Write switches/RUN.json of every run where it is not as it should be. OSError where that fails.

    One that is as it should be gets a new time where config.toml was edited since: `actions.switches` asks.
    """
    edited = home.config.stat().st_ctime_ns
    runs = {check.run.name: check.run for check in checks if check.run}
    for run in runs.values():
        path = home.switches / f"{file_name(run.name)}.json"
        text = json.dumps(_places(home, config, run), indent=1) + "\n"
        if _text(path, len(text)) != text:
            home.write(path, text)
        elif path.stat().st_mtime_ns < edited:
            with contextlib.suppress(OSError):  # a colleague's: then config.toml is read at each press
                os.utime(path)


def _text(path: Path, size: int) -> str | None:
    """Read the beginning of a file, and one byte beyond; None where none can be read."""
    try:
        return read_head(path, size + 1)[0].decode("utf-8", "replace")
    except (FileNotFoundError, NoPlainFileError):
        return None


def _places(home: Home, config: Config, run: Run) -> dict[str, Any]:
    """Return what a Guard, `guard` and `probe` need to know of a run."""
    section = config.runs[run.name]
    return {
        "run": run.name,
        "kill_switch": run.kill_switch,
        "save_switch": run.save_switch,
        "inbox": str(home.inbox),
        "memory_free": None if section.memory_free is None else str(section.memory_free),
        "group": None if home.group is None else grp.getgrgid(home.group).gr_name,
        "job_name": run.job_name,
        "node_disks": list(section.node_disks),
    }
