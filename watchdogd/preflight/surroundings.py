"""Causes of slow training without an error: shared caches, a missing network plugin, unstriped files.

Inspected on the job's first node, judged by pure functions. None of them stops a job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from watchdogd.checks import checkpoint_files
from watchdogd.plugin import Status
from watchdogd.preflight.verdicts import Finding
from watchdogd.system.command import ask
from watchdogd.system.mounts import mount_at
from watchdogd.system.number import count
from watchdogd.units import format_size

SHARED = frozenset(
    ("afs", "beegfs", "ceph", "cifs", "dvs", "fuse.ceph", "gpfs", "lustre", "nfs", "nfs4", "wekafs")
)
"""Types of file systems that all nodes share."""
_LARGE = 10e9
"""Bytes of a file for which one storage target is slow."""
_DEADLINE = 10.0


@dataclass(frozen=True, slots=True)
class Cache:
    """Cache of compiled kernels: tool, the variable for its path, path and file system."""

    tool: str
    variable: str
    path: str
    file_system: str


@dataclass(frozen=True, slots=True)
class Fabric:
    """Network of the node, the plugin that NCCL or RCCL needs for it, and whether that was found."""

    name: str = ""
    library: str = ""
    found: bool = False


@dataclass(frozen=True, slots=True)
class LargestFile:
    """Largest file of the newest checkpoint on Lustre, and the number of its storage targets."""

    path: str
    size: int
    stripes: int | None


_CACHES = (
    ("MIOpen", "MIOPEN_USER_DB_PATH", "~/.config/miopen"),
    ("MIOpen", "MIOPEN_CUSTOM_CACHE_DIR", "~/.cache/miopen"),
    ("Triton", "TRITON_CACHE_DIR", "~/.triton/cache"),
)


def caches(env: Mapping[str, str], root: str = "/") -> Iterator[Cache]:
    """Yield the caches in use: MIOpen's with AMD's driver, Triton's where it exists."""
    amd = os.path.isdir(os.path.join(root, "sys/module/amdgpu"))
    for tool, variable, usual in _CACHES:
        path = os.path.expanduser(env.get(variable) or usual)
        if env.get(variable) or os.path.isdir(path) or (amd and tool == "MIOpen"):
            mount = mount_at(path)
            yield Cache(tool, variable, path, mount.type if mount else "")


def fabric(env: Mapping[str, str], root: str = "/") -> Fabric:
    """Return the network that needs a plugin, and whether that is there; an empty one where none does."""
    slingshot = _inside(os.path.join(root, "sys/class/cxi"))
    adapters = os.path.join(root, "sys/class/infiniband")
    efa = [name for name in _inside(adapters) if _driver(os.path.join(adapters, name)) == "efa"]
    if not slingshot and not efa:
        return Fabric()
    amd = os.path.isdir(os.path.join(root, "sys/module/amdgpu"))
    libraries = ["librccl-net.so", "libnccl-net.so"] if amd else ["libnccl-net.so"]
    plugin = env.get("NCCL_NET_PLUGIN", "")
    if plugin and plugin != "none":
        libraries = [plugin, f"libnccl-net-{plugin}.so"]
    places = [*filter(None, env.get("LD_LIBRARY_PATH", "").split(":")), ""]
    names = [(place, name) for place in places for name in libraries if place or "/" in name]
    found = any(os.path.exists(os.path.join(*each)) for each in names)
    known = _bytes(os.path.join(root, "etc/ld.so.cache"))
    found = found or any(name.encode() in known for name in libraries)
    name = f"Slingshot ({slingshot[0]})" if slingshot else f"EFA ({efa[0]})"
    return Fabric(name, libraries[-1] if plugin else libraries[0], found and plugin != "none")


def largest_file(pattern: str) -> LargestFile | None:
    """Return the largest file of the newest checkpoint, if it is large and on Lustre. OSError."""
    newest = checkpoint_files.find_checkpoints(pattern)[:1]
    found = (file for each in newest for file in checkpoint_files.every_file(each.path))
    size, path = max(((seen.st_size, path) for path, _, seen in found), default=(0, ""))
    mount = mount_at(path) if size >= _LARGE else None
    if mount is None or mount.type != "lustre":
        return None
    return LargestFile(path, size, stripes(ask(("lfs", "getstripe", "-c", path), deadline=_DEADLINE).output))


def stripes(said: str) -> int | None:
    """Return the stripe count in `lfs getstripe -c`; the largest of several layouts."""
    return max((number for line in said.split() if (number := count(line)) is not None), default=None)


def judge(
    found: Sequence[Cache], network: Fabric, largest: LargestFile | None, *, nodes: int
) -> Iterator[Finding]:
    """Judge the caches and files, and the network where the job has several nodes."""
    shared = [cache for cache in found if cache.file_system in SHARED]
    for tool in dict.fromkeys(cache.tool for cache in shared):
        mine = [cache for cache in shared if cache.tool == tool]
        where = f"{mine[0].path}, on {mine[0].file_system}"
        moves = " ".join(f"{cache.variable}=/tmp/$USER-{tool.lower()}-$SLURM_JOB_ID" for cache in mine)
        yield _warning(
            "caches", f"{tool}'s cache is shared by all nodes ({where}), which lock it: export {moves}"
        )
    if network.name and nodes > 1 and not network.found:
        why = f"the network is {network.name}, and {network.library} (aws-ofi) is not in LD_LIBRARY_PATH"
        fix = "NCCL talks TCP then, many times slower; where a container brings it, must_see shows its use"
        yield _warning("network", f"{why}: {fix}")
    if largest and largest.stripes == 1:
        folder = os.path.dirname(os.path.dirname(largest.path))
        what = f"{largest.path} of {format_size(largest.size)} lies on one storage target"
        yield _warning("checkpoints", f"{what}: lfs setstripe -c 8 {folder}, for those that come")


def _warning(topic: str, text: str) -> Finding:
    return Finding(Status.WARNING, topic, text)


def _inside(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _driver(adapter: str) -> str:
    return os.path.basename(os.path.realpath(os.path.join(adapter, "device/driver")))


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
