"""Reader of what is new about a run, in its log files and from its Guard: the input of `advance`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchdogd.checks.causes import core_file, peer_node
from watchdogd.checks.working_job import of
from watchdogd.errors import UnreadableError
from watchdogd.parsers import guard_heartbeat
from watchdogd.parsers.logs import log_files, structured_files
from watchdogd.parsers.logs.log_files import LogFile, ReadPosition
from watchdogd.plugin import Job
from watchdogd.plugins.log_staleness import file_versions, log_paths
from watchdogd.plugins.log_staleness.file_versions import Version
from watchdogd.plugins.log_staleness.run_log import Peer, RunLog
from watchdogd.probe.sample_files import left

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdogd.parsers.guard_heartbeat import GuardHeartbeat
    from watchdogd.parsers.logs.log_lines import LogLine
    from watchdogd.plugin import Job, Run, Snapshot
    from watchdogd.plugins.log_staleness.run_log import RunLog


def looked_up(log: RunLog, job: Job | None) -> RunLog:
    """Look up what the present cause needs: once the node with an address, each time the job's core file."""
    seen = log.told.cause
    if seen is None or job is None:
        return log
    told, cause = log.told, seen.cause
    if cause.peer and (told.peer is None or told.peer.address != cause.peer):
        told = replace(told, peer=Peer(cause.peer, peer_node(cause.peer, job.nodes, log.files.addresses)))
    if cause.kind == "segmentation fault" and not cause.core:
        core = core_file(job.work_dir, job.started_at or 0.0)
        told = replace(told, cause=replace(seen, core=core))
    return log if told is log.told else replace(log, told=told)


SLACK = 300.0
"""Seconds by which the clocks of the batch system and of a file server may differ."""


@dataclass(frozen=True, slots=True)
class News:
    """A file as it is now: how far it is read, and its new `lines` (None if none were read).

    `fresh`: new bytes of a known text file, without those that were seen before as an unfinished line.
    `version`: present content of a file that is rewritten rather than continued.
    """

    key: str
    place: ReadPosition
    lines: tuple[LogLine, ...] | None = None
    fresh: bytes = b""
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Result of one look.

    `files`: newest first. `beat`: the Guard's last heartbeat. `obstacle`: what is there instead of a log.
    `skew`: seconds by which the file server's clock is ahead; None: not seen.
    `failed`: how many looks before did not end, so that bytes were skipped: `left_out`, in words.
    """

    files: tuple[News, ...] = ()
    beat: GuardHeartbeat | None = None
    obstacle: str = ""
    skew: float | None = None
    failed: int = 0
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """Where to look: the log's pattern (empty: none), and the run.

    `written`: files that watchdogd writes, which are never the run's log.
    """

    log: str
    run: Run | None = None
    snapshot: Snapshot | None = None
    written: tuple[str, ...] = ()


def look(where: Where, job: Job | None, log: RunLog, now: float, failed: int = 0) -> Seen:
    """Read what is new of a run since `log`. Raise OSError if its log, or the folder, cannot be read.

    If `failed` looks before did not end, what is new is skipped: its bytes count as growth but are not read.
    """
    found = _without_others(log_files.find(where.log, where.written), where) if where.log else []
    skew, left_out = None, ""
    if failed:
        files, left_out = _leave_out(found, log, now)
    else:
        skew = log_files.clock_skew(found, log.files.places, log.looks.last, now)
        files = tuple(_read(found, job, log, now, log.files.skew if skew is None else skew))
    instead = log_paths.find(where.log, where.written) if where.log and not files else None
    return Seen(files, _newest_beat(where.run, job), str(instead or ""), skew, failed, left_out)


def _grown(file: LogFile, log: RunLog, now: float, skew: float) -> float:
    place = log.files.places.get(file.key)
    return min(log_files.grown_at(file, place, log.looks.last, now, skew), now)


def _leave_out(files: list[LogFile], log: RunLog, now: float) -> tuple[tuple[News, ...], str]:
    """Return the files as read to their ends without reading, and which bytes were skipped."""
    kept, parts = [], []
    for file in files:
        begin, end = log_files.unread(file, log.files.places.get(file.key), first=log.looks.last is None)
        kept.append(News(file.key, _place(file, end, _grown(file, log, now, log.files.skew), blind=True)))
        parts += [f"bytes {begin} to {end} of {file.path}"] if end > begin else []
    return tuple(kept), ", ".join(parts[:3]) or "nothing new"


def _place(file: LogFile, offset: int, grown: float, *, blind: bool = False) -> ReadPosition:
    """Return how far a file is read; `blind`: nothing in it is to be read now."""
    checksum = 0 if blind else log_files.checksum(file.path, file.size)
    return ReadPosition(file.path, offset, file.size, file.mtime, grown, checksum)


def _read(files: list[LogFile], job: Job | None, log: RunLog, now: float, skew: float) -> Iterable[News]:
    since, first = log.job.since_of(job, now), log.looks.last is None
    known = {place.path for place in log.files.places.values()}
    for index, file in enumerate(files):
        place, grown = log.files.places.get(file.key), _grown(file, log, now, skew)
        if place and (file.size, file.mtime, file.path) == (place.size, place.mtime, place.path):
            yield News(file.key, replace(place, grown_at=grown) if place.grown_at > now else place)
            continue
        begin, end = log_files.unread(file, place, first=first, files=len(files))
        if structured_files.is_whole(file.path) or log_files.is_rewritten(file, place):
            begin = 0
        if first and index:
            begin = end  # of many files only the newest one's past matters
        if place is None and grown < since - SLACK:
            begin = end  # nothing in it is from this job
        if end <= begin:
            yield News(file.key, _place(file, begin, grown))
        elif news := _lines(file, place, begin, end, grown):
            anew = begin == 0 and file.path in known
            yield _unsaid(news, log.files.versions.get(file.path)) if anew else news


def _unsaid(news: News, before: Version | None) -> News:
    """Return news of a rewritten file, without what its last version contained."""
    lines = news.lines or ()
    return replace(
        news, lines=tuple(file_versions.unsaid(lines, before)), version=file_versions.of(lines), fresh=b""
    )


def _lines(file: LogFile, place: ReadPosition | None, begin: int, end: int, grown: float) -> News | None:
    """Read what is new in a file; None if it is gone since it was found (a rotation)."""
    try:
        data = log_files.read(file.path, begin, end)
    except FileNotFoundError:
        return None
    lines, done = structured_files.read(file.path, data)
    offset = begin + done if done or end - begin < log_files.AT_MOST else end
    fresh = data[max(place.size - begin, 0) :] if place and structured_files.is_text(file.path) else b""
    return News(file.key, _place(file, offset, grown), tuple(lines), fresh)


# Which files are the run's: if names have job ids, a pattern may match other runs' files, too.


def _without_others(files: list[LogFile], where: Where) -> list[LogFile]:
    """Return `files` without those of running jobs of other runs, which are no sign of this run's life.

    Names are used only if some file has the id of one of the run's jobs in its name: then logs are named so
    here.
    """
    run, snapshot = where.run, where.snapshot
    if len(files) < 2 or run is None or snapshot is None or snapshot.backend == "process":
        return files
    ours = {(job.id, job.raw_id) for job in of(run, snapshot)}
    named = [file.path for file in files if _bears(file, ours)]
    if not named:
        return files
    return [file for file in files if file.path in named or not _bears(file, snapshot.running - ours)]


def _bears(file: LogFile, jobs: Iterable[tuple[str, str]]) -> bool:
    name = os.path.basename(file.path)
    return any(each.search(name) for job in jobs for each in log_files.names(*job))


# The Guard's heartbeats, in the inbox.


def _newest_beat(run: Run | None, job: Job | None) -> GuardHeartbeat | None:
    """Return the newest heartbeat, or None.

    Only files of the job's owner count, and no heartbeat of an earlier job.
    """
    if run is None or job is None:
        return None
    found = []
    for written, text in left(run.inbox, run.name, job.user, kind="beat"):
        try:
            one = guard_heartbeat.read(text, written)
        except UnreadableError:
            continue  # not a heartbeat
        if one.run == run.name and _beats_for(one, job):
            found.append(one)
    return max(found, key=lambda one: one.written, default=None)


def _beats_for(one: GuardHeartbeat, job: Job) -> bool:
    """Return True if a heartbeat is the job's.

    Jobs are identified by the batch system's id, also that of a het job's leader; a plain process by the
    time.
    """
    if one.job and "@" not in job.raw_id:
        return one.job in (job.raw_id, job.id, job.handle)
    return one.written >= (job.started_at or 0.0) - SLACK
