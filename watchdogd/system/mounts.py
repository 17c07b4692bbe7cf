"""Mounted file systems, from /proc/self/mountinfo and /etc/fstab (proc(5), fstab(5))."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache

from watchdogd.system.text import split_lines

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """Mounted file system: mount point, type (`lustre`, `nfs4`) and source.

    `options`: those of the file system itself (`rw,usrquota`).
    """

    point: str
    type: str
    source: str
    options: str = ""


@lru_cache(maxsize=4)  # for each disk in each round the same text
def read_mounts(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the kernel's order (a later one at the same point covers the earlier)."""
    return tuple(mount for line in split_lines(text) if (mount := _mount(line)))


@lru_cache(maxsize=4)
def read_fstab(text: str) -> tuple[Mount, ...]:
    """Return what is mounted at boot, without entries that have `noauto` or no mount point."""
    lines = (line.strip(" \t") for line in split_lines(text))
    fields = [re.split(r"[ \t]+", line) for line in lines if not line.startswith("#")]
    return tuple(
        Mount(_plain(point), type_, _plain(source), options)
        for source, point, type_, options in (each[:4] for each in fields if len(each) >= 4)
        if point.startswith("/") and "noauto" not in options.split(",")
    )


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """Return the mount of an absolute, resolved path: the deepest one, at one point the last."""
    best = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _mount(line: str) -> Mount | None:
    before, dash, after = line.partition(" - ")
    fields, rest = before.split(" "), after.split(" ")
    if not dash or len(fields) < 6 or len(rest) < 2:
        return None
    return Mount(_plain(fields[4]), rest[0], _plain(rest[1]), " ".join(rest[2:]))


def _plain(text: str) -> str:
    """Decode the octal escapes of blanks, tabs and backslashes."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


MOUNTINFO = "/proc/self/mountinfo"


def mount_table(path: str = MOUNTINFO) -> str:
    """Return the kernel's list of mounts; empty without Linux's /proc."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def mount_at(path: str) -> Mount | None:
    """Return the mount of a path, links resolved; None without Linux's /proc. May hang."""
    return mount_of(os.path.realpath(path), read_mounts(mount_table()))
