"""Largest users of a file system, if its own tool knows them at once; never by walking the tree."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from watchdogd.checks.free_space import with_unit
from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota import beegfs, gpfs, repquota
from watchdogd.parsers.quota.models import BYTES, INODES, StorageLimit
from watchdogd.plugins.disk_quota.quota_sources import QuotaPath, gpfs_tool
from watchdogd.system.command import ask
from watchdogd.system.number import needed, real
from watchdogd.system.times import fresh
from watchdogd.units import local_time

AGAIN = 900.0
"""Seconds between two questions."""
REFUSED_FOR = 6 * 3600.0
"""Seconds for which a tool that refused is not asked again: most of them answer administrators only."""
_DEADLINE = 10.0
_FOLDERS = 500
_NAMED, _KEPT = 3, 8

Shares = dict[str, dict[str, float]]
"""By kind and name: how much is used."""


@dataclass(frozen=True, slots=True)
class TopUsers:
    """Last answer, when it was `asked` for, whether it was refused, and the `first` answer (of `since`)."""

    shares: Shares = field(default_factory=dict)
    asked: float = 0.0
    refused: bool = False
    first: Shares | None = None
    since: float = 0.0

    @property
    def words(self) -> dict[str, str]:
        """Return one line for each kind: who uses most, and what was added since the first answer."""
        return {kind: _line(kind, each, self) for kind, each in self.shares.items() if each}

    @property
    def calm(self) -> TopUsers:
        """Return the state to keep while all is well: only a refusal. Growth is counted from then on."""
        return self if self.refused else TopUsers()


def ask_top_users(source: str, place: QuotaPath, known: TopUsers) -> TopUsers:
    """Ask again if it is time, and return the new state."""
    if fresh(known.asked, place.now, REFUSED_FOR if known.refused else AGAIN):
        return known
    shares = {kind: _largest(each) for kind, each in _shares(source, place).items()}
    after = replace(known, shares=shares, asked=place.now, refused=not shares)
    return replace(after, first=shares, since=place.now) if shares and known.first is None else after


def _line(kind: str, shares: Mapping[str, float], known: TopUsers) -> str:
    first = (known.first or {}).get(kind, {})
    named = []
    for name, held in list(shares.items())[:_NAMED]:
        grown = held - first.get(name, 0.0)
        since = (
            f", {with_unit(kind, grown)} of it since {local_time(known.since)}" if grown > 0.01 * held else ""
        )
        named.append(f"{name} ({with_unit(kind, held)}{since})")
    return f"most is held by {', '.join(named)}"


def _largest(shares: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return {name: held for name, held in ordered[:_KEPT] if held > 0}


def _shares(source: str, place: QuotaPath) -> Shares:
    """Return who uses how much; none if the tool refuses, is missing or cannot be read (this is optional)."""
    try:
        if source == "cephfs":
            return _of_ceph(place.path)
        limits = _asked(source, place)
    except (UnreadableError, OSError):
        return {}
    found: Shares = {BYTES: {}, INODES: {}}
    for limit in limits:
        if limit.user:
            found[limit.kind][limit.user] = found[limit.kind].get(limit.user, 0.0) + limit.used
    return found if found[BYTES] else {}


def _asked(source: str, place: QuotaPath) -> Sequence[StorageLimit]:
    device = os.path.basename(place.mount.source)
    if source == "posix":
        argv = ["repquota", "-u", "-p", place.mount.point]
        return repquota.read(ask(argv, deadline=_DEADLINE).output, now=place.now)
    if source == "gpfs":
        argv = [gpfs_tool("mmrepquota"), "-u", "-Y", device]
        return gpfs.read_quotas(ask(argv, deadline=_DEADLINE).output, device)
    if source == "beegfs":
        argv = ["beegfs-ctl", "--getquota", "--uid", "--all", f"--mount={place.mount.point}", "--csv"]
        return beegfs.read_quotas(ask(argv, deadline=_DEADLINE).output, "user")
    return ()


def _of_ceph(path: str) -> Shares:
    """Read CephFS's own sums for the folders below this one."""
    found: Shares = {BYTES: {}, INODES: {}}
    with os.scandir(path) as entries:
        for entry in itertools.islice(entries, _FOLDERS):
            with contextlib.suppress(OSError, ValueError):
                if entry.is_dir(follow_symlinks=False):
                    found[BYTES][f"{entry.name}/"] = needed(real(_text(entry.path, "ceph.dir.rbytes")))
                    found[INODES][f"{entry.name}/"] = needed(real(_text(entry.path, "ceph.dir.rentries")))
    return found if found[BYTES] else {}


def _text(path: str, attribute: str) -> str:
    return os.getxattr(path, attribute).decode("ascii", "replace")
