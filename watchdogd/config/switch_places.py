"""Locations of a run's switches, from the daemon's `switches/RUN.json` or else from config.toml.

This module imports little, so that pressing a switch is quick on the slowest file system; config.toml is read
only where RUN.json is missing or out of date.
"""

from __future__ import annotations

import json
import os
import shlex

from watchdogd.errors import WatchdogError
from watchdogd.home import touchfile
from watchdogd.home.switches import Switch, SwitchError, owner_of, runs
from watchdogd.system.account import group_name, user_name
from watchdogd.system.pathname import file_name, is_path

_MANIFEST_LIMIT = 65536


def find(home: str, run: str, kind: str) -> Switch:
    """Return a run's switch. WatchdogError, with the nearest name, where there is no such run."""
    manifest, key = _manifest_of(home, run), f"{kind}_switch"
    known = key in manifest
    configured = {} if known and not _is_older(home, run) else _configured(home, run, needed=not known)
    places = [found[key] for found in (configured, manifest) if found.get(key) is not None]
    inbox = manifest["inbox"] if known and "inbox" in manifest else os.path.join(home, "inbox")
    group = (configured or manifest).get("group")
    slurm = manifest.get("backend") == "slurm" and "job_name" in manifest
    end = f"scancel --name={shlex.quote(manifest['job_name'])}" if slurm else ""
    return Switch(run, kind, tuple(dict.fromkeys([*places, _own(home, run, kind)])), inbox, group, end)


def find_or_default(home: str, run: str, kind: str) -> Switch:
    """Return the result of `find`, else the switch in home that every Guard of the run polls."""
    try:
        return find(home, run, kind)
    except WatchdogError:
        return Switch(run, kind, (_own(home, run, kind),), os.path.join(home, "inbox"), None)


def _manifest_of(home: str, run: str) -> dict[str, str]:
    """Return the paths and the group in switches/RUN.json; invalid ones are left out."""
    try:
        manifest = json.loads(touchfile.head(_manifest(home, run), _MANIFEST_LIMIT))
    except PermissionError:
        whose = f"only {owner_of(home)}, or the group of [daemon] group, may"
        raise SwitchError(f"{user_name(os.getuid())} may not use the switches of {home}: {whose}") from None
    except (OSError, ValueError, RecursionError):
        return {}
    kept = manifest.items() if isinstance(manifest, dict) else ()
    return {key: value for key, value in kept if isinstance(value, str) and is_path(value)}


def _own(home: str, run: str, kind: str) -> str:
    """Return the path of the switch in home, which counts in addition to the configured one."""
    return os.path.join(home, "switches", f"{file_name(run)}.{kind}")


def _manifest(home: str, run: str) -> str:
    return os.path.join(home, "switches", f"{file_name(run)}.json")


def _is_older(home: str, run: str) -> bool:
    """Return whether config.toml is newer than RUN.json."""
    try:
        config = os.stat(os.path.join(home, "config.toml"))
        return config.st_ctime_ns > os.stat(_manifest(home, run)).st_mtime_ns
    except OSError:
        return False


def _configured(home: str, run: str, *, needed: bool) -> dict[str, str | None]:
    """Return the paths from config.toml; empty where it cannot be read and is not `needed`."""
    from watchdogd.config.loading import load
    from watchdogd.home.layout import Home, switch_path
    from watchdogd.system.text import nearest

    place = Home.existing(home)
    try:
        configured = load(place, pressing=True).runs
    except Exception:  # in an emergency RUN.json will do, if there is one
        if needed:
            raise
        return {}
    if run not in configured:
        if not needed:
            return {}
        raise WatchdogError(f"there is no run '{run}'{nearest(run, sorted({*configured, *runs(home)}))}")
    section = configured[run]
    return {
        "kill_switch": switch_path(place, run, section.kill_switch, "kill"),
        "save_switch": switch_path(place, run, section.save_switch, "save"),
        "group": None if place.group is None else group_name(place.group),
    }
