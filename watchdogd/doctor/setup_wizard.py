"""Survey of this machine for `init`, and adding a live Slurm job to config.toml for `watch`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count

from watchdogd.batch import commands
from watchdogd.batch.models import Job
from watchdogd.batch.sinfo import PARTITION_FORMAT, Partition, read_partitions
from watchdogd.config.loading import parse
from watchdogd.config.models import Config
from watchdogd.daemon.setup import Setup
from watchdogd.errors import ConfigError, HomeError, WatchdogError
from watchdogd.home.layout import Home
from watchdogd.system import command
from watchdogd.system.account import own_name
from watchdogd.system.bounded_io import BoundedIO, StuckError
from watchdogd.system.smallfile import replace_file
from watchdogd.system.text import nearest

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TRIES = 5


@dataclass(frozen=True, slots=True)
class AdoptedRun:
    """Run to be added to config.toml: its name and the values of its table.

    `user`: owner of the jobs; `log`: empty where there is none; `gpus`: 0 where there are none or the number
    is unknown; `backend`: empty for the usual one.
    """

    name: str
    job_name: str
    user: str = ""
    log: str = ""
    gpus: int = 0
    backend: str = ""

    def table(self) -> str:
        """Return the table as TOML, with a line end after each line."""
        lines = [f"[runs.{toml_key(self.name)}]", f"job_name = {toml_string(self.job_name)}"]
        if self.user:
            lines.append(f"user = {toml_string(self.user)}")
        if self.backend:
            lines.append(f"backend = {toml_string(self.backend)}")
        if self.log:
            lines.append(f"log = {toml_string(self.log)}")
        if self.gpus:
            lines.append(f"gpus_per_node = {self.gpus}")
        return "\n".join(lines) + "\n"


def choose(jobs: Iterable[Job], wanted: str, me: str) -> Job:
    """Return the live job with this id (also an array's) or name: a running one, else the newest.

    WatchdogError, with the nearest name, where there is none, or where several users have one of that name.
    """
    living = [job for job in jobs if not job.ended]
    foreign = [job for job in living if not job.own]
    by_id = [job for job in living if wanted in {job.id, job.raw_id, job.array_id, job.id.partition("+")[0]}]
    found = [job for job in by_id if not job.own]
    if by_id and not found:
        raise WatchdogError(f"job {wanted} is watchdogd's own: it watches itself")
    found = found or [job for job in foreign if job.name == wanted]
    found = [job for job in found if job.user == me] or found
    if not found:
        names = sorted({job.name for job in foreign if job.user == me} or {job.name for job in foreign})
        what = f"there is no live job '{wanted}' in the queue"
        raise WatchdogError(
            f"{what}{nearest(wanted, names)}" if names else f"{what}, which shows none at all"
        )
    users = sorted({job.user for job in found})
    if len(users) > 1:
        ids = ", ".join(f"{job.raw_id} of {job.user}" for job in found[:6])
        raise WatchdogError(f"several people have a job '{wanted}': name its id ({ids})")
    return max(found, key=lambda job: (not job.waiting, job.started_at or 0.0, job.raw_id))


def run_name(job_name: str, taken: Collection[str]) -> str:
    """Return a run's name that is easy to type: the job's, with a dash for special characters."""
    plain = re.sub(r"-{2,}", "-", re.sub(r"[^\w.-]", "-", job_name)).strip("-.") or "run"
    names = chain([plain], (f"{plain}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def watched_as(config: Config, job: Job, users: Collection[str]) -> str:
    """Return the run that watches this job already, or empty. `users`: whose jobs count by default."""
    for name, section in config.runs.items():
        whose = {section.user} if section.user else users
        process = section.pid_file or section.command
        if (section.job_name or name) == job.name and job.user in whose and not process:
            return name
    return ""


def add(home: Home, adopted: AdoptedRun) -> None:
    """Append the run's table to config.toml. ConfigError, HomeError."""
    try:
        append(home, adopted.table())
    except ConfigError as error:
        raise ConfigError(f"{error}; add it by hand: {_on_one_line(adopted)}") from None


def append(home: Home, table: str) -> None:
    """Append a table to config.toml; comments, order and permissions are kept.

    ConfigError where the file is or would be broken; HomeError where it cannot be written.
    """
    path = home.config.resolve()
    for _ in range(_TRIES):
        before = config_text(home)
        after = appended(before, table)
        Setup.of(parse(after, home.config), home)
        if config_text(home) == before:  # nobody else wrote meanwhile
            return _replace_config(str(path), after)
    raise HomeError(f"{path} is being edited all the time: try again")


def appended(text: str, table: str) -> str:
    """Return `text` with a table at its end, with the same kind of line ends."""
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + table.replace("\n", end)


def toml_key(name: str) -> str:
    """Return a TOML key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else toml_string(name)


def toml_string(text: str) -> str:
    """Return a TOML basic string, which is JSON's except for DEL (TOML 1.0, "String")."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _on_one_line(adopted: AdoptedRun) -> str:
    keys = tomllib.loads(adopted.table())["runs"][adopted.name]
    inside = ", ".join(
        f"{key} = {toml_string(value) if isinstance(value, str) else value}" for key, value in keys.items()
    )
    return f"runs.{toml_key(adopted.name)} = {{ {inside} }}"


def config_text(home: Home) -> str:
    """Return config.toml's text. HomeError, ConfigError."""
    try:
        return home.config.read_bytes().decode("utf-8")
    except OSError as error:
        raise HomeError(f"{home.config} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{home.config} is no UTF-8: save the file as UTF-8") from None


def _replace_config(path: str, text: str) -> None:
    """Replace the file atomically, keeping its permissions."""
    try:
        found = os.stat(path)
        replace_file(path, text, found.st_mode & 0o777, found.st_gid, durable=True)
    except OSError as error:
        raise HomeError(f"{path} cannot be written: {error.strerror}") from None


def gpus_of(counts: Sequence[int]) -> int:
    """Return the GPUs per node from the GPUs of each node; 0 where they differ."""
    return counts[0] if counts and len(set(counts)) == 1 else 0


QUOTA_TOOLS = ("lfs", "mmlsquota", "beegfs-ctl", "quota")
GPU_TOOLS = ("rocm-smi", "amd-smi", "nvidia-smi")
PLACES = ("SCRATCH", "WORK", "PROJECT")
"""Environment variables by which sites name their large file systems."""
_SURVEY_DEADLINE = 10.0
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class Survey:
    """Findings of the survey. `slurm_trouble`: why Slurm does not answer.

    `places`: folders named by SCRATCH and similar variables, by the variable's name in lower case.
    `partition`: the user's choice for the chain, or empty.
    """

    partitions: tuple[Partition, ...] = ()
    slurm: bool = False
    pbs: bool = False
    slurm_trouble: str = ""
    quota_tools: tuple[str, ...] = ()
    gpu_tools: tuple[str, ...] = ()
    mail_relay: bool = False
    accounts: tuple[str, ...] = field(default=())
    places: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""

    @property
    def cpu_partition(self) -> Partition | None:
        """Return the chosen partition, or the cheapest: without GPUs or whole nodes, the default first."""
        if self.partition:
            return next(each for each in self.partitions if each.name == self.partition)
        cheap = [partition for partition in self.partitions if not partition.gpus]
        return min(cheap, key=lambda each: (each.exclusive, not each.default, each.nodes), default=None)


def survey() -> Survey:
    """Examine this machine within seconds; never fails."""
    backend = commands.here()
    slurm = backend == "slurm"
    partitions, trouble = _partitions() if slurm else ((), "")
    return Survey(
        partitions=partitions,
        slurm=slurm,
        pbs=backend == "pbs",
        slurm_trouble=trouble,
        quota_tools=tuple(tool for tool in QUOTA_TOOLS if shutil.which(tool)),
        gpu_tools=tuple(tool for tool in GPU_TOOLS if shutil.which(tool)),
        mail_relay=_listens("localhost", 25),
        accounts=_accounts() if slurm else (),
        places=_places(),
    )


def _partitions() -> tuple[tuple[Partition, ...], str]:
    answer = command.ask(["sinfo", "--noheader", f"--format={PARTITION_FORMAT}"], deadline=_SURVEY_DEADLINE)
    return (read_partitions(answer.output), "") if answer.ok else ((), answer.complaint())


def _accounts() -> tuple[str, ...]:
    fields = ("--noheader", "--parsable2", "show", "assoc", "where", f"user={own_name()}", "format=account")
    answer = command.ask(["sacctmgr", *fields], deadline=_SURVEY_DEADLINE)
    return tuple(dict.fromkeys(answer.output.split())) if answer.ok else ()


def _places() -> dict[str, str]:
    """Return folders that these variables name, and that answer."""
    patient = BoundedIO("a file system", deadline=_PATIENCE)
    found = {}
    for name in PLACES:
        path = os.environ.get(name, "")
        with contextlib.suppress(StuckError):
            if path.startswith("/") and patient.attempt(partial(os.path.isdir, path)):
                found[name.lower()] = path
    patient.close()
    return found


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False
