"""Links, the Slurm jobs in which the daemon runs, as options and script for sbatch."""

from __future__ import annotations

import errno
import json
import os
import shlex
import stat
import sys
from dataclasses import asdict, dataclass
from string import Template
from typing import TYPE_CHECKING

from watchdogd.batch.models import OWN_MARK
from watchdogd.errors import HomeError
from watchdogd.home.layout import Home, no_file
from watchdogd.system import command
from watchdogd.system.number import needed, real
from watchdogd.system.smallfile import NoPlainFileError, parse_json, read_plain
from watchdogd.system.times import format_walltime

if TYPE_CHECKING:
    from pathlib import Path

    from watchdogd.config.models import Config

SCRIPT = Template("""\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=512M
# A link that is requeued would hold the whole chain up.
#SBATCH --no-requeue
# One log for all links; the daemon rotates it.
#SBATCH --open-mode=append
# Sent to the daemon itself, because of the exec below: it makes sure once more that it has a successor.
#SBATCH --signal=B:USR1@60

export WATCHDOGD_LINK=$mode
exec $python -P -m watchdogd $verb --home $home
""")
"""Script of a link. sbatch's options, the configuration's included, override its #SBATCH lines."""
SHORTEST_TICK = 300.0
"""Minimum seconds between ticks in tick mode."""
LOG_LIMIT = 1_000_000
"""Bytes from which the links' log is rotated when a link starts."""
_RECORD_SIZE = 512
_EXPORTED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
    "CONDA_PREFIX", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
"""Environment variables passed to a link, beside SLURM_CONF and its secrets."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options of links given to `start`; empty ones as configured. Kept in home for the next links."""

    partition: str = ""
    account: str = ""
    time: str = ""
    mode: str = "daemon"


@dataclass(frozen=True, slots=True)
class LinkJob:
    """Link of a home. Times in seconds.

    `shortest`: walltime to which Slurm may shorten it, 0: it may not; `needed`: variables of secrets and of
    paths in the configuration.
    """

    home: Home
    name: str
    partition: str = ""
    account: str = ""
    walltime: float = 86400.0
    shortest: float = 0.0
    options: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    mode: str = "daemon"

    @property
    def mark(self) -> str:
        """Return the comment of this home's links; a drop-in's comment continues after it."""
        return mark_of(self.home)

    def sbatch_options(self, *more: str) -> tuple[str, ...]:
        """Return sbatch's options; `more`: dependency or begin of a successor."""
        log = str(log_of(self.home)).replace("%", "%%")
        shortest = (f"--time-min={format_walltime(self.shortest)}",) if self.shortest else ()
        return (
            f"--job-name={self.name}",
            f"--comment={self.mark}",
            f"--chdir={self.home.path}",
            f"--output={log}",
            f"--time={format_walltime(self.walltime)}",
            *shortest,
            f"--export={','.join(self.exported())}",
            *((f"--partition={self.partition}",) if self.partition else ()),
            *((f"--account={self.account}",) if self.account else ()),
            *self.options,
            *more,
        )

    def exported(self) -> tuple[str, ...]:
        """Return the names of variables for a link; their values would show in `ps`."""
        names = dict.fromkeys((*_EXPORTED, *self.needed))
        return tuple(name for name in names if name in os.environ) or ("NONE",)

    def environment(self) -> dict[str, str]:
        """Return sbatch's environment, with the variables named by `exported`."""
        return command.environment({name: os.environ[name] for name in self.needed if name in os.environ})

    def script(self) -> str:
        return SCRIPT.substitute(
            mode=self.mode,
            verb="tick" if self.mode == "tick" else "run",
            python=shlex.quote(sys.executable),
            home=shlex.quote(str(self.home.path)),
        )


def link_job(home: Home, config: Config, wish: LinkOptions, walltime: float, shortest: float) -> LinkJob:
    from watchdogd.config.loading import variables  # late: `status` needs links without configuration

    return LinkJob(
        home=home,
        name=config.daemon.name,
        partition=wish.partition or config.slurm.partition or "",
        account=wish.account or config.slurm.account or "",
        walltime=walltime,
        shortest=shortest,
        options=config.slurm.options,
        needed=(
            *(secret.variable for _, secret in config.secrets(relayed=False) if secret.variable),
            *variables(home),
        ),
        mode=wish.mode,
    )


def mark_of(home: Home) -> str:
    """Return the comment of this home's links. OSError where home cannot be read."""
    return OWN_MARK + home.id


def tick_every(config: Config) -> float:
    return max(SHORTEST_TICK, config.daemon.interval)


def log_of(home: Home) -> Path:
    """Return the file for the output of all links."""
    return home.logs / "link.log"


def prepare_log(home: Home) -> None:
    """Rotate a long log; create one with home's permissions. OSError; HomeError where it is no file."""
    log = log_of(home)
    if os.path.lexists(log) and not stat.S_ISREG(log.lstat().st_mode):
        raise HomeError(no_file(str(log)))
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_name(f"{log.name}.1"))
    home.make_file(log)


def remember(home: Home, wish: LinkOptions, walltime: float) -> None:
    """Save how links are submitted; on a full disk by overwriting the last record. OSError."""
    path = home.path / "link.json"
    text = json.dumps({**asdict(wish), "walltime": walltime})
    try:
        home.write(path, text.ljust(_RECORD_SIZE) + "\n")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not (full and path.exists() and home.overwrite(path, text)):
            raise


def remembered(home: Home) -> tuple[LinkOptions, float]:
    """Return the options and walltime (seconds) of the last start; defaults without one. HomeError."""
    path = home.path / "link.json"
    try:
        said = parse_json(read_plain(path))
        options = LinkOptions(*(str(said[key]) for key in ("partition", "account", "time", "mode")))
        return options, needed(real(said["walltime"]))
    except FileNotFoundError:
        return LinkOptions(), 0.0
    except (NoPlainFileError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise HomeError(f"{path} is broken: remove it, and start the watchdog anew") from None
