"""What this machine has: Slurm and its partitions, quota tools, GPU tools, a mail relay."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from watchdogd.batch.partitions import FORMAT, Partition, read_sinfo
from watchdogd.system import command
from watchdogd.system.account import user_name
from watchdogd.system.bounded import BoundedIO, StuckError

if TYPE_CHECKING:
    from collections.abc import Mapping

QUOTA_TOOLS = ("lfs", "mmlsquota", "beegfs-ctl", "quota")
GPU_TOOLS = ("rocm-smi", "amd-smi", "nvidia-smi")
PLACES = ("SCRATCH", "WORK", "PROJECT")
"""Variables by which sites name their large file systems."""
_DEADLINE = 10.0
_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class Survey:
    """Findings; empty where there is nothing. `slurm_trouble`: why a Slurm that is there does not answer;
    `places`: what SCRATCH and the like name, by the variable's name in small letters."""

    partitions: tuple[Partition, ...] = ()
    slurm: bool = False
    slurm_trouble: str = ""
    quota_tools: tuple[str, ...] = ()
    gpu_tools: tuple[str, ...] = ()
    mail_relay: bool = False
    accounts: tuple[str, ...] = field(default=())
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def cpu_partition(self) -> Partition | None:
        """Where a chain of links costs least: no GPUs, no whole nodes, the default one first."""
        cheap = [partition for partition in self.partitions if not partition.gpus]
        return min(cheap, key=lambda each: (each.exclusive, not each.default, each.nodes), default=None)


def survey() -> Survey:
    """Look around; takes at most some seconds, and never fails."""
    slurm = shutil.which("squeue") is not None
    partitions, trouble = _partitions() if slurm else ((), "")
    return Survey(
        partitions=partitions,
        slurm=slurm,
        slurm_trouble=trouble,
        quota_tools=tuple(tool for tool in QUOTA_TOOLS if shutil.which(tool)),
        gpu_tools=tuple(tool for tool in GPU_TOOLS if shutil.which(tool)),
        mail_relay=_listens("localhost", 25),
        accounts=_accounts() if slurm else (),
        places=_places(),
    )


def _partitions() -> tuple[tuple[Partition, ...], str]:
    answer = command.ask(["sinfo", "--noheader", f"--format={FORMAT}"], deadline=_DEADLINE)
    return (read_sinfo(answer.output), "") if answer.ok else ((), answer.complaint())


def _accounts() -> tuple[str, ...]:
    answer = command.ask(
        [
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "show",
            "assoc",
            "where",
            "user=" + user_name(os.geteuid()),
            "format=account",
        ],
        deadline=_DEADLINE,
    )
    return tuple(dict.fromkeys(answer.output.split())) if answer.ok else ()


def _places() -> dict[str, str]:
    """Folders that the variables name, and that answer."""
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
