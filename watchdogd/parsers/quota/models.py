"""Limits on bytes and inodes: the value that all quota parsers return, and statvfs(3) as such."""

from __future__ import annotations

import os
from dataclasses import dataclass

BYTES = "bytes"
INODES = "inodes"
FILE_SYSTEM = "file system"
"""Whose limit it is where it is nobody's quota."""


class Owner(str):
    """Whose quota it is, in words: `quota of user alice in pool fast`; `user` is the name of one."""

    user: str
    _words: tuple[str, str, str]

    def __new__(cls, kind: str, name: str = "", inside: str = "") -> Owner:
        """`kind` is `user`, `group` or what else has quotas, `inside` the part where they hold, in words."""
        line = super().__new__(cls, f"quota of {kind} {name}".rstrip() + inside)
        line.user, line._words = name if kind == "user" else "", (kind, name, inside)
        return line

    def __reduce__(self) -> tuple[type[Owner], tuple[str, str, str]]:
        """Return what makes it anew where it was pickled."""
        return Owner, self._words


@dataclass(frozen=True, slots=True)
class StorageLimit:
    """One limit on bytes or inodes: of the whole file system, or the quota of a user, group or project.

    `kind` is BYTES or INODES. `of` says whose it is (`file system`, or an Owner). `hard` is where
    writing ends, `soft` where a grace period begins; None: there is none. `grace` is what the tool prints
    of a running grace period (`6days`), `expired` says that it ran out. `available` is what can still be
    written where that is less than `hard - used`. `path` is the file system that the tool names: a
    mount point, a directory or a device, empty where it names none; `fileset` the part of it. `at` is when
    the figures were taken (seconds since the epoch), where the tool says so. `inaccurate`: the tool says
    that they are. `by_site`: a site's own command tells it, of whatever has room there.
    """

    kind: str
    of: str
    used: float
    hard: float | None = None
    soft: float | None = None
    grace: str = ""
    expired: bool = False
    available: float | None = None
    path: str = ""
    at: float | None = None
    fileset: str = ""
    inaccurate: bool = False
    by_site: bool = False

    @property
    def user(self) -> str:
        """The user whose quota it is, or empty."""
        return self.of.user if isinstance(self.of, Owner) else ""

    @property
    def capacity(self) -> float | None:
        """Amount that percentages count from: the hard limit, else the soft one, else None (no limit)."""
        return self.hard if self.hard is not None else self.soft

    def free(self, usable: float = 1.0) -> float:
        """Return what is left of the usable share of the capacity: 0 at least, infinite without a limit."""
        if self.capacity is None:
            return float("inf")
        left = self.capacity * usable - self.used
        return max(left if self.available is None else min(left, self.available), 0.0)


def statvfs_limits(stat: os.statvfs_result) -> tuple[StorageLimit, ...]:
    """Bytes, and inodes where the file system counts them.

    Blocks kept for root are no capacity. No inode table: 0 inodes (btrfs, BeeGFS, vfat), or more free than
    there are at all (CephFS says 2^64-1). No size at all (NFS-Ganesha, autofs): no limits, nothing is known.
    """
    if stat.f_blocks == 0:
        return ()
    unit = stat.f_frsize or stat.f_bsize
    available = stat.f_bavail if stat.f_bavail <= stat.f_blocks else 0  # "negative" in old kernels' NFS
    used = stat.f_blocks - stat.f_bfree
    found = [
        StorageLimit(
            BYTES,
            FILE_SYSTEM,
            used=float(used * unit),
            hard=float((used + available) * unit),
            available=float(available * unit),
        )
    ]
    if stat.f_files > 0 and stat.f_favail <= stat.f_files:
        taken = stat.f_files - stat.f_ffree
        found.append(
            StorageLimit(
                INODES,
                FILE_SYSTEM,
                used=float(taken),
                hard=float(taken + stat.f_favail),
                available=float(stat.f_favail),
            )
        )
    return tuple(found)
