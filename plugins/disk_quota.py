"""disk_quota: is there room, in bytes and in inodes, and for how long.

A full disk ends a training at the next checkpoint, full inodes do it with terabytes free, and a quota
does it while the file system has room. So all of them are looked at: the file system itself, and every
quota that holds for the path (of users, groups, projects); the tightest is judged. `quota = "auto"`
picks the tool by the type of the file system.

Thresholds are free amounts, as sizes or shares. Where none is configured: 10 % and 5 %, but never more
than a large training writes in a day or two, so that ten petabytes do not alarm with 500 TB left.
`usable` is the share of the capacity that a file system reliably gives: Lustre is known to slow down
well before the end. Above a soft limit in its grace is a WARNING; above a hard limit, or with the grace
over, CRITICAL, thresholds or not.

The **forecast** is a trend over days that does not take a sawtooth (checkpoints written and cleaned up)
for growth. It needs readings that differ: quota figures may lag by half an hour, and repeats do not
count. `full_within` makes it a WARNING.

A path that is missing, is not mounted any more, has become read-only or does not answer is an incident
that says which.
"""

from __future__ import annotations

import errno
import math
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from watchdogd.checks import quotas
from watchdogd.checks.trend import filling_rate, time_to_full
from watchdogd.plugin import (
    Amount,
    AmountField,
    Duration,
    History,
    Metric,
    Rate,
    Result,
    Share,
    Status,
    check,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.readers.mounts import Mount, mount_of, read_mounts
from watchdogd.readers.quota import statvfs
from watchdogd.readers.quota.limit import BYTES, FILE_SYSTEM, INODES, Limit
from watchdogd.readers.quota.lustre import Target
from watchdogd.units import format_duration, format_size

Source = Literal["auto", "statvfs", "lustre", "gpfs", "beegfs", "posix", "cephfs", "du"]
WARN_SHARE, CRIT_SHARE = 0.10, 0.05
WARN_AT_MOST = {BYTES: 50e12, INODES: 10e6}
CRIT_AT_MOST = {BYTES: 20e12, INODES: 2e6}
"""Where nothing is configured: 10 % and 5 % free, but never more than a large training needs for a day or two
(one of 176 billion parameters wrote 18.4 TB a day): ten petabytes do not alarm with 500 TB left."""
RATE_KEPT = 600.0
"""Seconds for which a measured filling rate is good: it comes from days of readings."""
FEW = 60
TARGET_WARN, TARGET_CRIT = 0.05, 0.01
"""Free shares of a single storage target of Lustre."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Free amounts below which a limit is a WARNING or CRITICAL."""

    warn: float
    crit: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit, judged: what is free of what, and why that is not OK."""

    limit: Limit
    status: Status
    free: float
    total: float
    thresholds: Thresholds
    why: str = ""

    @property
    def tightness(self) -> tuple[int, float]:
        """The larger, the worse."""
        share = self.free / self.total if self.total and not math.isinf(self.total) else 1.0
        return self.status.severity, -share


def _rejudge(subject: str, numbers: Mapping[str, float], parameters: Mapping[str, Any]) -> Result | None:
    """Recorded room by the present thresholds; soft limits and their grace are not recorded."""
    if subject not in (BYTES, INODES) or not {"used", "free", "total"} <= set(numbers):
        return None
    key = "free" if subject == BYTES else "inodes_free"
    limit = Limit(subject, parameters["path"], numbers["used"], numbers["total"], available=numbers["free"])
    verdict = _judge(limit, parameters[f"warn_{key}"], parameters[f"crit_{key}"], 1.0)
    left = numbers.get("full_in")
    return _worded(parameters["path"], verdict, [verdict], left, parameters["full_within"])


@check(remembers="14d", rejudge=_rejudge)
def disk_quota(
    path: str,
    memory: dict[str, Any],
    history: History,
    now: float,
    quota: Source | dict[str, Any] = "auto",
    warn_free: AmountField | None = None,
    crit_free: AmountField | None = None,
    warn_inodes_free: AmountField | None = None,
    crit_inodes_free: AmountField | None = None,
    usable: float | Share = 1.0,
    full_within: Duration | None = None,
    growth: float | Rate | None = None,
) -> Iterator[Result]:
    """Room on a file system, in bytes and in inodes, and how long it lasts.

    path: a directory on the file system
    quota: who knows the quotas: a tool by name, a command of the site with a pattern, or auto, by the type
        of the file system; the file system itself is judged in any case
    warn_free: WARNING below this much free space, a size or a share; left out: 10 %, 50 TB at most
    crit_free: CRITICAL below this; left out: 5 %, 20 TB at most
    warn_inodes_free: the same for inodes, a number or a share; left out: 10 %, ten million at most
    crit_inodes_free: CRITICAL below this many; left out: 5 %, two million at most
    usable: the share of the space that this file system reliably gives
    full_within: WARNING when the forecast has it full sooner
    growth: known writing rate; left out: measured over 14 days
    """
    try:
        device, stat = os.stat(path).st_dev, os.statvfs(path)
    except OSError as error:
        yield _unreachable(path, error, memory)
        return
    place = _moved(path, device, memory) or _read_only(path, stat)
    yield place or ok(f"{path} is there and not read-only")
    if place and "unmounted" in memory:
        return
    found = statvfs.limits(stat)
    mount = Mount(*memory["mount"]) if "mount" in memory else Mount("/", "", "")
    source = quotas.automatic(mount) if quota == "auto" else quota
    if source != "statvfs":
        said = quotas.ask_quotas(source, quotas.Place(path, mount, now), memory)
        found = (*found, *said.limits)
        if quota != "auto" or source != "posix":
            yield _source(path, said.trouble)
        if said.targets:
            yield _targets(path, said.targets)
    if not found:
        yield unknown(f"{path}: the file system reports no size", subject=BYTES)
        return
    wanted = {BYTES: (warn_free, crit_free), INODES: (warn_inodes_free, crit_inodes_free)}
    for kind in (BYTES, INODES):
        judged = [_judge(limit, *wanted[kind], usable) for limit in found if limit.kind == kind]
        if judged:
            tightest = max(judged, key=lambda verdict: verdict.tightness)
            left = _forecast(tightest, history, memory, now, growth if kind == BYTES else None)
            yield _worded(path, tightest, judged, left, full_within)


# What is wrong with the place itself.


def _unreachable(path: str, error: OSError, memory: dict[str, Any]) -> Result:
    where = f"on {platform.node()}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        was = Mount(*memory["mount"]) if "mount" in memory else None
        gone = was is not None and not any((was.point, was.type) == (m.point, m.type) for m in _mounts())
        note = f"; its file system ({was.type} {was.source}) is not mounted any more" if was and gone else ""
        return critical(f"{path} is missing {where}{note}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return unknown(f"{path} may not be entered by this user {where}: permission denied")
    if error.errno in (errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EIO):
        return critical(f"{path} does not answer {where}: {error.strerror}; it may have to be mounted again")
    return critical(f"{path} cannot be looked at {where}: {error.strerror}")


def _moved(path: str, device: int, memory: dict[str, Any]) -> Result | None:
    """CRITICAL where the path has fallen back on the file system below its former one.

    Device numbers of network file systems differ from node to node, so a new one only means: look closer.
    """
    if memory.get("device") == device:
        return None
    mount = mount_of(os.path.realpath(path), _mounts())
    before = Mount(*memory["mount"]) if "mount" in memory else None
    if mount and before and len(mount.point) < len(before.point):
        memory["unmounted"] = True
        return critical(
            f"{path} is not mounted any more on {platform.node()}: it was {before.type} {before.source} at "
            f"{before.point}, what is written there now goes to {mount.type} {mount.source}"
        )
    memory.pop("unmounted", None)
    memory["device"] = device
    if mount:
        memory["mount"] = [mount.point, mount.type, mount.source, mount.options]
    return None


def _read_only(path: str, stat: os.statvfs_result) -> Result | None:
    if not stat.f_flag & os.ST_RDONLY:
        return None
    return critical(f"{path} is mounted read-only on {platform.node()}: nothing can be written")


def _mounts() -> tuple[Mount, ...]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return read_mounts(file.read())
    except OSError:
        return ()  # no Linux /proc: then an unmounted path shows only as missing or as another size


# What the quota tool says beside the limits.


def _source(path: str, trouble: str) -> Result:
    if trouble:
        return unknown(f"{path}: its quotas are not known: {trouble}", subject="quota")
    return ok(f"{path}: its quotas could be read", subject="quota")


def _targets(path: str, targets: Sequence[Target]) -> Result:
    """Single storage targets fill before the whole: what is striped over a full one cannot be written."""
    shares = {target.name: target.free / (target.used + target.free or 1.0) for target in targets}
    fullest = min(shares, key=lambda name: shares[name])
    tight = sorted(name for name, share in shares.items() if share < TARGET_WARN)
    share = f"{100 * shares[fullest]:.3g} % free"
    if not tight:
        return ok(f"{path}: the fullest of {len(targets)} targets is {fullest}, {share}", subject="targets")
    result = critical if shares[fullest] < TARGET_CRIT else warning
    return result(
        f"{path}: {len(tight)} of {len(targets)} targets are nearly full, {fullest} has {share}: files that "
        "are striped over them cannot grow",
        subject="targets",
        details="nearly full: " + ", ".join(tight),
    )


# Judging.


def _judge(limit: Limit, warn: Amount | None, crit: Amount | None, usable: float) -> Verdict:
    if limit.capacity is None:
        return Verdict(limit, Status.OK, math.inf, math.inf, Thresholds(0.0, 0.0))
    share = usable if (limit.of, limit.kind) == (FILE_SYSTEM, BYTES) else 1.0
    total, free = limit.capacity * share, limit.free(share)
    thresholds = _thresholds(limit.kind, total, warn, crit)
    status, why = _state(limit, free, thresholds)
    return Verdict(limit, status, free, total, thresholds, why)


def _thresholds(kind: str, total: float, warn: Amount | None, crit: Amount | None) -> Thresholds:
    """What is configured; of a pair with one half left out the other is the usual one, on its right side."""
    warned = warn.of(total) if warn else min(WARN_SHARE * total, WARN_AT_MOST[kind])
    alarmed = crit.of(total) if crit else min(CRIT_SHARE * total, CRIT_AT_MOST[kind])
    if crit and not warn:
        warned = max(warned, alarmed)
    if warn and not crit:
        alarmed = min(alarmed, warned / 2)
    return Thresholds(warned, alarmed)


def _state(limit: Limit, free: float, thresholds: Thresholds) -> tuple[Status, str]:
    if free <= 0:
        return Status.CRITICAL, "full"
    if limit.expired:
        return Status.CRITICAL, "above the soft limit, and its grace period is over"
    if free < thresholds.crit:
        return Status.CRITICAL, f"critical below {_count(limit.kind, thresholds.crit)}"
    if limit.soft is not None and limit.used > limit.soft:
        return Status.WARNING, f"above the soft limit, grace {limit.grace or 'not known'}"
    if free < thresholds.warn:
        return Status.WARNING, f"warned below {_count(limit.kind, thresholds.warn)}"
    return Status.OK, ""


# The forecast.


def _forecast(
    verdict: Verdict, history: History, memory: dict[str, Any], now: float, growth: float | None
) -> float | None:
    """Seconds until nothing is left, or None."""
    if growth:
        return verdict.free / growth
    kind = verdict.limit.kind
    points = history.series("used", kind)
    if not points or math.isinf(verdict.free):
        return None
    measured = memory.setdefault("rates", {}).get(kind)
    if measured is None or len(points) <= FEW or not 0 <= now - measured[0] < RATE_KEPT:
        measured = memory["rates"][kind] = [now, filling_rate([*points, (now, verdict.limit.used)])]
    return time_to_full(verdict.free, measured[1], points)


# Wording.


def _worded(
    path: str, verdict: Verdict, judged: list[Verdict], left: float | None, full_within: float | None
) -> Result:
    soon = left is not None and full_within is not None and left < full_within and verdict.free > 0
    status = Status.WARNING if soon and verdict.status is Status.OK else verdict.status
    parts = [_room(path, verdict)]
    if verdict.free > 0 and left is not None:
        parts.append(f"full in about {format_duration(left)}")
    if soon and full_within is not None:
        parts.append(f"warned within {format_duration(full_within)}")
    if verdict.why:
        parts.append(verdict.why)
    details = "\n".join(_room(path, each) for each in judged) if len(judged) > 1 else ""
    return Result(status, ", ".join(parts), _metrics(verdict, left), details, verdict.limit.kind)


def _room(path: str, verdict: Verdict) -> str:
    limit = verdict.limit
    where = path if limit.of == FILE_SYSTEM else f"{path}, {limit.of}"
    if limit.capacity is None:
        return f"{where}: {_count(limit.kind, limit.used)} used, no limit"
    reserved = "" if verdict.total >= limit.capacity else " usable"
    if limit.kind == INODES:
        return f"{where}: {verdict.free:,.0f} of {verdict.total:,.0f}{reserved} inodes free"
    share = 100 * verdict.free / verdict.total if verdict.total else 0.0
    return (
        f"{where}: {format_size(verdict.free)} of {format_size(verdict.total)}{reserved} free ({share:.3g} %)"
    )


def _count(kind: str, amount: float) -> str:
    return f"{amount:,.0f} inodes" if kind == INODES else format_size(amount)


def _metrics(verdict: Verdict, left: float | None) -> dict[str, Metric]:
    unit = "B" if verdict.limit.kind == BYTES else ""
    found = {"used": Metric(round(verdict.limit.used), unit)}
    if verdict.limit.capacity is not None:
        thresholds = verdict.thresholds
        found["free"] = Metric(round(verdict.free), unit, thresholds.warn, thresholds.crit)
        found["total"] = Metric(round(verdict.total), unit)
    if left is not None:
        found["full_in"] = Metric(round(left), "s")
    return found
