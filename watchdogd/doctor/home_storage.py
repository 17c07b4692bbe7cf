"""Tests of home's storage: permissions, file system, locks, free space, clock, and the history in it."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from watchdogd.doctor.diagnosis import Diagnosis, Installation, ask, broken, fine, warning
from watchdogd.errors import HistoryError, NoHistoryError
from watchdogd.history.store import Store
from watchdogd.home import file_trust
from watchdogd.home.layout import misplaced
from watchdogd.parsers.quota import models
from watchdogd.parsers.quota.models import BYTES, StorageLimit
from watchdogd.system.mounts import Mount, mount_at
from watchdogd.system.smallfile import create_file
from watchdogd.units import format_duration, format_size

TOPIC = "home"
SKEW_WARN = 5.0
"""Seconds between this machine's clock and the file server's from which ages of files are misleading."""
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_LOCAL = frozenset({"overlay", "ext3", "ext4", "xfs", "btrfs"})
MANY = 50_000
"""Number of files in a home that is too many for a quota of inodes and for listing them."""
_LEAST = {BYTES: (10e6, 200e6)}
_LEAST_FILES = (100.0, 2000.0)
_MOVE = "move it to a file system that all nodes see: watchdogd --home DIR init"
_RIGHTS = "free some room, or correct its rights"
_TRY_LOCK = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
"""


def look(installation: Installation) -> Iterator[Diagnosis]:
    home = installation.home
    reason = file_trust.distrust(home.path, file_trust.team_of(home.path))
    if reason:
        yield warning(TOPIC, reason.what, reason.fix or _RIGHTS)
    for folder in filter(Path.is_dir, (home.path, home.plugins, *home.path.glob("cron.*"))):
        if reason := file_trust.inherited_access(folder, file_trust.team_of(home.path)):
            yield warning(TOPIC, reason.what, reason.fix)
    for misfit in misplaced(home):
        yield broken(TOPIC, misfit.what, misfit.fix)
    mount = mount_at(str(home.path))
    yield judge_mount(str(home.path), mount, chain=installation.slurm and "SLURM_JOB_ID" not in os.environ)
    trial = home.path / f".doctor-{os.getpid()}"
    try:
        create_file(str(trial), "doctor\n", home.file_mode, home.group)
        skew = trial.stat().st_mtime - time.time()
        yield judge_lock(_lock(trial), mount)
    except OSError as error:
        yield broken(TOPIC, f"nothing can be written to {home.path}: {error.strerror}", _RIGHTS)
    else:
        yield judge_skew(skew)
    finally:
        trial.unlink(missing_ok=True)
    yield judge_files(files_of(home.path))
    yield from judge_room(models.statvfs_limits(os.statvfs(home.path)))


def judge_mount(path: str, mount: Mount | None, *, chain: bool) -> Diagnosis:
    """Judge whether the next link, on another node, finds home; `chain`: there will be one."""
    if mount is None:
        return fine(TOPIC, f"{path} is there")
    if mount.type in _MEMORY:
        return warning(
            TOPIC, f"{path} lies in this machine's memory ({mount.type}): it is lost at a reboot", _MOVE
        )
    text = f"{path} lies on {mount.type} ({mount.point})"
    words = mount.options.split(",")
    if mount.type == "lustre" and "localflock" in words:
        return warning(TOPIC, f"{text} with localflock: its locks hold on one node alone", _MOVE)
    if mount.type.startswith("nfs") and ({"nolock", "local_lock=all", "local_lock=posix"} & set(words)):
        return warning(TOPIC, f"{text} without locks between nodes", _MOVE)
    if chain and mount.type in _LOCAL:
        return fine(TOPIC, f"{text}; do the nodes see it? --on-partition tries it")
    return fine(TOPIC, text)


def judge_lock(held: bool | None, mount: Mount | None) -> Diagnosis:
    """Judge whether locks work.

    `held`: a second process was refused the lock; None: locking itself failed.
    """
    if held:
        return fine(TOPIC, "a lock holds against a second process")
    where = f" ({mount.type} on {mount.point})" if mount else ""
    what = "locks are refused" if held is None else "two processes got the same lock"
    return broken(TOPIC, f"{what} on the file system of home{where}: the history would break", _MOVE)


def judge_skew(skew: float) -> Diagnosis:
    """Judge the seconds by which the file server's clock is ahead of this machine's."""
    if abs(skew) < SKEW_WARN:
        return fine("clock", "this machine and the file server agree on the time")
    ahead = "ahead of" if skew > 0 else "behind"
    text = f"the file server is {format_duration(abs(skew))} {ahead} this machine: ages of logs look wrong"
    return warning("clock", text, "have the administrators fix NTP (chronyc tracking)")


def files_of(home: Path) -> dict[str, int]:
    """Count the files in each folder of home, MANY at most; "" is home itself."""
    counts: dict[str, int] = {}
    for folder, _, names in os.walk(home):
        top = os.path.relpath(folder, home).partition("/")[0].strip(".")
        counts[top] = counts.get(top, 0) + len(names)
        if sum(counts.values()) >= MANY:
            break
    return counts


def judge_files(counts: Mapping[str, int]) -> Diagnosis:
    """Judge the number of files in watchdogd's own folders."""
    most = sorted(counts, key=lambda name: -counts[name])[:3]
    number = sum(counts.values())
    shown = ", ".join(f"{counts[name]:,} in {name or 'home itself'}" for name in most if counts[name])
    at_least = "more than " if number >= MANY else ""
    text = f"home holds {at_least}{number:,} files: {shown}"
    if number < MANY:
        return fine("files", text)
    fix = "a shorter [daemon] keep_logs or [history] keep; what you put there yourself is yours to remove"
    return warning("files", text, fix)


def judge_room(limits: Sequence[StorageLimit]) -> Iterator[Diagnosis]:
    """Judge the free space for the history and the logs, in bytes and inodes."""
    said = []
    for limit in limits:
        bad, few = _LEAST.get(limit.kind, _LEAST_FILES)
        free = limit.free()
        shown = format_size(free) if limit.kind == BYTES else f"{free:.0f} inodes"
        if free < few:
            make = broken if free < bad else warning
            yield make(TOPIC, f"{shown} are left where home lies", "make room, or move home with --home")
        said.append(shown)
    if limits and all(limit.free() >= _LEAST.get(limit.kind, _LEAST_FILES)[1] for limit in limits):
        yield fine(TOPIC, f"{' and '.join(said)} are free")


def _lock(path: Path) -> bool | None:
    """Return whether a lock keeps another process out, as SQLite needs it (POSIX locks).

    None where the file system refuses locks.
    """
    with open(path, "r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None
        answer = ask(sys.executable, "-I", "-S", "-c", _TRY_LOCK, str(path))
        return answer.exit_code == 3


HISTORY = "history"


def look_at_history(installation: Installation) -> Iterator[Diagnosis]:
    """Open the history read-only; the first start creates it."""
    try:
        Store.open(installation.config.history.url, installation.home, owner=False).close()
    except NoHistoryError:
        yield fine(HISTORY, "there is none yet; the first start makes it")
    except HistoryError as error:
        fix = "correct url under [history], or see that its server and its password are there"
        yield broken(HISTORY, str(error), fix)
    else:
        yield fine(HISTORY, "it can be read")
