"""The disks: their folders are there, and whoever knows their quotas answers."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from watchdogd.checks import quotas
from watchdogd.doctor.finding import Finding, broken, fine, warning
from watchdogd.home.layout import absolute
from watchdogd.system.mounttable import mount_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchdogd.config.targets import DiskSection
    from watchdogd.doctor.scene import Scene

TOPIC = "disks"
_TOOLS = {"lustre": ("lfs",), "beegfs": ("beegfs-ctl", "beegfs"), "posix": ("quota",)}


def look(scene: Scene) -> Iterator[Finding]:
    """Each disk of the configuration."""
    for name, disk in scene.config.disks.items():
        yield _disk(name, absolute(scene.home, disk.path), disk)


def _disk(name: str, path: str, disk: DiskSection) -> Finding:
    mount = mount_at(path)
    try:
        os.statvfs(path)
    except OSError as error:
        return broken(TOPIC, f"{name}: {path}: {error.strerror}", f"correct path under [disks.{name}]")
    if mount is None:
        return fine(TOPIC, f"{name}: {path} is there")
    source: str | dict[str, Any] = (
        disk.quota if isinstance(disk.quota, str) else disk.quota.model_dump(exclude_none=True)
    )
    source = quotas.automatic(mount) if source == "auto" else source
    tools = _TOOLS.get(source, ()) if isinstance(source, str) else (source["command"][0],)
    if tools and not any(shutil.which(tool) for tool in tools):
        text = f"{name}: there is no {' or '.join(tools)} here: only the file system as a whole is judged"
        return warning(TOPIC, text, f"load it, or set quota under [disks.{name}]")
    if source in ("statvfs", "du"):
        return fine(TOPIC, f"{name}: {path} on {mount.type}, by {source}")
    said = quotas.ask_quotas(source, quotas.Place(path, mount, time.time()))
    how = source if isinstance(source, str) else tools[0]
    if said.trouble:
        mend = f"try it by hand; correct quota under [disks.{name}]"
        return warning(TOPIC, f"{name}: quotas of {path} by {how}: {said.trouble}", mend)
    limits = ", ".join(dict.fromkeys(limit.of for limit in said.limits)) or "none is set"
    return fine(TOPIC, f"{name}: {path} on {mount.type}, quotas by {how}: {limits}")
