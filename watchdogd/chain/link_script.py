"""Links: the Slurm jobs in which the daemon lives, as sbatch's options and script."""

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
"""What a link runs. sbatch's options come before it, so the configuration's `options` win over its lines."""
SHORTEST_TICK = 300.0
"""Seconds from one tick to the next in tick mode, at least."""
LOG_LIMIT = 1_000_000
"""Bytes after which the links' log is rotated when a link starts."""
_RECORD_SIZE = 512
_EXPORTED = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
    "CONDA_PREFIX", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
)  # fmt: skip
"""What a link gets of the environment beside SLURM_CONF and its secrets: what its tools need to be found."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """Options of links as given to `start`; empty ones as configured. Kept in home for the next links."""

    partition: str = ""
    account: str = ""
    time: str = ""
    mode: str = "daemon"


@dataclass(frozen=True, slots=True)
class LinkJob:
    """Everything that makes a link of this home. Times in seconds.

    `shortest`: what it may be cut to, 0: not at all; `needed` are names of variables: of secrets, and of
    those in the configuration's paths.
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
        """The comment by which the links of this home are known; a drop-in's comment goes on after it."""
        return mark_of(self.home)

    def sbatch_options(self, *more: str) -> tuple[str, ...]:
        """Return the options of sbatch; `more` are the dependency or the begin of a successor."""
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
        """Return the names of variables that a link gets; their values would show in `ps`."""
        names = dict.fromkeys((*_EXPORTED, *self.needed))
        return tuple(name for name in names if name in os.environ) or ("NONE",)

    def environment(self) -> dict[str, str]:
        """Return sbatch's environment, which passes on the variables named by `exported`."""
        return command.environment({name: os.environ[name] for name in self.needed if name in os.environ})

    def script(self) -> str:
        return SCRIPT.substitute(
            mode=self.mode,
            verb="tick" if self.mode == "tick" else "run",
            python=shlex.quote(sys.executable),
            home=shlex.quote(str(self.home.path)),
        )


def link_job(home: Home, config: Config, wish: LinkOptions, walltime: float, shortest: float) -> LinkJob:
    from watchdogd.config.loading import variables  # late: `status` looks at links without any configuration

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
    """Return the file to which all links write what they print."""
    return home.logs / "link.log"


def prepare_log(home: Home) -> None:
    """Move a long log aside, replacing the one before; the new one has home's rights for its group.

    OSError where that fails, HomeError where it is not a file.
    """
    log = log_of(home)
    if os.path.lexists(log) and not stat.S_ISREG(log.lstat().st_mode):
        raise HomeError(no_file(str(log)))
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_name(f"{log.name}.1"))
    home.make_file(log)


def remember(home: Home, wish: LinkOptions, walltime: float) -> None:
    """Save how links are submitted; on a full disk by overwriting what was saved before. OSError."""
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
        return LinkOptions(*(str(said[key]) for key in ("partition", "account", "time", "mode"))), needed(
            real(said["walltime"])
        )
    except FileNotFoundError:
        return LinkOptions(), 0.0
    except (NoPlainFileError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise HomeError(f"{path} is broken: remove it, and start the watchdog anew") from None
