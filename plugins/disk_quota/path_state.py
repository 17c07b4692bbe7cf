"""State of a path: exists, answers, is on its own file system, is writable."""

from __future__ import annotations

import errno
import os
import platform
from dataclasses import dataclass, replace
from functools import lru_cache, partial

from watchdogd.plugin import Advice, Result, critical, ok, unknown
from watchdogd.system.account import own_name
from watchdogd.system.bounded_io import BoundedIO, StuckError, UnaskedError
from watchdogd.system.mounts import Mount, mount_of, mount_table, read_fstab, read_mounts
from watchdogd.system.smallfile import unanswered
from watchdogd.units import age

DEADLINE = 15.0
"""Seconds that the file system may take to answer."""
_patients: dict[str, BoundedIO] = {}
"""A thread for each path: while one hangs there, no other is started for it."""
_FSTAB = "/etc/fstab"
ACCEPTED = 86400.0
"""Seconds after which another file system at the same place counts as the right one."""


@dataclass(frozen=True, slots=True)
class PathView:
    """A path as it is now; `mount` is None if /proc does not say."""

    device: int
    stat: os.statvfs_result
    mount: Mount | None
    missing: Mount | None = None
    """Mount that /etc/fstab would have there, and that is not there."""


@dataclass(slots=True)
class PathState:
    """A path as it was while all was well: its mount, the `host`, and the identity from statvfs(2).

    The identity is 0 if there is none. `hangs`: since when it does not answer. `replaced`: since when another
    file system is there. `unmounted`: it is not mounted now.
    """

    mount: Mount | None = None
    host: str = ""
    fsid: int = 0
    hangs: float | None = None
    replaced: float | None = None
    unmounted: bool = False


def look(path: str, former: PathState, now: float) -> PathView | Result:
    """Return the path as it is now, or what is wrong if it cannot be seen."""
    if path not in _patients:
        _patients[path] = BoundedIO(path, DEADLINE)
    try:
        return _patients[path].attempt(partial(_look, path))
    except UnaskedError as error:
        again = Advice("Nothing if it passes; to see whether this machine is overloaded:", "uptime")
        return unknown("could not be looked at").saying(str(error), advice=[again])
    except StuckError as error:
        return _stuck(path, error, former, now)
    except OSError as error:
        return _unreachable(path, error, former)


def _look(path: str) -> PathView:
    seen, stat = os.stat(path), os.statvfs(path)
    mount, missing = _lies_on(path, (seen.st_dev, seen.st_ino), mount_table(), _fstab())
    return PathView(seen.st_dev, stat, mount, missing)


@lru_cache(maxsize=1024)
def _lies_on(
    path: str, _identity: tuple[int, int], mounted: str, fstab: str
) -> tuple[Mount | None, Mount | None]:
    """Return the mount that a path is on, and the one that /etc/fstab has there.

    The answer is reused as long as the path leads to the same directory and the mounts stay the same.
    """
    real = os.path.realpath(path)
    mount, wanted = mount_of(real, read_mounts(mounted)), mount_of(real, read_fstab(fstab))
    return mount, wanted if wanted and mount and len(wanted.point) > len(mount.point) else None


def mounts() -> tuple[Mount, ...]:
    """Return all mounts; none without Linux's /proc, where an unmounted path is only missing."""
    return read_mounts(mount_table())


def _fstab() -> str:
    try:
        seen = os.stat(_FSTAB)
        return _text(_FSTAB, (seen.st_mtime_ns, seen.st_size, seen.st_ino))
    except OSError:
        return ""


@lru_cache(maxsize=1)
def _text(path: str, _as_of: tuple[int, int, int]) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def judge(path: str, sight: PathView, former: PathState, now: float) -> Result:
    """Report CRITICAL if the path is on another file system than before, or is read-only."""
    former.hangs = None
    wrong = _moved(path, sight, former) or _replaced(path, sight, former, now)
    if wrong:
        return wrong
    former.replaced, former.host, former.fsid = None, platform.node(), sight.stat.f_fsid
    former.mount = sight.mount or former.mount
    there = ok("is there and not read-only").saying(path).ending("can be used again")
    return _read_only(path, sight) or there


ASK = Advice("Ask the cluster's administrators; jobs that need it fail or hang meanwhile.")
_SPELT = Advice("Correct its path in config.toml if that is wrong.")


def _stuck(path: str, error: StuckError, former: PathState, now: float) -> Result:
    """Report since when it does not answer."""
    since = former.hangs = now if former.hangs is None else former.hangs
    what = f"has not answered for {age(now - since)}" if now > since else "does not answer"
    hangs = critical(f"{what} on {platform.node()}").saying(path, str(error), advice=[ASK]).dated(since)
    return replace(hangs, unanswered=True)


def _unreachable(path: str, error: OSError, former: PathState) -> Result:
    """Report why stat(2) failed."""
    where = f"on {platform.node()}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        was = former.mount
        gone = was is not None and not any((was.point, was.type) == (m.point, m.type) for m in mounts())
        note = f"its file system ({was.type} {was.source}) is not mounted any more" if was and gone else ""
        lost = critical(f"{'not mounted any more' if note else 'missing'} {where}")
        spelt = [] if was else [_SPELT]
        return replace(lost.saying(path, note, advice=[*spelt, ASK]), unanswered=True)
    if error.errno in (errno.EACCES, errno.EPERM):
        return unknown(f"permission denied for {own_name()} {where}").saying(
            path, advice=[Advice("Correct its path in config.toml, or ask its owner for access.")]
        )
    if unanswered(error):
        silent = critical(f"does not answer {where}: {error.strerror}").saying(path)
        remount = Advice(
            "Ask the cluster's administrators to mount it again; jobs that need it hang meanwhile."
        )
        return replace(silent.saying(advice=[remount]), unanswered=True)
    spelt = [_SPELT] if error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL) else []
    return critical(f"cannot be looked at {where}: {error.strerror}").saying(path, advice=[*spelt, ASK])


def _moved(path: str, sight: PathView, former: PathState) -> Result | None:
    """Report CRITICAL if its file system is gone and the path is now on the one above.

    Device numbers of network file systems differ between nodes, so a new number only leads to a closer look.
    Without an earlier state, /etc/fstab says what should be there.
    """
    now, before = sight.mount, former.mount
    lost = before if before and now and len(now.point) < len(before.point) else None
    never = sight.missing if before is None else None
    if now and (lost or never):
        former.unmounted = True
        it = lost or never
        assert it is not None
        how = "not mounted any more" if lost else "not mounted"
        was = "it was" if lost else "/etc/fstab has"
        told = critical(f"{how} on {platform.node()}").saying(
            path,
            f"{was} {it.type} {it.source} at {it.point}",
            f"what is written there now goes to {now.type} {now.source}",
            advice=[ASK],
        )
        return replace(told, unanswered=True)
    former.unmounted = False
    return None


def _replaced(path: str, sight: PathView, former: PathState, now: float) -> Result | None:
    """Report CRITICAL for a day if another file system is mounted there than before, on the same machine.

    Names of file systems differ between machines, and a disk may get another name at boot; so the same
    identity (statvfs(2), f_fsid; 0 if there is none) means the same file system.
    """
    it, before = sight.mount, former.mount
    if it is None or before is None or former.host != platform.node():
        return None
    same = (it.type, it.source) == (before.type, before.source) or "autofs" in (it.type, before.type)
    if same or (sight.stat.f_fsid and sight.stat.f_fsid == former.fsid):
        return None
    since = former.replaced = now if former.replaced is None else former.replaced
    if now - since >= ACCEPTED:
        return None
    return (
        critical(f"a different file system is mounted on {platform.node()}")
        .saying(
            path,
            f"it was {before.type} {before.source} at {before.point}",
            f"now {it.type} {it.source} is mounted at {it.point}",
            advice=[ASK],
        )
        .dated(since)
    )


def _read_only(path: str, sight: PathView) -> Result | None:
    if not sight.stat.f_flag & os.ST_RDONLY:
        return None
    return critical(f"read-only on {platform.node()}, nothing can be written").saying(path, advice=[ASK])
