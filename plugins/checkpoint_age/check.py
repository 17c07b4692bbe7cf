"""checkpoint_age: how much work would be lost, and would the newest checkpoint load.

A run that trains well and saves nothing loses everything at the first fault. The newest checkpoint, found by
the pattern of its name and by its time, may be as old as `checkpoint_every` plus an allowance for saving.
Only time in which the run trains counts, not time in the queue. Jobs too short for that, which end one after
another without a checkpoint, are reported by the work that they lost together.

A checkpoint that is empty, much smaller than the ones before it, or still marked as incomplete long after it
was begun, would not load: that is reported as well. If DeepSpeed's `latest` or Megatron's
`latest_checkpointed_iteration.txt` lies beside them, a checkpoint that is newer than this file, with a later
step than the one in it, is not finished. One that is being written right now is not judged.

Files of one step are one checkpoint. Each is compared with the complete one before it. Missing, empty or
short shards, and a tracker file that names a missing or incomplete checkpoint, are a WARNING; it is CRITICAL
if no complete one younger than twice `checkpoint_every` is left. Fewer complete ones than `keep` are a
WARNING too. The duration of a save (`save_time`, as far as the times of its files show it) and the share of
time spent on saving (`save_share`) are metrics.

The disks' forecast uses the usual size and interval of checkpoints. A growing checkpoint is a sign that the
run works: log_staleness waits as long as it grows, two hours at most.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from watchdogd import units
from watchdogd.checks import checkpoint_files, checkpoint_inventory
from watchdogd.checks.checkpoint_files import FILES
from watchdogd.checks.checkpoint_inventory import SETTLED, CheckpointInventory, Growth
from watchdogd.checks.node_checks import ASK_SLURM, ask_queue, not_judged
from watchdogd.checks.working_job import Since, Working, working
from watchdogd.plugin import (
    Advice,
    Duration,
    Metric,
    Result,
    Run,
    Snapshot,
    Status,
    check,
    critical,
    ok,
    unknown,
    warning,
)
from watchdogd.system.smallfile import unanswered
from watchdogd.units import format_size

LEAST_ALLOWANCE, ALLOWANCE = 600.0, 0.25
"""How late a checkpoint may be by default: a quarter of its interval, at least ten minutes."""
UNFINISHED = 1800.0
"""Seconds without a change after which an unfinished checkpoint counts as abandoned."""
SMALL = 0.5
_JOBS = 100


@dataclass(slots=True)
class Checkpoints:
    """Newest checkpoints, how they grow, and since when there could be one.

    `worked`: the present job, its start, and the last look at it. `lost`: start and seconds of work of each
    earlier job that saved nothing.
    """

    inventory: CheckpointInventory = field(default_factory=CheckpointInventory)
    growth: Growth = field(default_factory=Growth)
    since: Since = field(default_factory=Since)
    worked: tuple[str, float, float] | None = None
    lost: list[tuple[float, float]] = field(default_factory=list)


@check(timeout="2m", follows=("job_liveness", "log_staleness"), watches="run", needs="checkpoints")
def checkpoint_age(
    checkpoints: str,
    run: Run | None,
    snapshot: Snapshot | None,
    state: Checkpoints,
    now: float,
    checkpoint_every: Duration | None = None,
    allowance: Duration | None = None,
    keep: int = 2,
) -> Iterator[Result | Checkpoints]:
    """Checkpoints come in time, are complete, and there is room for the next one.

    checkpoints: pattern of their files or folders
    checkpoint_every: how often one should come; default: only their content is judged
    allowance: how late one may be; default: a quarter of checkpoint_every, at least 10 minutes
    keep: so many complete ones should exist, once there were as many
    """
    works = working(run, snapshot)
    stands = run is not None and not (run.progress and run.progress.recent(now))
    try:
        some = checkpoint_inventory.update_inventory(checkpoints, state.inventory, now)
        signs = checkpoint_inventory.growth_signs(
            checkpoints, state.inventory, state.growth, now, stands=stands
        )
    except OSError as error:
        result = unknown(f"its checkpoints cannot be read: {error.strerror}").saying(
            str(error.filename or checkpoints), advice=[_unread(error)]
        )
        yield replace(result, unanswered=unanswered(error))
        yield state
        return
    state.since = works.since(state.since, now)
    if works.excuse:
        result = not_judged(works.excuse, works.closed)
    else:
        result = _age(checkpoints, works, state, now, checkpoint_every, allowance)
    if works.blind and snapshot is not None:
        result = replace(result, advice=ask_queue(snapshot.backend))
    yield replace(result, signs=signs)
    if some:
        content = _content(state.inventory, now)
        yield content
        yield _sound(state.inventory, now, checkpoint_every, keep, reported=content.status is not Status.OK)
        yield from _room(state.inventory, checkpoint_every)
    yield state


# Judging.


def _age(
    pattern: str,
    works: Working,
    known: Checkpoints,
    now: float,
    every: float | None,
    allowance: float | None,
) -> Result:
    whole = [(one.changed, path) for path, one in known.inventory.known.items() if not one.mark]
    came, path = max(whole, default=(0.0, ""))
    since = max(came, known.since.at)
    age = now - since
    lost = _lost(works, known, came, now)
    newest = f"the newest checkpoint is {units.age(now - came)} old" if path else "no checkpoint yet"
    where = path or f"none matches {pattern}"
    if every is None or not since:
        return ok(newest).saying(where)
    late = every + (max(LEAST_ALLOWANCE, ALLOWANCE * every) if allowance is None else allowance)
    metrics = {"age": Metric(round(age), "s", warn=late, crit=late + every)}
    rule = f"one should come every {units.age(every)}"
    if age < late and len(lost) > 1 and sum(lost) >= late and not works.blind:
        line = f"nothing saved by the last {len(lost)} jobs, which worked for {units.age(sum(lost))} in all"
        status = Status.CRITICAL if sum(lost) >= late + every else Status.WARNING
        told = Result(status, line, metrics).saying(newest, where, rule, advice=_WHETHER_IT_SAVES)
        return told.dated(now - sum(lost))
    if age < late:
        return (
            Result(Status.OK, newest, metrics)
            .saying(where)
            .ending("a checkpoint came", f"it is {units.age(now - came)} old")
        )
    line = f"no checkpoint for {units.age(age)} of work (one every {units.age(every)})"
    facts = [where]
    if works.job:
        facts.append(f"job {works.job.id} runs{f' on {works.job.nodes}' if works.job.nodes else ''}")
    if works.blind:
        doubt = f"{line}, not known whether its job runs"
        asked = Result(Status.UNKNOWN, doubt, metrics).saying(*facts, works.blind, advice=ASK_SLURM)
        return asked.dated(since)
    status = Status.CRITICAL if age >= late + every else Status.WARNING
    return Result(status, line, metrics).saying(*facts, advice=_WHETHER_IT_SAVES).dated(since)


_WHETHER_IT_SAVES = (Advice("See whether it saves, and whether its disk has room and can be written."),)


def _unread(error: OSError) -> Advice:
    """Return what helps where checkpoints cannot be read: their path is wrong, or their disk."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP):
        return Advice("Correct checkpoints under the run in config.toml, or ask their owner for access.")
    return Advice("The disk may be failing: ask the cluster's administrators, and save elsewhere meanwhile.")


def _lost(works: Working, known: Checkpoints, came: float, now: float) -> list[float]:
    """Return the seconds that each earlier job worked in vain since the last checkpoint.

    Jobs that ended right after their start are left out.
    """
    lost = [each for each in known.lost if each[0] > came]
    if works.job:
        name, begin = f"{works.job.raw_id}@{works.job.started_at or 0:.0f}", known.since.at
        before, first, last = known.worked or (name, begin, now)
        if before != name and first > came and last - first >= LEAST_ALLOWANCE:
            lost.append((first, last - first))
        known.worked = (name, begin, now)
    known.lost = lost[-_JOBS:]
    return [seconds for _, seconds in known.lost]


def _sound(
    kept: CheckpointInventory, now: float, every: float | None, keep: int, *, reported: bool
) -> Result:
    """Judge whether enough checkpoints would load, by those before them and by their tracker.

    `reported`: a fault of the newest one is reported already.
    """
    sound = [one for one in kept.known.values() if one.sound]
    flaws = {
        path: f"{os.path.basename(path)} is not whole: {one.flaw}"
        for path, one in kept.known.items()
        if one.flaw
    }
    newest = next(iter(kept.known))
    wrong = [*_pointer(kept, flaws), *([flaws[newest]] if newest in flaws and not reported else [])]
    if len(sound) < keep <= len(kept.written):
        wrong.append(f"only {len(sound)} of the {len(kept.known)} newest is whole, {keep} should be")
    last = max((one.changed for one in sound), default=0.0)
    status = Status.WARNING if wrong else Status.OK
    if wrong and every and now - last >= 2 * every:
        status = Status.CRITICAL
        old = f"the last whole checkpoint is {units.age(now - last)} old"
        wrong.insert(0, old if last else "no checkpoint is whole")
    count = f"{len(sound)} of the {len(kept.known)} newest"
    line = next(iter(wrong), f"{count} checkpoints are whole")
    figures = {"whole": Metric(len(sound), warn=keep), **_saving(kept, every)}
    told = Result(status, line, figures, "\n".join(flaws.values()), "whole")
    told = told.saying(*wrong[1:], os.path.dirname(newest), advice=[_KEEP] if wrong else [])
    return told.ending("checkpoints are whole again", count)


def _pointer(kept: CheckpointInventory, flaws: Mapping[str, str]) -> Iterator[str]:
    """Return what is wrong with the checkpoint that a tracker names, and from which a new job would start."""
    for folder in {os.path.dirname(path) for path in kept.known}:
        tracker = checkpoint_files.find_tracker(folder)
        if tracker is None:
            continue
        path = checkpoint_files.named(tracker, kept.known)
        if not path:
            name = os.path.basename(tracker.path)
            yield f"{name} names {tracker.said}, which is not there: nothing would load"
        elif path in flaws and path != next(iter(kept.known)):
            yield f"{os.path.basename(tracker.path)} names {tracker.said}, and {flaws[path]}"


def _saving(kept: CheckpointInventory, every: float | None) -> dict[str, Metric]:
    """Return how long a save takes, and the share of time spent on saving."""
    seconds, usual = kept.save_time, checkpoint_inventory.usual_cadence(kept, every=every)
    if seconds is None:
        return {}
    share = {"save_share": Metric(100.0 * seconds / usual.every, "%")} if usual and usual.every else {}
    return {"save_time": Metric(seconds, "s"), **share}


_KEEP = Advice("Keep the one before it, and see why this one was not written whole.")


def _content(kept: CheckpointInventory, now: float) -> Result:
    """Judge the newest one: empty, much smaller than those before it, or abandoned half-way."""
    path, newest = max(kept.known.items(), key=lambda item: (item[1].changed, item[0]))
    quiet = now - newest.changed
    if newest.mark:
        given_up = f"unfinished checkpoint, unchanged for {units.age(quiet)}"
        marked = f"{newest.mark} marks an unfinished checkpoint, unchanged for {units.age(quiet)}"
        if quiet >= UNFINISHED:
            told = warning(given_up, subject="content").saying(marked, advice=[_KEEP])
            return told.dated(newest.changed)
        return ok("a checkpoint is being written", subject="content").saying(path, marked)
    if quiet < SETTLED:
        return ok("a checkpoint is being written", subject="content").saying(path)
    size = Metric(newest.size, "B")
    if not newest.size:
        return critical("the newest checkpoint is empty", subject="content", size=size).saying(
            path, advice=[_KEEP]
        )
    usual = checkpoint_inventory.usual_cadence(kept, without=path)
    has = f"the newest checkpoint has {format_size(newest.size)}"
    if usual and newest.files < FILES and newest.size < SMALL * usual.size:
        cut = f"the newest checkpoint looks truncated: {format_size(newest.size)} where others have "
        cut += format_size(usual.size)
        return warning(cut, subject="content", size=size).saying(path, advice=[_KEEP])
    return ok(has, subject="content", size=size).saying(path).ending("a whole checkpoint came", has)


def _room(kept: CheckpointInventory, every: float | None) -> Iterator[Result]:
    """Report how many more fit on their file system; quotas are the business of disk_quota."""
    path, usual = next(iter(kept.known), ""), checkpoint_inventory.usual_cadence(kept, every=every)
    if not path or not usual:
        return
    try:
        stat = os.statvfs(os.path.dirname(path))
    except OSError:
        return  # disk_quota reports problems of a file system
    free = stat.f_bavail * stat.f_frsize
    more = usual.room(free)
    text = f"room for {more} more checkpoint{'s' if more != 1 else ''} of {format_size(usual.size)}"
    rhythm = f"one every {units.age(usual.every)}" if usual.every else ""
    if not more:
        text = f"no room for the next checkpoint of {format_size(usual.size)}, {format_size(free)} free"
    told = (ok if more else critical)(text, subject="room", room=more)
    told = told.saying(f"{format_size(free)} free in {os.path.dirname(path)}", rhythm)
    yield told.ending(text) if more else told
