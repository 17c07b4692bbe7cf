"""Tests of what config.toml watches: files of runs, disks and their quotas, plugins and drop-ins."""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from watchdogd.batch import live_job
from watchdogd.batch.run_models import slurm_users
from watchdogd.config.target_models import DiskSection, RunSection
from watchdogd.daemon.dropins import dropins
from watchdogd.daemon.registry.plugin_registry import skipped
from watchdogd.doctor.diagnosis import Diagnosis, Installation, broken, fine, warning
from watchdogd.errors import WatchdogError
from watchdogd.home.layout import absolute
from watchdogd.plugin import Run
from watchdogd.plugins.disk_quota import quota_sources
from watchdogd.plugins.log_staleness import log_paths
from watchdogd.remediation import flight_recorder
from watchdogd.remediation.stall_inquiry import look_at
from watchdogd.system.mounts import mount_at
from watchdogd.system.number import count

RUNS = "runs"


def look_at_runs(installation: Installation) -> Iterator[Diagnosis]:
    """Test each configured run; one line where nothing is wrong."""
    yield from _shared(installation)
    for run in installation.runs():
        section = installation.config.runs[run.name]
        found = [finding for finding in _run(installation, run, section) if finding is not None]
        found += _recorder(installation, run)
        yield from found or [fine(RUNS, f"{run.name}: {_in_place(section)} are in place")]


def _in_place(section: RunSection) -> str:
    """Return what a run has, as configured: `log, switches and checkpoints`."""
    return "log, switches and checkpoints" if section.checkpoints else "log and switches"


def _shared(installation: Installation) -> Iterator[Diagnosis]:
    """Warn of runs that read the same log: lines of one would hide a hang of the other."""
    readers: dict[str, list[str]] = {}
    for name, section in installation.config.runs.items():
        if section.log:
            readers.setdefault(absolute(installation.home, section.log), []).append(name)
    for log, names in readers.items():
        if len(names) > 1:
            fix = "set a log of its own under [runs.NAME] of each: submit with --output='%x-%j.out'"
            yield warning(RUNS, f"{' and '.join(names)} read the same log, {log}: one can hide a hang", fix)


def _run(installation: Installation, run: Run, section: RunSection) -> Iterator[Diagnosis | None]:
    key = f"under [runs.{run.name}]"
    if run.backend == "none":
        yield broken(RUNS, f"{run.name}: no Slurm is here to ask for it", f"set pid_file or command {key}")
    if section.log:
        yield log_of(run.name, absolute(installation.home, section.log), key)
    else:
        yield warning(RUNS, f"{run.name}: without its log a hang goes unseen", f"set log {key}")
    if section.checkpoints and not glob.glob(absolute(installation.home, section.checkpoints)):
        text = f"{run.name}: no checkpoint matches {section.checkpoints} (yet?)"
        yield warning(RUNS, text, f"correct checkpoints {key}, if there should be some")
    for script in _resubmitted(section):
        if not os.path.exists(absolute(installation.home, script)):
            text = f"{run.name}: {script} does not exist, so that watchdogd cannot resubmit it"
            yield broken(RUNS, text, f"correct resubmit {key}")
    folders = {os.path.dirname(path) for path in (run.kill_switch, run.save_switch)}
    if section.pulse:
        folders.add(os.path.dirname(absolute(installation.home, section.pulse)))
    for folder in sorted(folders):
        yield writable(run.name, folder)


def _resubmitted(section: RunSection) -> Iterator[str]:
    """Yield the scripts that its actions submit."""
    actions = (
        each for key in type(section).model_fields if key.startswith("on_") for each in getattr(section, key)
    )
    scripts = (each.resubmit for each in actions if not isinstance(each, str))
    return iter(dict.fromkeys(filter(None, scripts)))


def _recorder(installation: Installation, run: Run) -> list[Diagnosis]:
    """Judge whether PyTorch's Flight Recorder is usable in the ranks of the run's live job."""
    try:
        live = live_job.locate(run, slurm_users(installation.config))
    except WatchdogError:
        return []  # no job runs
    ranks = [each for node in look_at(live.run, live.jobs).nodes for each in node.processes]
    several = [each.env for each in ranks if (count(each.env.get("WORLD_SIZE")) or len(ranks)) > 1]
    lacking = dict.fromkeys(filter(None, map(flight_recorder.lacking, several)))
    fix = "export it in the job script: see docs/training.md, 'When a collective hangs'"
    return [warning(RUNS, f"{run.name}: PyTorch's Flight Recorder: {why}", fix) for why in lacking]


def log_of(name: str, pattern: str, key: str) -> Diagnosis | None:
    """Return what is wrong with a run's log, or None; `key`: where it is configured."""
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    instead = None if found else log_paths.find(pattern)
    if instead:
        return broken(RUNS, f"{name}: {instead.what}", f"{instead.fix or 'correct log'} ({key})")
    if not found:
        return warning(RUNS, f"{name}: no file matches {pattern} (yet?)", f"correct log {key}, if it should")
    unread = [path for path in found if not os.access(path, os.R_OK)]
    if unread:
        fix = f"have its owner run: chmod g+r {unread[0]}"
        return broken(RUNS, f"{name}: {len(unread)} of its logs cannot be read: {unread[0]}", fix)
    return None


def writable(name: str, folder: str) -> Diagnosis | None:
    """Return why no files can be created in a folder, or None."""
    if not os.path.isdir(folder):
        return broken(RUNS, f"{name}: there is no folder {folder} for its switches", f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return broken(RUNS, f"{name}: nothing can be written to {folder}", f"chmod u+wx {folder}")
    return None


DISKS = "disks"
_TOOLS = {"lustre": ("lfs",), "beegfs": ("beegfs-ctl", "beegfs"), "posix": ("quota",)}


def look_at_disks(installation: Installation) -> Iterator[Diagnosis]:
    for name, disk in installation.config.disks.items():
        yield _disk(name, absolute(installation.home, disk.path), disk)


def _disk(name: str, path: str, disk: DiskSection) -> Diagnosis:
    mount = mount_at(path)
    try:
        os.statvfs(path)
    except OSError as error:
        return broken(DISKS, f"{name}: {path}: {error.strerror}", f"correct path under [disks.{name}]")
    if mount is None:
        return fine(DISKS, f"{name}: {path} is there")
    source: str | dict[str, Any] = (
        disk.quota if isinstance(disk.quota, str) else disk.quota.model_dump(exclude_none=True)
    )
    source = quota_sources.automatic(mount) if source == "auto" else source
    tools = _TOOLS.get(source, ()) if isinstance(source, str) else (source["command"][0],)
    if tools and not any(shutil.which(tool) for tool in tools):
        text = f"{name}: there is no {' or '.join(tools)} here: only the file system as a whole is judged"
        return warning(DISKS, text, f"load it, or set quota under [disks.{name}]")
    if source in ("statvfs", "du"):
        return fine(DISKS, f"{name}: {path} on {mount.type}, by {source}")
    said = quota_sources.ask_quotas(source, quota_sources.QuotaPath(path, mount, time.time()))
    how = source if isinstance(source, str) else tools[0]
    if said.trouble:
        fix = f"try it by hand; correct quota under [disks.{name}]"
        return warning(DISKS, f"{name}: quotas of {path} by {how}: {said.trouble}", fix)
    limits = ", ".join(dict.fromkeys(limit.of for limit in said.limits)) or "none is set"
    return fine(DISKS, f"{name}: {path} on {mount.type}, quotas by {how}: {limits}")


CONFIG = "config"


def look_at_config(installation: Installation) -> Iterator[Diagnosis]:
    """Judge a valid configuration: whether anything is watched, and anybody notified."""
    config = installation.config
    parts = (("check", installation.setup.checks), ("run", config.runs), ("disk", config.disks))
    counts = ", ".join(f"{len(found)} {what}{'' if len(found) == 1 else 's'}" for what, found in parts)
    yield fine(CONFIG, f"{installation.home.config} is sound: {counts}")
    if not config.runs:
        yield warning(
            CONFIG, "no run is watched", f"{installation.home.command('watch JOB')}, or add [runs.NAME]"
        )
    if not config.disks:
        yield warning(CONFIG, "no disk is watched", 'add [disks.scratch] with path = "..."')
    if all(config.channels[name].local for name in config.default_channels):
        where = ", ".join(config.default_channels) or "no channel at all"
        yield warning(
            CONFIG, f"nobody is notified: messages go to {where}", "add [channels.slack] or [channels.mail]"
        )


PLUGINS = "plugins"


def look_at_plugins(installation: Installation) -> Iterator[Diagnosis]:
    """Test the plugins of home and of packages, and the drop-ins in cron.*/."""
    bad = skipped(installation.setup.catalog.values())
    for entry in bad:
        yield broken(PLUGINS, f"{entry.name} ({entry.origin}): {entry.skipped}", "fix or remove it")
    found = list(dropins.look(installation.home))
    for dropin in found:
        if dropin.refused:
            fix = dropin.refused.fix or "correct its rights, or take it out"
            yield broken("drop-ins", f"{dropin.name}: {dropin.refused.what}", fix)
        elif dropin.skipped and not dropin.aside:
            yield warning("drop-ins", f"{dropin.name}: {dropin.skipped}", "fix it, or name it *.disabled")
    if not bad:
        runs = sum(dropin.runs for dropin in found)
        dropped = f", {runs} drop-in{'' if runs == 1 else 's'}" if found else ""
        yield fine(PLUGINS, f"{len(installation.setup.catalog)} can be loaded{dropped}")
