"""What is wrong with a configuration as a whole, though each value is right for itself."""

from __future__ import annotations

import grp
import os
from typing import TYPE_CHECKING, Any

from watchdogd.config.fields import name_fault
from watchdogd.system.pathname import file_name
from watchdogd.system.text import close_to, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchdogd.config.sections import Config

RESERVED = "watchdogd"
"""The name under which the daemon speaks of itself."""


def fault(config: Config) -> str:
    """The first thing that makes no sense, in one line with its key; empty where all does."""
    return next((text for text in (*_names(config), *_channels(config), *_switches(config)) if text), "")


def unknown_group(config: Config) -> str:
    """A Unix group that this machine does not know; a machine is asked, so only where it will be used."""
    for key, group in (("daemon.group", config.daemon.group), ("slurm.group", config.slurm.group)):
        if group is not None and not _exists(group):
            hint = close_to(group, [entry.gr_name for entry in grp.getgrall()])
            return f"{key}: there is no Unix group '{group}' on this machine{hint}"
    return ""


def _names(config: Config) -> Iterator[str]:
    """Runs, disks and checks share their names: messages, silences and the history go by them."""
    taken: dict[str, str] = {}
    tables: dict[str, Iterable[str]] = {
        "channels": config.channels,
        "runs": config.runs,
        "disks": config.disks,
        "checks": config.checks,
    }
    for table, names in tables.items():
        for name in names:
            wrong = name_fault(name)
            if wrong:
                yield f"{table}: {wrong}: give it another"
            if table == "channels":
                continue
            if name in taken:
                yield f"{table}.{name}: there is {taken[name]} of this name already: rename one of them"
            if name == RESERVED:
                yield f"{table}.{name}: so the watchdog calls itself: give it another name"
            taken[name] = f"[{table}.{name}]"


def _channels(config: Config) -> Iterator[str]:
    """A line for each channel that is named and not configured."""
    for key, named in _named(config):
        for channel in _each(named):
            if channel not in config.channels:
                hint = nearest(str(channel), list(config.channels))
                yield f"{key}: there is no [channels.{channel}]{hint}"


def _each(named: object) -> Iterable[object]:
    """The channels of a list, or of a table by severity."""
    if isinstance(named, dict):
        return [channel for names in named.values() for channel in _each(names)]
    return named if isinstance(named, list | tuple) else ()


def _switches(config: Config) -> Iterator[str]:
    """A line for each switch that lies where the other kind always counts, beside the configured place."""
    for name, run in config.runs.items():
        for kind, path, other in (("kill", run.kill_switch, "save"), ("save", run.save_switch, "kill")):
            taken = ["switches", f"{file_name(name)}.{other}"]
            if path and os.path.normpath(path).split("/")[-2:] == taken:
                yield f"runs.{name}.{kind}_switch: {path} is its {other} switch: name another file"


def _named(config: Config) -> Iterator[tuple[str, Any]]:
    yield "alerts.channels", config.alerts.channels
    yield "alerts.escalate_to", config.alerts.escalate_to
    yield "alerts.fallback", config.alerts.fallback
    for name, run in config.runs.items():
        yield f"runs.{name}.channels", run.channels
    for name, disk in config.disks.items():
        yield f"disks.{name}.channels", disk.channels
    for name, check in config.checks.items():
        yield f"checks.{name}.channels", check.channels
    for table, sections in (("runs", config.runs), ("disks", config.disks)):
        for name, section in sections.items():
            for plugin, keys in section.checks.items():
                yield f"{table}.{name}.checks.{plugin}.channels", keys.get("channels")


def _exists(group: str) -> bool:
    try:
        grp.getgrnam(group)
    except KeyError:
        return False
    return True
