"""disk_quota: is there room, in bytes and in inodes, and for how long.

A full disk ends a training at the next checkpoint, used-up inodes do so with terabytes free, and a quota does
so while the file system still has room. So all of them are checked: the file system itself, and every quota
that applies to the path (of users, groups, projects); the tightest is judged. `quota = "auto"` chooses the
tool by the type of the file system.

A row of a quota tool counts for this disk if its file system is this disk's, or if it names none. If an
output was understood only in part, or the tool itself calls its figures inaccurate, the result is UNKNOWN
beside what could be read. On Lustre each storage target is compared with the percentages too, since a single
one can fill up before the whole does.

Thresholds are free amounts, as sizes or shares. The defaults are 10 % and 5 %, but never more than a large
training writes in a day or two, so that ten petabytes do not alarm with 500 TB left. `usable` is the share of
the capacity that a file system reliably provides: Lustre is known to slow down well before it is full. Being
over a soft limit, within its grace period, is a WARNING; being over a hard limit, or past the grace period,
is CRITICAL whatever the thresholds.

The **forecast** is a trend over several of the disk's own cycles: if checkpoints are written and cleaned up,
the low points are compared. If nothing was ever deleted yet, a rise counts once it has taken a fifth of the
free room, or has lasted for six hours. It needs readings that differ: quota figures may lag by half an hour,
and repeated ones do not count. A trend that has stood still far longer than ever before, for half a day at
least, has ended. If a site's tool dates its figures (`updated_at` in its JSON, the group `updated` of a
pattern), their age is shown, and figures older than six hours are UNKNOWN. Each limit has its own forecast.
`full_within` makes it a WARNING. If runs save their checkpoints there, room is also given in checkpoints, and
it is a WARNING if the next one does not fit.

**Who** uses most is reported if the tool knows that at once (`repquota`, `mmrepquota`, `beegfs-ctl`, the
folder sizes of CephFS), together with what was added since the trouble began; never by walking through the
files. Most of these tools answer only administrators: one that refuses is not asked again for hours.

With `write_probe = true` a small file is written, synced, read back and removed. That finds what df hides: a
file system that is read-only, over a quota, failing, or frozen so that writes hang for ever.

It is an incident, which says what is wrong, if a path is missing or not mounted (any more, or although it is
in /etc/fstab), is on another file system than before (reported for a day, then accepted), has become
read-only, or does not answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from watchdogd.checks import free_space
from watchdogd.checks.checkpoint_inventory import Cadence, CheckpointInventory
from watchdogd.checks.free_space import FreeSpaceLimits, Verdict
from watchdogd.checks.trend import filling_rate, time_to_full
from watchdogd.parsers.quota import models
from watchdogd.parsers.quota.models import BYTES, FILE_SYSTEM, INODES, StorageLimit
from watchdogd.plugin import (
    Advice,
    AmountField,
    Chart,
    Duration,
    History,
    Metric,
    Rate,
    Result,
    Share,
    Status,
    check,
    ok,
    unknown,
)
from watchdogd.plugins.disk_quota import (
    checkpoint_room,
    path_state,
    quota_sources,
    storage_targets,
    write_test,
)
from watchdogd.plugins.disk_quota.du import DuState
from watchdogd.plugins.disk_quota.top_users import TopUsers, ask_top_users
from watchdogd.plugins.disk_quota.write_test import WriteTestState
from watchdogd.system.mounts import Mount
from watchdogd.system.times import fresh
from watchdogd.units import age, format_size

Source = Literal["auto", "statvfs", "lustre", "gpfs", "beegfs", "posix", "cephfs", "du"]
RATE_KEPT, KEPT_SHARE = 600.0, 1 / 6
"""How long a measured filling rate is valid: seconds, or a share of the time that it was measured over."""
LATE, TOO_OLD = 300.0, 6 * 3600.0
"""Age in seconds from which a tool's figures are shown with their age, and from which they are not used."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known beside the limits.

    `growth` in bytes per second, how the runs save, the time until it is full.
    """

    history: History
    now: float
    full_within: float | None = None
    growth: float | None = None
    saving: Cadence | None = None


def _rejudge(subject: str, numbers: Mapping[str, float], parameters: Mapping[str, Any]) -> Result | None:
    """Judge recorded room by the present thresholds (soft limits and their grace are not recorded)."""
    if subject not in (BYTES, INODES) or not {"used", "free", "total"} <= set(numbers):
        return None
    key = "free" if subject == BYTES else "inodes_free"
    limit = StorageLimit(subject, FILE_SYSTEM, numbers["used"], numbers["total"], available=numbers["free"])
    names = (f"{status}_{what}" for what in (key, key.replace("free", "used")) for status in ("warn", "crit"))
    wish = FreeSpaceLimits(*(parameters[name] for name in names))
    verdict = _in_time(
        replace(free_space.judge(limit, wish), left=numbers.get("full_in")), parameters["full_within"]
    )
    return _worded(parameters["path"], [verdict], Outlook(History(), 0.0), "")


Rates = dict[str, tuple[float, float | None]]
"""By limit: when its filling rate was measured, and bytes or files per second (None: it does not fill)."""


@dataclass(slots=True)
class DiskState:
    """State of a disk between rounds.

    How the path was before, du's count, the largest users, the runs' checkpoints by pattern, how quickly it
    fills; whether writing hangs, and whether its quotas could ever be read.
    """

    former: path_state.PathState = field(default_factory=path_state.PathState)
    counted: DuState = field(default_factory=DuState)
    holders: TopUsers = field(default_factory=TopUsers)
    inventories: dict[str, CheckpointInventory] = field(default_factory=dict)
    rates: Rates = field(default_factory=dict)
    probe: WriteTestState = field(default_factory=WriteTestState)
    quotas_read: bool = False


@check(
    remembers="14d",
    timeout="60s",
    rejudge=_rejudge,
    watches="disk",
    triggers=("on_disk",),
    charts=(Chart("used", unit="B", group="Disks", limit="total", full_in="full_in"),),
    trend="free",
)
def disk_quota(
    path: str,
    state: DiskState,
    history: History,
    now: float,
    quota: Source | dict[str, Any] = "auto",
    warn_free: AmountField | None = None,
    crit_free: AmountField | None = None,
    warn_inodes_free: AmountField | None = None,
    crit_inodes_free: AmountField | None = None,
    warn_used: AmountField | None = None,
    crit_used: AmountField | None = None,
    warn_inodes_used: AmountField | None = None,
    crit_inodes_used: AmountField | None = None,
    usable: float | Share = 1.0,
    full_within: Duration | None = None,
    growth: float | Rate | None = None,
    write_probe: bool = False,
    write_within: Duration = 20.0,
    checkpoints: tuple[str, ...] = (),
) -> Iterator[Result | DiskState]:
    """Room on a file system, in bytes and in inodes, and how long it lasts.

    path: a directory on the file system
    quota: source of the quotas: a tool by name, a command of the site with a pattern, or auto, by the type
        of the file system; the file system itself is judged in any case
    warn_free: WARNING below this much free space, a size or a share; default: 10 %, 50 TB at most
    crit_free: CRITICAL below this; default: 5 %, 20 TB at most
    warn_inodes_free: the same for inodes, a number or a share; default: 10 %, ten million at most
    crit_inodes_free: CRITICAL below this many; default: 5 %, two million at most
    warn_used: WARNING above this much in use, a size or a share
    crit_used: CRITICAL above this
    warn_inodes_used: the same for inodes, a number or a share
    crit_inodes_used: CRITICAL above this many
    usable: the share of the space that this file system reliably provides
    full_within: WARNING if the forecast says that it is full sooner
    growth: known writing rate; default: measured over 14 days
    write_probe: write, fsync, read back and remove a small file in `path`, which finds what df hides
    write_within: seconds that this may take
    checkpoints: patterns of checkpoints written here; default: those of all runs
    """
    yield state  # keep the final result
    sight = path_state.look(path, state.former, now)
    if isinstance(sight, Result):
        yield sight
        return
    yield path_state.judge(path, sight, state.former, now)
    if state.former.unmounted:
        return
    spot = quota_sources.QuotaPath(path, sight.mount or Mount("/", "", ""), now)
    source = quota_sources.automatic(spot.mount) if quota == "auto" else quota
    found = models.statvfs_limits(sight.stat)
    if source != "statvfs":
        said = quota_sources.ask_quotas(source, spot, state.counted)
        found = (*found, *said.limits)
        if quota != "auto" or source != "posix" or _read_before(said, state):
            yield _source(path, said, now)
        wished = {BYTES: (warn_free, crit_free), INODES: (warn_inodes_free, crit_inodes_free)}
        yield from storage_targets.judge(path, said.targets, wished)
    saving = checkpoint_room.largest_cadence(checkpoints, sight.device, state.inventories, now)
    outlook = Outlook(history, now, full_within, growth, saving)
    wishes = {
        BYTES: FreeSpaceLimits(warn_free, crit_free, warn_used, crit_used),
        INODES: FreeSpaceLimits(warn_inodes_free, crit_inodes_free, warn_inodes_used, crit_inodes_used),
    }
    rooms = _rooms(found, wishes, usable, outlook, state.rates)
    yield from _told(path, rooms, outlook, spot, source, state)
    if write_probe:
        most = state.holders.words.get(BYTES, "")
        yield write_test.write_test(path, state.probe, now, write_within, most)


# What the quota tool says beside the limits.


def _read_before(said: quota_sources.Quotas, state: DiskState) -> bool:
    """Return True if the quotas could be read before.

    Many NFS servers have no quotas and answer with an error, which is a problem only of one that had some.
    """
    state.quotas_read = state.quotas_read or bool(said.limits)
    return state.quotas_read


_QUOTA = Advice('Set quota under the disk in config.toml; "statvfs" reads the room of the whole file system.')
_REFRESH = Advice("Refresh the quota tool's figures: what writes them may have stopped.")


def _source(path: str, said: quota_sources.Quotas, now: float) -> Result:
    if said.trouble:
        lost = unknown(f"its quotas are not known: {said.trouble}", subject="quota")
        return lost.saying(path, advice=[_QUOTA])
    old = max((now - limit.at for limit in said.limits if limit.at is not None), default=0.0)
    if old > TOO_OLD:
        text = f"its quotas are not known: the tool's figures are {age(old)} old"
        stale = unknown(text, subject="quota").saying(path, advice=[_REFRESH, _QUOTA])
        return stale.dated(now - old)
    missing = f", {said.missing}" if said.missing else ""
    return ok(f"its quotas could be read{missing}", subject="quota").ending("its quotas can be read again")


# Judging, and the forecast.


def _rooms(
    found: Sequence[StorageLimit],
    wishes: dict[str, FreeSpaceLimits],
    usable: float,
    outlook: Outlook,
    rates: Rates,
) -> dict[str, list[Verdict]]:
    """Return all limits by kind, the tightest first."""
    rooms = {}
    for kind, wish in wishes.items():
        limits = [limit for limit in found if limit.kind == kind]
        judged = [free_space.judge(limit, wish, usable) for limit in limits]
        foreseen = [_foreseen(verdict, outlook, rates, alone=len(judged) == 1) for verdict in judged]
        rooms[kind] = sorted(foreseen, key=lambda verdict: verdict.tightness, reverse=True)
    return {kind: each for kind, each in rooms.items() if each}


def _foreseen(verdict: Verdict, outlook: Outlook, rates: Rates, *, alone: bool) -> Verdict:
    """Add the time until it is full, and make it a WARNING if that is too soon."""
    left = _left(verdict, outlook, rates, alone=alone)
    if left is None:
        return verdict
    return _in_time(replace(verdict, left=left), outlook.full_within)


def _in_time(verdict: Verdict, full_within: float | None) -> Verdict:
    """Make a verdict that is OK so far a WARNING if the limit is reached too soon."""
    if verdict.status is not Status.OK or verdict.left is None or verdict.free <= 0:
        return verdict
    if full_within is None or verdict.left >= full_within:
        return verdict
    return replace(verdict, status=Status.WARNING, why=f"warned within {age(full_within)}")


def _left(verdict: Verdict, outlook: Outlook, rates: Rates, *, alone: bool) -> float | None:
    """Return the seconds until nothing is left, or None. Each of several limits has its own series."""
    limit = verdict.limit
    if math.isinf(verdict.free):
        return None
    if outlook.growth and limit.kind == BYTES:
        return verdict.free / outlook.growth
    points = outlook.history.series(_series(limit, alone=alone), limit.kind)
    if not points:
        return None
    now = outlook.now
    measured = rates.get(f"{limit.kind} {limit.of}")
    kept = min(RATE_KEPT, KEPT_SHARE * (points[-1][0] - points[0][0]))
    if measured is None or not fresh(measured[0], now, kept):
        rate = filling_rate([*points, (max(limit.at or now, points[-1][0]), limit.used)], verdict.free)
        measured = rates[f"{limit.kind} {limit.of}"] = (now, rate)
    return time_to_full(verdict.free, measured[1], points)


def _series(limit: StorageLimit, *, alone: bool) -> str:
    return "used" if alone else f"used by {limit.of}"


# Wording.


def _told(
    path: str,
    rooms: dict[str, list[Verdict]],
    outlook: Outlook,
    spot: quota_sources.QuotaPath,
    source: str | dict[str, Any],
    state: DiskState,
) -> Iterator[Result]:
    if not rooms:
        yield unknown("the file system reports no size", subject=BYTES).saying(path, advice=[_QUOTA])
        return
    shared = [each[0] for each in rooms.values() if not each[0].limit.user]
    most: dict[str, str] = {}
    if any(verdict.status is not Status.OK for verdict in shared) and isinstance(source, str):
        state.holders = ask_top_users(source, spot, state.holders)
        most = state.holders.words
    else:
        state.holders = state.holders.calm
    for kind, judged in rooms.items():
        yield _worded(path, judged, outlook, most.get(kind, ""))


def _worded(path: str, judged: list[Verdict], outlook: Outlook, most: str) -> Result:
    """Report the tightest limit of one kind, with what it means for the runs."""
    verdict = judged[0]
    room = free_space.describe(verdict)
    parts, facts = [room], [path]
    status = verdict.status
    facts += [verdict.why] if verdict.why else []
    if outlook.saving and verdict.limit.kind == BYTES and not math.isinf(verdict.free):
        if outlook.saving.room(verdict.free):
            facts.append(checkpoint_room.describe_room(outlook.saving, verdict.free))
        else:
            parts.insert(0, f"no room for the next checkpoint ({format_size(outlook.saving.size)})")
            status = Status.WARNING if status is Status.OK else status
    if verdict.free > 0 and verdict.left is not None:
        parts.append(f"full in about {age(verdict.left)}")
    inodes = verdict.limit.kind == INODES
    advice = [] if status is Status.OK else [write_test.relief(path, most, inodes=inodes)]
    old = outlook.now - (verdict.limit.at or outlook.now)
    facts += [f"figures of {age(old)} ago"] if old >= LATE else []
    details = "\n".join(map(free_space.describe, judged)) if len(judged) > 1 else ""
    figures = {**free_space.metrics(verdict), **_each(judged)}
    told = Result(status, ", ".join(parts), figures, details, verdict.limit.kind).saying(
        *facts, advice=advice
    )
    worded = told.ending("room again", room)
    return worded.triggers("on_disk") if verdict.short else worded


def _each(judged: list[Verdict]) -> dict[str, Metric]:
    """Return what is used of each of several limits: the forecast needs a series for each."""
    if len(judged) == 1:
        return {}
    unit = "B" if judged[0].limit.kind == BYTES else ""
    limited = [verdict.limit for verdict in judged if verdict.limit.capacity is not None]
    return {_series(limit, alone=False): Metric(round(limit.used), unit) for limit in limited}
