"""Verdict on the room that a limit leaves, with its wording: bytes or inodes, file system or quota. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from watchdogd.parsers.quota.models import BYTES, FILE_SYSTEM, INODES, StorageLimit
from watchdogd.plugin import Amount, Metric, Status
from watchdogd.units import format_size

WARN_SHARE, CRIT_SHARE = 0.10, 0.05
WARN_AT_MOST = {BYTES: 50e12, INODES: 10e6}
CRIT_AT_MOST = {BYTES: 20e12, INODES: 2e6}
"""Thresholds where nothing is configured: 10 % and 5 % free.

They are never more than a large training needs for a day or two (one of 176 billion parameters wrote 18.4 TB
a day): ten petabytes do not alarm with 500 TB left.
"""


@dataclass(frozen=True, slots=True)
class FreeSpaceLimits:
    """Configured thresholds for WARNING and CRITICAL, of free and of used amounts; None: the default.

    If both are given, the one that is reached first counts.
    """

    warn: Amount | None = None
    crit: Amount | None = None
    warn_used: Amount | None = None
    crit_used: Amount | None = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Free amounts below which a limit is WARNING or CRITICAL."""

    warn: float
    crit: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judged limit: what is free of what, and why that is not OK. `left`: seconds until it is full."""

    limit: StorageLimit
    status: Status
    free: float
    total: float
    thresholds: Thresholds
    why: str = ""
    left: float | None = None

    @property
    def short(self) -> bool:
        """True if room is short now: by a threshold or the limit itself, not by a forecast or grace."""
        below = self.free < max(self.thresholds.warn, self.thresholds.crit)
        return self.status is Status.CRITICAL or below

    @property
    def tightness(self) -> tuple[int, float]:
        """Sort key: the larger, the worse."""
        share = self.free / self.total if self.total and not math.isinf(self.total) else 1.0
        return self.status.severity, -share


def judge(limit: StorageLimit, wish: FreeSpaceLimits, usable: float = 1.0) -> Verdict:
    """Judge a limit; only the `usable` share of a file system's (or a site's) bytes counts as capacity."""
    if limit.capacity is None:
        return Verdict(limit, Status.OK, math.inf, math.inf, Thresholds(0.0, 0.0))
    whole = limit.of == FILE_SYSTEM or limit.by_site
    share = usable if whole and limit.kind == BYTES else 1.0
    total, free = limit.capacity * share, limit.free(share)
    thresholds = _thresholds(limit, total, wish)
    status, why = _state(limit, free, thresholds)
    return Verdict(limit, status, free, total, thresholds, why)


def _thresholds(limit: StorageLimit, total: float, wish: FreeSpaceLimits) -> Thresholds:
    """Return the configured thresholds; a missing one of a pair gets its default, in the right order.

    Without a hard limit, writing goes on above the soft one: then CRITICAL only if it is configured.
    """
    warn, crit = _free(wish.warn, wish.warn_used, total), _free(wish.crit, wish.crit_used, total)
    usual = min(CRIT_SHARE * total, CRIT_AT_MOST[limit.kind]) if limit.hard is not None else 0.0
    warned = min(WARN_SHARE * total, WARN_AT_MOST[limit.kind]) if warn is None else warn
    alarmed = usual if crit is None else crit
    if crit is not None and warn is None:
        warned = max(warned, alarmed)
    if warn is not None and crit is None:
        alarmed = min(alarmed, warned / 2)
    return Thresholds(warned, alarmed)


def _free(free: Amount | None, used: Amount | None, total: float) -> float | None:
    """Return how much must stay free by either threshold; None if neither is given."""
    wanted = [free.of(total)] if free else []
    wanted += [max(total - used.of(total), 0.0)] if used else []
    return max(wanted, default=None)


def _state(limit: StorageLimit, free: float, thresholds: Thresholds) -> tuple[Status, str]:
    if free <= 0 and limit.hard is not None:
        return Status.CRITICAL, "above the hard limit" if limit.used > limit.hard else "full"
    if limit.expired:
        return Status.CRITICAL, "above the soft limit, and its grace period is over"
    if free < thresholds.crit:
        return Status.CRITICAL, f"critical below {with_unit(limit.kind, thresholds.crit)}"
    if limit.grace or (limit.soft is not None and limit.used > limit.soft):
        return Status.WARNING, f"above the soft limit, grace {limit.grace or 'not known'}"
    if free < thresholds.warn:
        return Status.WARNING, f"warned below {with_unit(limit.kind, thresholds.warn)}"
    return Status.OK, ""


def describe(verdict: Verdict) -> str:
    """Return a verdict in words: `1.2 TB of 50 TB free (2.4 %), quota of group six`."""
    limit = verdict.limit
    of = "" if limit.of == FILE_SYSTEM else f", {limit.of}"
    of += " (the tool calls its figures inaccurate)" if limit.inaccurate else ""
    if limit.capacity is None:
        return f"{with_unit(limit.kind, limit.used)} used, no limit{of}"
    reserved = "" if verdict.total >= limit.capacity else " usable"
    share = 100 * verdict.free / verdict.total if verdict.total else 0.0
    if limit.kind == INODES:
        return f"{verdict.free:,.0f} of {verdict.total:,.0f}{reserved} inodes free ({share:.3g} %){of}"
    room = f"{format_size(verdict.free)} of {format_size(verdict.total)}{reserved} free ({share:.3g} %)"
    return f"{room}{of}"


def with_unit(kind: str, amount: float) -> str:
    return f"{amount:,.0f} inodes" if kind == INODES else format_size(amount)


def metrics(verdict: Verdict) -> dict[str, Metric]:
    """Return the figures of one limit with its thresholds."""
    unit = "B" if verdict.limit.kind == BYTES else ""
    found = {"used": Metric(round(verdict.limit.used), unit)}
    if verdict.limit.capacity is not None:
        thresholds = verdict.thresholds
        found["free"] = Metric(round(verdict.free), unit, thresholds.warn, thresholds.crit)
        found["total"] = Metric(round(verdict.total), unit)
    if verdict.left is not None:
        found["full_in"] = Metric(round(verdict.left), "s")
    return found
