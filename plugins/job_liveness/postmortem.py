"""Post-mortem of a job: why it ended, by its log's last words, and the work lost, by its checkpoints."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from watchdogd.checks import checkpoint_files
from watchdogd.parsers.logs import failures, log_files, progress
from watchdogd.parsers.logs.log_lines import LogLine, read_lines
from watchdogd.parsers.logs.progress_forms import WORK
from watchdogd.units import format_duration

SLACK = 60.0
"""Seconds by which the clocks of the batch system and of the file server may differ."""
_LOOKED_INTO = 3
_TAIL = 256 * 1024
"""Bytes of the end of a log in which the last words are looked for."""


@dataclass(frozen=True, slots=True)
class PostMortem:
    """Findings on a job that ended.

    `cause`: a known one, or empty. `report`: how far it came. `saved`: newest whole checkpoint, when.
    """

    cause: str = ""
    report: str = ""
    saved: tuple[str, float] | None = None


def post_mortem(
    log: str, checkpoints: str, job: tuple[str, str], ended_at: float, written: Collection[str] = ()
) -> PostMortem:
    """Examine what a job (id, raw id) left that ended at `ended_at`; empty patterns are passed over.

    What cannot be read tells nothing.
    """
    try:
        lines = _last_lines(log, job, ended_at, written) if log else []
        saved = _saved(checkpoints, ended_at) if checkpoints else None
    except OSError:
        return PostMortem()  # log_staleness and checkpoint_age tell what is wrong with these files
    cause, report = _last_words(lines)
    return PostMortem(cause, report, saved)


def sentence(found: PostMortem, watched: bool, started_at: float | None, ended_at: float) -> str:
    """Return it in a sentence, or empty; `watched`: checkpoints are configured, so having none is news."""
    parts = [f"cause: {found.cause}"] if found.cause else []
    reached = f" ({found.report} was reached)" if found.report else ""
    if found.saved and found.saved[1] >= (started_at or 0.0):
        path, at = found.saved
        lost = format_duration(max(ended_at - at, 0.0))
        parts.append(f"work lost: {lost} since {os.path.basename(path)}{reached}")
    elif watched and started_at is not None:
        lost = format_duration(max(ended_at - started_at, 0.0))
        parts.append(f"work lost: all {lost} of it, no checkpoint came{reached}")
    elif found.report:
        parts.append(f"{found.report} was reached")
    return "; ".join(parts)


def _last_lines(log: str, job: tuple[str, str], ended_at: float, written: Collection[str]) -> list[LogLine]:
    """Read the file that bears the job's id, else the one last written to when it ended, or the newest."""
    files = log_files.find(log, written)
    if not files:
        return []
    before = next((file for file in files if file.mtime <= ended_at + SLACK), files[0])
    own = next(
        (
            file
            for name in log_files.names(*job)
            for file in files
            if name.search(os.path.basename(file.path))
        ),
        before,
    )
    begin = max(own.size - _TAIL, 0)
    return read_lines(log_files.read(own.path, begin, own.size))[0]


def _last_words(lines: list[LogLine]) -> tuple[str, str]:
    """Return the cause that came after the last progress, and that progress."""
    last, report, coarse = 0, "", True
    for index, line in enumerate(lines):
        found = progress.progress(progress.latest(line))
        if found and found.series != WORK and coarse >= found.coarse:
            last, report, coarse = index, progress.words(found.series, found.number), found.coarse
    cause = failures.root(failures.find(lines[last:]))
    return (cause.sentence if cause else ""), report


def _saved(pattern: str, ended_at: float) -> tuple[str, float] | None:
    """Return the newest checkpoint that was whole when the job ended."""
    before = [
        entry for entry in checkpoint_files.find_checkpoints(pattern) if entry.mtime <= ended_at + SLACK
    ]
    for entry in before[:_LOOKED_INTO]:
        found = checkpoint_files.content(entry)
        if found.size and not found.mark:
            return entry.path, min(found.mtime, ended_at)
    return None
