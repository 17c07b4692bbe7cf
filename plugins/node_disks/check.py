"""node_disks: room on the disks of the run's own nodes.

A full /tmp or /dev/shm on a single node ends the whole job, and no login node shows it. So each path of the
run's `node_disks` is checked on every node of its job: by one small process on each node (srun --overlap,
which takes nothing from the training), or, if the job belongs to somebody else, from what `watchdogd probe`
left in home. The probe reads the run's `node_disks` by itself.

A disk that is full, out of inodes, missing, read-only or not answering is reported by node and path
(`node5:/tmp`). Thresholds are those of `disk_quota`.
"""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterator, Mapping

from watchdogd.checks import free_space, node_checks
from watchdogd.checks.free_space import FreeSpaceLimits, Verdict
from watchdogd.checks.node_checks import NodeCheckState
from watchdogd.checks.working_job import running
from watchdogd.parsers.probe_sample import Disk, Usage
from watchdogd.parsers.quota.models import BYTES, FILE_SYSTEM, INODES, StorageLimit
from watchdogd.plugin import (
    Advice,
    AmountField,
    Duration,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    critical,
    unknown,
)
from watchdogd.probe.node_answers import look
from watchdogd.system.account import own_name


@check(
    every="2m",
    timeout="60s",
    follows=("job_liveness",),
    watches="run",
    needs="node_disks",
    triggers=("on_disk",),
)
def node_disks(
    run: Run,
    snapshot: Snapshot,
    state: NodeCheckState,
    now: float,
    node_disks: tuple[str, ...],
    warn_free: AmountField | None = None,
    crit_free: AmountField | None = None,
    warn_inodes_free: AmountField | None = None,
    crit_inodes_free: AmountField | None = None,
    deadline: Duration = 40.0,
) -> Iterator[Result | NodeCheckState]:
    """Room, in bytes and in inodes, on the disks of the run's own nodes.

    node_disks: paths on the nodes, such as /tmp and /dev/shm
    warn_free: WARNING below this much free space, a size or a share; default: 10 %
    crit_free: CRITICAL below this; default: 5 %
    warn_inodes_free: the same for inodes, a number or a share; default: 10 %
    crit_inodes_free: CRITICAL below this many; default: 5 %
    deadline: seconds for asking all nodes
    """
    wishes = {
        BYTES: FreeSpaceLimits(warn_free, crit_free),
        INODES: FreeSpaceLimits(warn_inodes_free, crit_inodes_free),
    }
    found = list(_judged(run, snapshot, state, node_disks, wishes, now, deadline))
    yield from found
    if found[0].status is not Status.UNKNOWN:
        yield from node_checks.recoveries(state.recovering, found)
    yield state


def _judged(
    run: Run,
    snapshot: Snapshot,
    state: NodeCheckState,
    paths: tuple[str, ...],
    wishes: Mapping[str, FreeSpaceLimits],
    now: float,
    deadline: float,
) -> Iterator[Result]:
    """Report the disks as a whole, then what is wrong with single disks and nodes."""
    jobs = running(run, snapshot)
    if bar := node_checks.nothing_to_judge(snapshot, jobs):
        yield bar
        return
    seen = look(run, jobs, deadline=deadline, now=now, paths=paths)
    if seen.closed:
        yield from node_checks.no_access(run.name, "its node disks", seen.closed, reported=state.reported)
        state.reported = True
        return
    if seen.trouble:
        yield unknown(f"its node disks are not known: {seen.trouble}").saying(
            advice=node_checks.ask_nodes(run.backend)
        )
        return
    for each in judge(seen.told, paths, wishes):
        yield node_checks.for_backend(each, run.backend)
    yield from node_checks.silent(run, "its disks are", seen.silent)


def judge(
    nodes: Mapping[str, Usage], paths: tuple[str, ...], wishes: Mapping[str, FreeSpaceLimits]
) -> Iterator[Result]:
    """Report the fullest of all disks, then each that is not OK."""
    seen = {f"{node}:{path}": usage.disks.get(path) for node, usage in nodes.items() for path in paths}
    verdicts = {place: _verdicts(disk, wishes) for place, disk in seen.items() if disk and not disk.trouble}
    yield _whole(verdicts, len(nodes))
    for place, disk in seen.items():
        if disk is None:
            yield unknown(f"{place}: not looked at by the probe", subject=place).saying(
                advice=[Advice("Start its probe anew, or with --disk.")]
            )
        elif disk.trouble:
            yield _troubled(place, disk)
        elif disk.read_only:
            yield _advised(critical(f"{place}: read-only, nothing can be written", subject=place), place)
    for place, judged in verdicts.items():
        for verdict in judged:
            if verdict.status is not Status.OK and not (seen[place] or Disk()).read_only:
                yield _short(place, verdict)


def _troubled(place: str, disk: Disk) -> Result:
    if disk.errno in (errno.EACCES, errno.EPERM):
        shut = unknown(f"{place}: permission denied for {own_name()}", subject=place)
        return shut.saying(advice=[Advice("Correct node_disks under the run in config.toml.")])
    what = "missing" if disk.errno == errno.ENOENT else "does not answer"
    return _advised(critical(f"{place}: {what} ({disk.trouble})", subject=place), place)


def _advised(result: Result, place: str) -> Result:
    """Say how the next job is kept off the node."""
    return result.saying(advice=[node_checks.leave_out(place.partition(":")[0])])


def _verdicts(disk: Disk, wishes: Mapping[str, FreeSpaceLimits]) -> list[Verdict]:
    """Judge bytes and inodes, each only if the disk reports their total."""
    sizes = ((BYTES, disk.total, disk.free), (INODES, disk.inodes, disk.free_inodes))
    limits = [
        StorageLimit(kind, FILE_SYSTEM, used=total - free, hard=total) for kind, total, free in sizes if total
    ]
    return [free_space.judge(limit, wishes[limit.kind]) for limit in limits]


def _short(place: str, verdict: Verdict) -> Result:
    subject = place if verdict.limit.kind == BYTES else f"{place} inodes"
    line = f"{place}: {free_space.describe(verdict)}"
    short = Result(verdict.status, line, free_space.metrics(verdict), subject=subject, trigger="on_disk")
    return _advised(short.saying(verdict.why, advice=[_relief(place)]), place)


def _relief(place: str) -> Advice:
    """Return what shows what to remove."""
    node, _, path = place.partition(":")
    return Advice(f"Remove what earlier jobs left there; on {node}:", f"du -x -d1 -h {shlex.quote(path)}")


def _whole(verdicts: Mapping[str, list[Verdict]], nodes: int) -> Result:
    found = [(place, each) for place, judged in verdicts.items() for each in judged]
    if not found:
        return unknown("its node disks are not known, no node answers").saying(advice=node_checks.ASK_NODES)
    place, fullest = max(found, key=lambda item: item[1].tightness)
    count = f"{nodes} node{'' if nodes == 1 else 's'}"
    return Result(
        Status.OK,
        f"{count}, least is left on {place}: {free_space.describe(fullest)}",
        free_space.metrics(fullest),
    )
