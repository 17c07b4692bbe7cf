"""checkpoint_age: how much work would be lost, and would the newest checkpoint load."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from watchdogd.checks.checkpoint import FILES, Content, Entry, content, find
from watchdogd.checks.working import Working, working
from watchdogd.plugin import (
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
from watchdogd.units import format_duration, format_size, iso

LEAST_ALLOWANCE, ALLOWANCE = 600.0, 0.25
"""How late one may be where nothing is configured: a quarter of its interval, ten minutes at least."""
SETTLED = 120.0
"""Seconds without a change, after which a checkpoint counts as written."""
UNFINISHED = 1800.0
"""Seconds without a change, after which what is still marked unfinished was given up."""
SMALL = 0.5
KEPT = 5


@check(timeout="2m", follows=("job_liveness", "log_staleness"))
def checkpoint_age(
    checkpoints: str,
    run: Run | None,
    snapshot: Snapshot | None,
    memory: dict[str, Any],
    now: float,
    checkpoint_every: Duration | None = None,
    allowance: Duration | None = None,
) -> Iterator[Result]:
    """Whether checkpoints come in time, are whole, and the next one has room.

    checkpoints: pattern of their files or folders
    checkpoint_every: how often one should come; left out: only their content is judged
    allowance: how late one may be; left out: a quarter of checkpoint_every, 10 minutes at least
    """
    state = working(run, snapshot)
    try:
        entries = find(checkpoints)
        _note(entries, memory, now)
    except OSError as error:
        yield unknown(f"{error.filename or checkpoints} cannot be read: {error.strerror}")
        return
    if state.job:
        memory["begin"] = max(state.job.started_at or memory.get("begin", now), memory.get("excused", 0.0))
    if state.excuse:
        memory["excused"] = now
        yield ok(f"not judged: {state.excuse}")
    else:
        yield _age(checkpoints, state, memory, now, checkpoint_every, allowance)
    if entries:
        yield _content(memory, now)
        yield from _room(memory)


# What is there.


def _note(entries: list[Entry], memory: dict[str, Any], now: float) -> None:
    """Look into the newest checkpoint while it changes; remember the sizes of those before it.

    `came`: when the newest one was last written to, on our clock where we saw it happen.
    """
    looked = memory.get("looked")
    known = memory.get("known", {})
    kept: dict[str, Any] = {}
    files = 0
    for entry in entries[:KEPT]:
        before = known.get(entry.path)
        if before and before["settled"] and before["own_mtime"] == entry.mtime:
            kept[entry.path] = before
            continue
        if files >= FILES:
            break  # the older ones have time: next round
        try:
            found = content(entry)
        except FileNotFoundError:
            continue  # cleaned up while we looked
        files += found.files
        kept[entry.path] = _noted(entry, found, before, looked, now)
    memory["known"], memory["looked"] = kept, now


def _noted(
    entry: Entry, found: Content, before: Mapping[str, Any] | None, looked: float | None, now: float
) -> dict[str, Any]:
    same = before is not None and (before["size"], before["mtime"]) == (found.size, found.mtime)
    if before and same:
        changed = before["changed"]
    else:  # the file server's clock is believed where it lies between two looks of ours
        seen = looked is not None and not looked <= found.mtime <= now
        changed = now if seen else min(found.mtime, now)
    return {
        "size": found.size,
        "files": found.files,
        "mtime": found.mtime,
        "own_mtime": entry.mtime,
        "mark": found.mark,
        "changed": changed,
        "settled": now - changed >= SETTLED and not found.mark,
    }


# Judging.


def _age(
    pattern: str,
    state: Working,
    memory: Mapping[str, Any],
    now: float,
    every: float | None,
    allowance: float | None,
) -> Result:
    whole = [(one["changed"], path) for path, one in memory["known"].items() if not one["mark"]]
    came, path = max(whole, default=(0.0, ""))
    since = max(came, memory.get("begin", 0.0))
    age = now - since
    newest = f"the newest checkpoint is {path}, {format_duration(now - came)} old" if path else ""
    if every is None or not since:
        return ok(newest or f"no checkpoint matches {pattern} yet")
    late = every + (max(LEAST_ALLOWANCE, ALLOWANCE * every) if allowance is None else allowance)
    metrics = {"age": Metric(round(age), "s", warn=late, crit=late + every)}
    if age < late:
        return Result(Status.OK, newest or f"no checkpoint matches {pattern} yet", metrics)
    parts = [
        newest or f"no checkpoint matches {pattern}",
        f"one should come every {format_duration(every)}, {format_duration(age)} of work have none "
        f"(since {iso(since)})",
    ]
    if state.job:
        parts.append(f"job {state.job.id} runs{f' on {state.job.nodes}' if state.job.nodes else ''}")
    if state.blind:
        parts.append(f"whether its job runs is not known: {state.blind}")
        return Result(Status.UNKNOWN, "; ".join(parts), metrics)
    status = Status.CRITICAL if age >= late + every else Status.WARNING
    return Result(status, "; ".join(parts), metrics)


def _content(memory: Mapping[str, Any], now: float) -> Result:
    """Of the newest one: empty, much smaller than those before it, or given up half-way."""
    path, newest = max(memory["known"].items(), key=lambda item: (item[1]["changed"], item[0]))
    quiet = now - newest["changed"]
    if newest["mark"]:
        text = f"{newest['mark']} marks an unfinished checkpoint, unchanged for {format_duration(quiet)}"
        return warning(text, subject="content") if quiet >= UNFINISHED else ok(text, subject="content")
    if quiet < SETTLED:
        return ok(f"{path} is being written", subject="content")
    size = Metric(newest["size"], "B")
    if not newest["size"]:
        return critical(f"{path} is empty", subject="content", size=size)
    usual = _usual_size(memory, path)
    if usual and newest["files"] < FILES and newest["size"] < SMALL * usual:
        return warning(
            f"{path} has {format_size(newest['size'])}, those before it {format_size(usual)}: it may be cut",
            subject="content",
            size=size,
        )
    return ok(f"{path} has {format_size(newest['size'])}", subject="content", size=size)


def _usual_size(memory: Mapping[str, Any], without: str) -> float | None:
    sizes = [one["size"] for path, one in memory["known"].items() if path != without and one["settled"]]
    return statistics.median(sizes) if sizes else None


def _room(memory: Mapping[str, Any]) -> Iterator[Result]:
    """For how many more there is room on their file system."""
    path, usual = next(iter(memory["known"]), ""), _usual_size(memory, "")
    if not path or not usual:
        return
    try:
        stat = os.statvfs(os.path.dirname(path))
    except OSError:
        return  # disk_quota says what is wrong with a file system
    free = stat.f_bavail * stat.f_frsize
    more = int(free / usual)
    text = f"room for {more} more checkpoint{'s' if more != 1 else ''} of {format_size(usual)}"
    result = ok if more else critical
    yield result(f"{text}: {format_size(free)} free in {os.path.dirname(path)}", subject="room", room=more)
