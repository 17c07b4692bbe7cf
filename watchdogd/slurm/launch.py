"""Starting and ending the watchdog from outside: as a chain of Slurm jobs, or a process of this machine."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd import lease, stopmark
from watchdogd.errors import ConfigError, HomeError, SlurmError, SlurmSilentError, WatchdogError
from watchdogd.notify import channels
from watchdogd.secret import exposed
from watchdogd.slurm import link, links, maintenance, partition, submit
from watchdogd.slurm.local import launch
from watchdogd.slurm.walltime import parse_walltime

if TYPE_CHECKING:
    from watchdogd.config import Config
    from watchdogd.home import Home
    from watchdogd.jobs import Job
    from watchdogd.slurm.link import Wish

_SETTLE = 6.0
_GONE = 90.0
_TICK_WALLTIME = 900.0
_LOOK = 0.5
_IMAGES = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
"""Variables that Apptainer sets inside an image; the image's Python is not there on a bare node."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it, in lines to print; `link` is the job that was submitted or found."""

    lines: tuple[str, ...]
    changed: bool
    link: Job | None = None
    warnings: tuple[str, ...] = ()


def start(home: Home, config: Config, wish: Wish) -> Outcome:
    """Start it where it is not alive. ConfigError, SlurmError, or WatchdogError where it cannot be."""
    check_secrets(config, home)
    alive = whereabouts(home)
    if alive:
        return alive
    stopmark.remove(home)
    warnings = (
        *unknown_users(config),
        *idle(home, config),
        *mute(config),
        *exposed(config.secrets(), home.group),
    )
    if wish.mode == "local":
        link.remember(home, wish, 0.0)
        return Outcome((f"started here: {launch(home)}",), changed=True, warnings=warnings)
    return _submit(home, config, wish, warnings)


def ensure(home: Home, config: Config, wish: Wish) -> Outcome:
    """Start it where it is not alive, unless somebody stopped it on purpose; for cron and login scripts."""
    stopped = stopmark.words(home)
    if stopped:
        return Outcome((f"it was {stopped}; 'watchdogd start' starts it again",), changed=False)
    return start(home, config, wish)


def stop(home: Home, reason: str = "") -> Outcome:
    """End it for good, successor first. WatchdogError where something of it is left after 90 seconds."""
    with contextlib.suppress(OSError):  # a full home: it is ended without the mark
        stopmark.put(home, reason)
    until = time.monotonic() + _GONE
    ended: dict[str, str] = {}
    _end_process(home, ended)
    while True:
        left = _end_links(home, ended) + _end_process(home, ended)
        if not left:
            return Outcome(
                (f"ended {', '.join(ended.values())}" if ended else "it was not running",), bool(ended)
            )
        if time.monotonic() > until:
            raise WatchdogError(
                f"{', '.join(left)} may go on: the stop mark in home ends it as soon as it sees it"
            )
        time.sleep(_LOOK)


def whereabouts(home: Home) -> Outcome | None:
    """Where it lives, in words, or None where it does not. SlurmSilentError where nobody can tell."""
    found = links.everybodys(home)
    if found:
        never = tuple(filter(None, map(links.blocked, found)))
        return Outcome((f"it runs already: {'; '.join(map(links.describe, found))}",), False, found[0], never)
    holder = lease.alive(home)
    return Outcome((f"it runs already: {holder}",), changed=False) if holder else None


def check_secrets(config: Config, home: Home) -> None:
    """WatchdogError where a secret is not to be had here, or is none: the link would be mute."""
    for key, secret in config.secrets():
        try:
            secret.reveal()
        except ConfigError as error:
            raise WatchdogError(f"{key}: {error}") from None
    try:
        channels.build(config, home)
    except ConfigError as error:
        raise WatchdogError(str(error)) from None


def mute(config: Config) -> tuple[str, ...]:
    """A line where nobody would hear of anything."""
    if config.default_channels:
        return ()
    return ("no channel is configured: nobody is told of anything; add one, such as [channels.mail]",)


def idle(home: Home, config: Config) -> tuple[str, ...]:
    """A line where there is nothing to watch: neither configured nor dropped in."""
    if config.runs or config.disks or config.checks or any(home.path.glob("cron.*/*")):
        return ()
    return ("nothing is watched yet: 'watchdogd watch JOB', or add [runs.NAME] or [disks.NAME]",)


def unknown_users(config: Config) -> tuple[str, ...]:
    """A line for each configured user whom the name service does not know."""
    known = {entry.pw_name for name in config.slurm.users if (entry := _entry(name))}
    return tuple(
        f"user '{name}' of [slurm] users is not known on this machine: no job of that name counts"
        for name in config.slurm.users
        if name not in known
    )


def _submit(home: Home, config: Config, wish: Wish, warnings: tuple[str, ...]) -> Outcome:
    if not shutil.which("sbatch"):
        raise SlurmError("there is no sbatch on this machine: start it where Slurm is, or with --local")
    if any(name in os.environ for name in _IMAGES):
        raise SlurmError(
            "a link cannot run from inside a container image: start it from an installation that the nodes "
            "see, or use 'watchdogd run' or 'tick' in the image"
        )
    site = partition.ask()
    chosen = site.chosen(wish.partition or config.slurm.partition or "")
    text = wish.time or config.slurm.time
    wished = parse_walltime(text) if text else _TICK_WALLTIME if wish.mode == "tick" else None
    walltime = partition.walltime(chosen, wished)
    form = link.form(home, config, wish, walltime, maintenance.shortest(walltime, time.time()))
    link.remember(home, wish, walltime)
    job_id = submit.sbatch(form.sbatch_options(), form.script())
    job = _settled(home, job_id)
    never = links.blocked(job) if job else ""
    if never:
        submit.scancel([job_id])
        raise SlurmError(f"Slurm took the link, but {never.removeprefix('link ')}; it was cancelled again")
    warning = partition.gpu_warning(chosen, site)
    state = links.describe(job) if job else f"job {job_id}"
    return Outcome((f"started: {state}",), True, job, (*warnings, *filter(None, [warning])))


def _settled(home: Home, job_id: str) -> Job | None:
    """The new link once it runs, or the scheduler said why it waits; as it is after six seconds at most."""
    until = time.monotonic() + _SETTLE
    while True:
        try:
            found = next((each for each in links.everybodys(home) if each.raw_id == job_id), None)
        except SlurmSilentError:
            found = None
        settled = found is not None and (not found.waiting or found.reason not in ("", "None"))
        if settled or time.monotonic() > until:
            return found
        time.sleep(_LOOK)


def _end_links(home: Home, ended: dict[str, str]) -> list[str]:
    """Cancel what is queued, the waiting ones first so that none takes over; returns what is left."""
    found = links.everybodys(home)
    mine = [each for each in found if each.user == _name(os.geteuid()) or os.geteuid() == 0]
    for each in mine:
        ended[each.raw_id] = f"job {each.raw_id}"
    submit.scancel([each.raw_id for each in mine if each.waiting])
    submit.scancel([each.raw_id for each in mine if not each.waiting and each.state != "COMPLETING"])
    return [f"{links.describe(each)} of {each.user}" for each in found]


def _end_process(home: Home, ended: dict[str, str]) -> list[str]:
    """End a daemon that is no link; one of another node or user sees the stop mark. Returns what is left."""
    try:
        holder = lease.alive(home)
    except OSError as error:
        raise HomeError(f"{home.path} cannot be read: {error.strerror}") from None
    if holder is None:
        return []
    if holder.job_id:
        ended.setdefault(holder.job_id, f"job {holder.job_id}")
    elif holder.id not in ended:
        ended[holder.id] = str(holder)
        if lease.lives(holder):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or another user's
                os.kill(holder.pid, signal.SIGTERM)
    return [str(holder)]


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
