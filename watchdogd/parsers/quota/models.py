"""Limits on bytes and inodes: the value that all quota parsers return, and that statvfs(3) is read as."""

from __future__ import annotations

import os
from dataclasses import dataclass

BYTES = "bytes"
INODES = "inodes"
FILE_SYSTEM = "file system"
"""Owner of a limit that is no quota but the size of the file system."""


class Owner(str):
    """Owner of a quota, in words: `quota of user alice in pool fast`; `user` is the user's name, or empty."""

    user: str
    _words: tuple[str, str, str]

    def __new__(cls, kind: str, name: str = "", inside: str = "") -> Owner:
        """Make an owner.

        `kind` is `user`, `group` or whatever else has quotas; `inside` says in words where the quota applies.
        """
        line = super().__new__(cls, f"quota of {kind} {name}".rstrip() + inside)
        line.user, line._words = name if kind == "user" else "", (kind, name, inside)
        return line

    def __reduce__(self) -> tuple[type[Owner], tuple[str, str, str]]:
        """Return what pickle needs to build it again."""
        return Owner, self._words


@dataclass(frozen=True, slots=True)
class StorageLimit:
    """One limit on bytes or inodes: of the whole file system, or the quota of a user, group or project.

    `kind`: BYTES or INODES. `of`: the owner, FILE_SYSTEM or an Owner.
    `hard`: the amount at which writing fails; `soft`: the one at which a grace period begins; None: no limit.
    `grace`: the rest of a running grace period as the tool prints it (`6days`); `expired`: it has run out.
    `available`: what can still be written, if that is less than `hard - used`.
    `path`: the file system as the tool names it (mount point, directory or device), or empty.
    `fileset`: the part of the file system that the limit is for.
    `at`: when the figures were taken (seconds since the epoch), if the tool says so.
    `inaccurate`: the tool itself calls its figures inaccurate. `by_site`: reported by a site's own command.
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
        """Amount that counts as 100 %: the hard limit, else the soft one; None without a limit."""
        return self.hard if self.hard is not None else self.soft

    def free(self, usable: float = 1.0) -> float:
        """Return what is left of the `usable` share of the capacity: at least 0, infinite without a limit."""
        if self.capacity is None:
            return float("inf")
        left = self.capacity * usable - self.used
        return max(left if self.available is None else min(left, self.available), 0.0)


def statvfs_limits(stat: os.statvfs_result) -> tuple[StorageLimit, ...]:
    """Return the limit on bytes, and the one on inodes if the file system counts them.

    Blocks reserved for root are not part of the capacity. A file system without an inode table reports 0
    inodes (btrfs, BeeGFS, vfat), or more free than exist (CephFS: 2^64-1). One that reports no size at all
    (NFS-Ganesha, autofs) gives no limits, since nothing is known.
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
