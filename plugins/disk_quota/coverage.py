"""Choice of the limits that a tool prints which hold for a path: those of its own file system. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from watchdogd.parsers.quota.models import StorageLimit
from watchdogd.system.mounts import Mount, mount_of

_ROOT, _DEVICES = "/", "/dev/"


def covering(
    limits: Sequence[StorageLimit],
    paths: Sequence[str],
    mount: Mount,
    mounts: tuple[Mount, ...],
    *,
    whole: bool = True,
) -> list[StorageLimit]:
    """Return the limits of the disk at `paths` (as written, and with its links followed) on `mount`.

    A limit that names no file system counts, and so does one that names a directory above the path, its
    mount point, its device or its fileset. What names something else is another's. Where none of them fits,
    all bear one name, and that name is nothing on this machine (a server's own name for it), it is meant, as
    long as the `whole` output was understood.
    """
    fitting = [limit for limit in limits if not limit.path or _fits(limit.path, paths, mount, mounts)]
    named = {limit.path for limit in limits if limit.path}
    if whole and len(named) == 1 and not any(limit.path for limit in fitting):
        fitting = fitting if _elsewhere(min(named), mount, mounts) else list(limits)
    return _of_fileset(fitting, paths)


def is_device(name: str, mount: Mount) -> bool:
    """Return True if a tool's name is the device's: an NFS server has a short and a long name."""
    if name in (mount.source, mount.point):
        return True
    (server, _, export), (host, _, exported) = name.partition(":"), mount.source.partition(":")
    return bool(export) and export == exported and server.split(".")[0] == host.split(".")[0]


def _fits(name: str, paths: Sequence[str], mount: Mount, mounts: tuple[Mount, ...]) -> bool:
    if is_device(name, mount):
        return True
    if not name.startswith("/"):
        return _is_called(name, paths, mount)
    if any(each.point == name and each.source != mount.source for each in mounts):
        return False  # something else is mounted exactly there
    folder = name.rstrip("/")
    if any(path == folder or path.startswith(f"{folder}/") for path in paths):
        return True
    beneath = any(folder.startswith(path.rstrip("/") + "/") for path in paths)
    return beneath and mount_of(name, mounts) in (mount, None)


def _is_called(name: str, paths: Sequence[str], mount: Mount) -> bool:
    """Match a name without a leading slash: a device of GPFS, a data set of ZFS or one above, a folder."""
    source = mount.source
    if name == os.path.basename(source) or source.startswith(f"{name}/"):
        return True
    return "/" not in name and any(name.lower() in path.lower().split("/") for path in paths)


def _elsewhere(name: str, mount: Mount, mounts: tuple[Mount, ...]) -> bool:
    """Return True if the name is known here as something other than the disk."""
    if name.startswith("/") and not name.startswith(_DEVICES):
        found = mount_of(name, mounts)
        if found is not None and found.point != _ROOT:
            return True
    others = (each for each in mounts if each != mount)
    return any(is_device(name, each) or name == os.path.basename(each.source) for each in others)


def _of_fileset(limits: list[StorageLimit], paths: Sequence[str]) -> list[StorageLimit]:
    """Keep of several filesets the one that the path goes through, where there is one."""
    folders = {part for path in paths for part in path.split("/")}
    if not any(limit.fileset in folders for limit in limits if limit.fileset):
        return limits
    return [limit for limit in limits if not limit.fileset or limit.fileset in folders]
