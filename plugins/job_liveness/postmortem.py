"""Post-mortem of a job: why it ended, by the last lines of its logs; the work lost, by its checkpoints.

The batch system's own files (StdOut, StdErr) are read beside the run's log: a launcher, the kernel's
out-of-memory killer and Python's tracebacks write there, whatever file the training writes to.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from watchdogd.batch import slurmtext
from watchdogd.checks import causes, checkpoint_files
from watchdogd.parsers.logs import failures, log_files, log_lines, progress
from watchdogd.parsers.logs.failure_patterns import OF_NODES
from watchdogd.parsers.logs.failures import Cause
from watchdogd.parsers.logs.log_lines import LogLine
from watchdogd.parsers.logs.progress_forms import WORK
from watchdogd.parsers.logs.root_causes import MISMATCH
from watchdogd.stacks import stack_summary
from watchdogd.system.number import count
from watchdogd.units import format_duration

SLACK = 60.0
"""Seconds by which the clocks of the batch system and of the file server may differ."""
_LOOKED_INTO = 3
_TASK_ENDED = re.compile(r"srun: error: ([\w.-]{1,255}): tasks? ([\d,-]{1,999}):")
_LARGEST = 100_000
_TAIL = 256 * 1024
"""Bytes at the end of a log that are searched for a cause."""


@dataclass(frozen=True, slots=True)
class Remains:
    """Job that has ended: its ids, when and where it ran, and its script's output files."""

    id: str
    raw_id: str
    started_at: float | None
    ended_at: float
    nodes: str = ""
    outputs: tuple[str, ...] = ()
    work_dir: str = ""


@dataclass(frozen=True, slots=True)
class PostMortem:
    """What is known of a job that ended, in words, each empty if not known.

    `cause`: why it ended; `kind` of cause (`GPU out of memory`). `work`: what was lost of it, or how far it
    came. `node`: whose fault it is, if the cause can be a node's fault. `log`: the file that was read.
    """

    cause: str = ""
    work: str = ""
    node: str = ""
    kind: str = ""
    log: str = ""

    @property
    def facts(self) -> tuple[str, str]:
        """What was lost, and where to read more; each empty if not known."""
        return self.work, f"log: {self.log}" if self.log else ""

    def __str__(self) -> str:
        return "; ".join(filter(None, [f"cause: {self.cause}" if self.cause else "", self.work]))


def post_mortem(
    job: Remains, log: str, checkpoints: str, written: Collection[str] = (), *, process: bool = False
) -> PostMortem:
    """Examine the files of a job; empty patterns and unreadable files are skipped.

    A plain `process` has no node to exclude.
    """
    job = replace(job, nodes="") if process else job
    try:
        path = _own_log(log, job, written) if log else ""
        lines = _tail(path) if path else []
        saved = _saved(checkpoints, job.ended_at) if checkpoints else None
    except OSError:  # log_staleness and checkpoint_age report problems with these files
        outputs = _outputs(job, "")
        return replace(_cause(job, [], outputs), log=next(iter(outputs), ""))
    begin, report = _last_progress(lines)
    work, outputs = _work(report, saved, bool(checkpoints), job), _outputs(job, path)
    found = _cause(job, lines[begin:], outputs)
    return replace(found, work=work, log=path or next(iter(outputs), ""))


def _work(report: str, saved: tuple[str, float] | None, watched: bool, job: Remains) -> str:
    """Return what was lost; `watched`: checkpoints are configured, so that having none is worth saying."""
    reached = f" ({report} was reached)" if report else ""
    if saved and saved[1] >= (job.started_at or 0.0):
        path, at = saved
        lost = format_duration(max(job.ended_at - at, 0.0))
        return f"work lost: {lost} since {os.path.basename(path)}{reached}"
    if watched and job.started_at is not None:
        lost = format_duration(max(job.ended_at - job.started_at, 0.0))
        return f"work lost: all {lost} of it, no checkpoint came{reached}"
    return f"{report} was reached" if report else ""


def _cause(job: Remains, lines: Sequence[LogLine], outputs: Sequence[str]) -> PostMortem:
    """Return the cause nearest to the root in the last lines of the log and of the job's own output."""
    read = [lines, *map(_tail_after_progress, outputs)]
    cause = failures.root([cause for each in read for cause in failures.find(each)])
    if cause is None:
        return PostMortem()
    addresses: dict[str, str] = {}
    for each in read:
        log_lines.learn(each, addresses)
    node = causes.peer_node(cause.peer, job.nodes, addresses) if cause.peer else ""
    dumped = cause.kind == "segmentation fault" and not cause.core
    core = causes.core_file(job.work_dir, job.started_at or 0.0) if dumped else ""
    guilty = _guilty(cause, job, read) if cause.kind in OF_NODES else ""
    words = causes.words(cause, node or guilty, core)
    if cause.kind == MISMATCH and (odd := stack_summary.odd_one(lines)):
        words += f": {odd}"
    nodes = slurmtext.expand_hostlist(job.nodes)
    alone = len(nodes) == 1 and not (cause.node or node or guilty)
    said = f"{words}, node {nodes[0]}" if alone else words
    return PostMortem(said, node=guilty, kind=cause.kind)


def _guilty(cause: Cause, job: Remains, read: Sequence[Sequence[LogLine]]) -> str:
    """Return the node where it happened: the job's only one, the one named, or that of the rank named."""
    nodes = slurmtext.expand_hostlist(job.nodes)
    if len(nodes) == 1:
        return nodes[0]
    if cause.node:
        return log_lines.node(cause.node, nodes)
    ranks = re.findall(r"\d+", cause.rank)
    for found in (_TASK_ENDED.match(line.text) for lines in read for line in lines):
        if found and len(ranks) == 1 and ranks[0] in _numbers(found[2]):
            return log_lines.node(found[1], nodes)
    return ""


def _numbers(text: str) -> set[str]:
    """Return the numbers in `0-1,3`."""
    spans = (span.partition("-") for span in text.split(","))
    pairs = ((count(first), count(last or first)) for first, _, last in spans)
    return {
        str(number)
        for first, last in pairs
        if first is not None and last is not None and last - first < _LARGEST
        for number in range(first, last + 1)
    }


def _outputs(job: Remains, log: str) -> list[str]:
    """Return the job's output files, without the run's log and files that may be another job's."""
    found = []
    for pattern in job.outputs:
        written = [
            path
            for path in glob.glob(log_files.output_of(pattern, job.id, job.raw_id))
            if _is_theirs(path, (job.started_at or 0.0) - SLACK)
        ]
        found += [path for path in written if len(written) == 1 and not (log and os.path.samefile(path, log))]
    return found


def _is_theirs(path: str, since: float) -> bool:
    """Return True if it is a regular file that was written to since then."""
    with contextlib.suppress(OSError):
        seen = os.stat(path)
        return stat.S_ISREG(seen.st_mode) and seen.st_mtime >= since
    return False


def _own_log(log: str, job: Remains, written: Collection[str]) -> str:
    """Return the file named after the job's id, else the last one written before its end, else the newest."""
    files = log_files.find(log, written)
    if not files:
        return ""
    before = next((file for file in files if file.mtime <= job.ended_at + SLACK), files[0])
    names = log_files.names(job.id, job.raw_id)
    own = (file for name in names for file in files if name.search(os.path.basename(file.path)))
    return next(own, before).path


def _tail(path: str) -> list[LogLine]:
    size = os.stat(path).st_size
    return log_lines.read_lines(log_files.read(path, max(size - _TAIL, 0), size))[0]


def _tail_after_progress(path: str) -> list[LogLine]:
    try:
        lines = _tail(path)
    except OSError:
        return []
    return lines[_last_progress(lines)[0] :]


def _last_progress(lines: Sequence[LogLine]) -> tuple[int, str]:
    """Return which line reports the last progress, and that progress in words."""
    last, report, coarse = 0, "", True
    for index, line in enumerate(lines):
        found = progress.progress(progress.latest(line))
        if found and found.series != WORK and coarse >= found.coarse:
            last, report, coarse = index, progress.words(found.series, found.number), found.coarse
    return last, report


def _saved(pattern: str, ended_at: float) -> tuple[str, float] | None:
    """Return the newest checkpoint that was complete when the job ended."""
    before = [
        entry for entry in checkpoint_files.find_checkpoints(pattern) if entry.mtime <= ended_at + SLACK
    ]
    for entry in before[:_LOOKED_INTO]:
        found = checkpoint_files.content(entry)
        if found.size and not found.mark:
            return entry.path, min(found.mtime, ended_at)
    return None
