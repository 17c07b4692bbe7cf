"""Choice of the limits, among those that a tool printed, that apply to a path. Pure."""

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
    """Return the limits that apply to the disk on `mount`; `paths` are as configured and with links resolved.

    A limit applies if it names no file system, or names a directory above the path, its mount point, its
    device or its fileset; any other name belongs to another disk. Exception: if no limit applies, all have
    the same name, and that name is nothing known on this machine (a server's own name for the disk), they
    apply, provided that the `whole` output was understood.
    """
    fitting = [limit for limit in limits if not limit.path or _fits(limit.path, paths, mount, mounts)]
    named = {limit.path for limit in limits if limit.path}
    if whole and len(named) == 1 and not any(limit.path for limit in fitting):
        fitting = fitting if _elsewhere(min(named), mount, mounts) else list(limits)
    return _of_fileset(fitting, paths)


def is_device(name: str, mount: Mount) -> bool:
    """Return True if a tool's name means this device; an NFS server may have a short and a long name."""
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
        return False  # another file system is mounted exactly there
    folder = name.rstrip("/")
    if any(path == folder or path.startswith(f"{folder}/") for path in paths):
        return True
    beneath = any(folder.startswith(path.rstrip("/") + "/") for path in paths)
    return beneath and mount_of(name, mounts) in (mount, None)


def _is_called(name: str, paths: Sequence[str], mount: Mount) -> bool:
    """Match a name without leading slash: a device of GPFS, a data set of ZFS or its parent, a folder."""
    source = mount.source
    if name == os.path.basename(source) or source.startswith(f"{name}/"):
        return True
    return "/" not in name and any(name.lower() in path.lower().split("/") for path in paths)


def _elsewhere(name: str, mount: Mount, mounts: tuple[Mount, ...]) -> bool:
    """Return True if the name is known on this machine, but as something else than this disk."""
    if name.startswith("/") and not name.startswith(_DEVICES):
        found = mount_of(name, mounts)
        if found is not None and found.point != _ROOT:
            return True
    others = (each for each in mounts if each != mount)
    return any(is_device(name, each) or name == os.path.basename(each.source) for each in others)


def _of_fileset(limits: list[StorageLimit], paths: Sequence[str]) -> list[StorageLimit]:
    """Of several filesets, keep only the one that the path is in, if any."""
    folders = {part for path in paths for part in path.split("/")}
    if not any(limit.fileset in folders for limit in limits if limit.fileset):
        return limits
    return [limit for limit in limits if not limit.fileset or limit.fileset in folders]
