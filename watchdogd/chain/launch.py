"""Starting of the watchdog: as a chain of Slurm jobs, or as a background process on this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watchdogd.batch import sinfo, slurm
from watchdogd.batch.models import Job
from watchdogd.batch.sinfo import Partition
from watchdogd.chain import link_script, live_links
from watchdogd.chain.link_script import LinkJob, LinkOptions
from watchdogd.chain.live_links import ChainResult
from watchdogd.config.models import Config
from watchdogd.config.secret import exposed
from watchdogd.errors import ConfigError, HomeError, SlurmError, SlurmSilentError, WatchdogError
from watchdogd.home import lease, markers
from watchdogd.home.layout import Home
from watchdogd.notify import senders
from watchdogd.system import umask
from watchdogd.system.number import count
from watchdogd.system.smallfile import open_plain
from watchdogd.system.times import parse_walltime

_UP = 30.0
_LOCAL_LOOK = 0.1


def start_locally(home: Home) -> str:
    """Start the daemon in its own session; return its lease holder. WatchdogError if it ends at once."""
    log = link_script.log_of(home)
    link_script.prepare_log(home)
    before = log.stat().st_size if log.exists() else 0
    users = umask.users()
    # Not by watchdogd.system.command: this process must outlive the caller.
    with open(open_plain(log, os.O_WRONLY | os.O_APPEND), "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "watchdogd", "run", "--home", str(home.path)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home.path,
            env={key: value for key, value in os.environ.items() if key != "WATCHDOGD_LINK"},
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
        time.sleep(_LOCAL_LOOK)
    return f"process {process.pid}, which does not act yet: see {log}"


def _last_line(log: Path, since: int) -> str:
    with open(open_plain(log), "rb") as file:
        file.seek(since)
        lines = file.read(65536).decode("utf-8", "replace").split("\n")
    return next((line.removeprefix("watchdogd: ") for line in reversed(lines) if line.strip()), "")


_FULL = "its file system, or your quota, is full: free space"
_WHY = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.ENOENT: "a folder of it is missing: '{init}' makes it",
}
_SETTLE = 6.0
TICK = 900.0
"""Default walltime of a link in tick mode, in seconds."""
_LOOK = 0.5
_IMAGES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
"""Variables that Apptainer sets inside an image, whose Python does not exist on a bare node."""


def start(home: Home, config: Config, wish: LinkOptions) -> ChainResult:
    """Start the watchdog unless it is alive. ConfigError, SlurmError or WatchdogError where that fails."""
    check_secrets(config, home)
    try:
        return already_running(home, local=wish.mode == "local") or _begin(home, config, wish)
    except OSError as error:
        why = (_WHY.get(error.errno or 0) or str(error.strerror)).format(init=home.command("init"))
        raise HomeError(f"nothing was started: {home.path} cannot be written: {why}") from None


def _begin(home: Home, config: Config, wish: LinkOptions) -> ChainResult:
    warnings = (
        *unknown_users(config),
        *nothing_watched_warning(home, config),
        *no_channel_warning(config),
        *exposed(config.secrets(), home.group),
    )
    if wish.mode == "local":
        link_script.remember(home, wish, 0.0)
        with markers.lifted(home):
            return ChainResult((f"started here: {start_locally(home)}",), changed=True, warnings=warnings)
    planned = _planned(home, config, wish)
    with markers.lifted(home):
        return _submit(home, planned, wish, (*warnings, *planned.warnings))


def check(home: Home, config: Config, wish: LinkOptions) -> None:
    """Raise the errors that `start` would, as far as they show without starting anything."""
    check_secrets(config, home)
    if wish.mode != "local":
        _planned(home, config, wish)


def ensure(home: Home, config: Config, wish: LinkOptions) -> ChainResult:
    """Start the watchdog unless it is alive or was stopped on purpose; for cron and login scripts."""
    stopped = markers.stop_words(home)
    if stopped:
        return ChainResult(
            (f"it was {stopped}; '{home.command(markers.start_verb(home))}' starts it again",), changed=False
        )
    return start(home, config, wish)


def already_running(home: Home, *, local: bool = False) -> ChainResult | None:
    """Return where it runs, in words; None where it does not. SlurmSilentError where that is unknown.

    `local`: ignore a silent Slurm, since the lease lets only one daemon act.
    """
    try:
        found = live_links.active_links(home)
    except SlurmSilentError:
        if not local:
            raise
        found = ()
    if found:
        return _found(found)
    holder = lease.alive(home)
    return ChainResult((f"it runs already: {holder}",), changed=False) if holder else None


def _found(found: Sequence[Job]) -> ChainResult:
    """Return the result for existing links, with a warning where they may never start."""
    waits = all(each.waiting for each in found)
    never = tuple(filter(None, map(live_links.held_up if waits else live_links.blocked, found)))
    words = f"it runs already: {'; '.join(map(live_links.describe, found))}"
    return ChainResult((words,), False, found[0], never)


def check_secrets(config: Config, home: Home) -> None:
    """Raise WatchdogError where a secret is missing or invalid, so that the link could not send."""
    for key, secret in config.secrets(relayed=False):
        try:
            secret.reveal()
        except ConfigError as error:
            raise WatchdogError(f"{key}: {error}") from None
    try:
        senders.build(config, home)
    except ConfigError as error:
        raise WatchdogError(str(error)) from None


def no_channel_warning(config: Config) -> tuple[str, ...]:
    if config.default_channels:
        return ()
    return ("no channel is configured: nobody is told of anything; add one, such as [channels.mail]",)


def nothing_watched_warning(home: Home, config: Config) -> tuple[str, ...]:
    """Return a warning where there is nothing to watch, neither configured nor dropped in."""
    if config.runs or config.disks or config.checks or any(home.path.glob("cron.*/*")):
        return ()
    return (f"nothing is watched yet: '{home.command('watch JOB')}', or add [runs.NAME] or [disks.NAME]",)


def unknown_users(config: Config) -> tuple[str, ...]:
    """Return a line for each configured user whom the name service does not know."""
    known = {entry.pw_name for name in config.slurm.users if (entry := _entry(name))}
    return tuple(
        f"user '{name}' of [slurm] users is not known on this machine: no job of that name counts"
        for name in config.slurm.users
        if name not in known
    )


@dataclass(frozen=True, slots=True)
class _Planned:
    """Link to be submitted; `warnings` are about its partition."""

    form: LinkJob
    warnings: tuple[str, ...]


def _planned(home: Home, config: Config, wish: LinkOptions) -> _Planned:
    """Return the first link. SlurmError where it cannot be submitted."""
    if not shutil.which("sbatch"):
        raise SlurmError("there is no sbatch on this machine: start it where Slurm is, or with --local")
    if any(name in os.environ for name in _IMAGES):
        raise SlurmError(
            "a link cannot run from inside a container image: start it from an installation that the nodes "
            "see, or use 'watchdogd run' or 'tick' in the image"
        )
    site = sinfo.ask_partitions()
    chosen = site.chosen(wish.partition or config.slurm.partition or "")
    walltime = _walltime(chosen, config, wish)
    form = link_script.link_job(home, config, wish, walltime, live_links.shortest(walltime, time.time()))
    return _Planned(form, tuple(filter(None, [sinfo.gpu_warning(chosen, site)])))


def _walltime(chosen: list[Partition], config: Config, wish: LinkOptions) -> float:
    """Return seconds: as given to `start`, else as configured; always short for a tick."""
    if wish.time:
        return sinfo.allowed_walltime(chosen, parse_walltime(wish.time))
    configured = parse_walltime(config.slurm.time) if config.slurm.time else None
    if wish.mode == "tick":
        return sinfo.allowed_walltime(chosen, None, min(configured or TICK, TICK))
    return sinfo.allowed_walltime(chosen, configured)


def _submit(home: Home, planned: _Planned, wish: LinkOptions, warnings: tuple[str, ...]) -> ChainResult:
    form = planned.form
    link_script.remember(home, wish, form.walltime)
    link_script.prepare_log(home)
    job_id = _submitted(home, form)
    rival = _earlier(home, job_id)
    if rival:
        slurm.scancel([job_id])
        return _found(rival)
    if markers.is_stopped(home):
        slurm.scancel([job_id])
        raise WatchdogError(f"it was {markers.stop_words(home)} meanwhile: link {job_id} was cancelled again")
    job = _settled(home, job_id)
    never = live_links.stuck(job) if job else ""
    if never:
        slurm.scancel([job_id])
        raise SlurmError(f"Slurm took the link, but {never}; it was cancelled again")
    limited = live_links.limited(job) if job else ""
    if job is None and _vanished(home):
        raise SlurmError(
            f"Slurm took link {job_id}, but it ended at once: see {link_script.log_of(home)}; "
            f"'{home.command('doctor --on-partition')}' finds out why"
        )
    state = live_links.describe(job) if job else f"job {job_id}"
    words = (*warnings, *filter(None, [limited]))
    return ChainResult((f"started: {state}",), True, job, words)


def _submitted(home: Home, form: LinkJob) -> str:
    """Submit the link; where sbatch failed, look whether Slurm accepted it all the same."""
    try:
        return slurm.sbatch(form.sbatch_options(), form.script(), form.environment())
    except SlurmSilentError:
        with contextlib.suppress(SlurmSilentError):
            for taken in live_links.active_links(home):
                return taken.raw_id
        raise
    except SlurmError as error:  # its fix may be a command of ours, which is typed for this home
        raise SlurmError(
            error.what, fix=error.fix.replace("watchdogd start", home.command("start"))
        ) from None


def _earlier(home: Home, job_id: str) -> tuple[Job, ...]:
    """Return links that another process submitted at the same time, before this one: the first one wins.

    Each looks when its own link is in the queue, so that only one can see none before it.
    """
    try:
        found = live_links.active_links(home)
    except SlurmSilentError:
        return ()  # the lease then lets one of them act
    return tuple(each for each in found if (count(each.raw_id) or 0) < (count(job_id) or 0))


def _settled(home: Home, job_id: str) -> Job | None:
    """Return the new link once it runs or has a reason to wait, after six seconds in any case."""
    until = time.monotonic() + _SETTLE
    while True:
        try:
            found = next((each for each in live_links.active_links(home) if each.raw_id == job_id), None)
        except SlurmSilentError:
            found = None
        settled = found is not None and (not found.waiting or found.reason not in ("", "None"))
        if settled or time.monotonic() > until:
            return found
        time.sleep(_LOOK)


def _vanished(home: Home) -> bool:
    """Return whether nothing of it is in the queue and nobody holds the lease (a tick leaves a successor)."""
    try:
        return not live_links.active_links(home) and lease.alive(home) is None
    except SlurmSilentError:
        return False


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
