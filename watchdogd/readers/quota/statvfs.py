"""statvfs(3) as limits, as an ordinary user has them (what df prints)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchdogd.readers.quota.limit import BYTES, FILE_SYSTEM, INODES, Limit

if TYPE_CHECKING:
    import os


def limits(stat: os.statvfs_result) -> tuple[Limit, ...]:
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
        Limit(
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
            Limit(
                INODES,
                FILE_SYSTEM,
                used=float(taken),
                hard=float(taken + stat.f_favail),
                available=float(stat.f_favail),
            )
        )
    return tuple(found)
