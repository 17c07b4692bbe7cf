"""Log files: found by Slurm's patterns for their names, and read from where the last round stopped.

A pattern becomes a glob that also matches the logs of the run's next jobs. The letters are those of
sbatch(1), "filename pattern": %A %a %b %J %j %N %n %s %t differ from job to job, %u and %x do not; `%5j` pads
with zeros; a `\\` in front disables them all. squeue shows the pattern as it was given; scontrol (22.05)
replaces some of the letters, so that the job's own id in the name counts as a letter too.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import stat as modes
from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING
from zlib import crc32

from watchdogd.system.number import digits
from watchdogd.system.smallfile import check_answers, open_plain

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from watchdogd.batch.models import Job


FIRST_LOOK = 96 * 1024
"""Bytes read from the end of a log that is seen for the first time."""
AT_MOST = 8 * 1024 * 1024
"""Bytes of one file that are read in one round: the last ones."""
TOGETHER = 8 * AT_MOST
"""Bytes of all files that are read in one round, in equal shares."""
SMALL = 64 * 1024
"""A changed file of up to this many bytes is read again as a whole: it may have been rewritten in place."""
FILES = 256
PACKED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")
"""Endings of rotated logs; their contents were read before they were compressed."""


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Position up to which a file was read, and when it last grew (`grown_at`, by our own clock).

    `checksum`: of the whole file as it was then, if not larger than SMALL; else 0.
    """

    path: str
    offset: int
    size: int
    mtime: float
    grown_at: float
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as it is now; `key` is its inode."""

    path: str
    key: str
    size: int
    mtime: float


def find(pattern: str, without: Collection[str] = ()) -> list[LogFile]:
    """Return the regular files that match, newest first, at most FILES.

    `without`: paths of files that watchdogd writes itself, which are left out under whatever name. Raise
    OSError if files may exist that cannot be seen.
    """
    paths: tuple[str, ...] = (pattern,)
    if glob.has_magic(pattern):
        paths = tuple(each for each in glob.glob(pattern, recursive=True) if not each.endswith(PACKED))
    found = []
    for path in paths:
        try:
            seen = os.stat(path)
        except FileNotFoundError:
            continue
        if modes.S_ISREG(seen.st_mode) and not is_one(path, without):
            found.append(LogFile(path, str(seen.st_ino), seen.st_size, seen.st_mtime))
    if not found:
        check_answers(pattern)
    if len(found) > 1:
        found.sort(key=lambda file: (file.mtime, file.path), reverse=True)
    return found[:FILES]


def is_one(path: str, others: Collection[str]) -> bool:
    """Return True if a path leads to one of the others.

    Only files of the same name are compared: the others may lie on a file system that hangs.
    """
    if path in others:
        return True
    name = os.path.basename(path)
    with contextlib.suppress(OSError):
        return any(os.path.basename(each) == name and os.path.samefile(each, path) for each in others)
    return False


def names(job_id: str, raw_id: str) -> list[re.Pattern[str]]:
    """Return patterns for a job's id in a file name: `%j`, and `%A_%a` for an array task.

    The raw id of an array's last task is the array's own id, which is in the names of all its files.
    """
    array, task, number = job_id.partition("_")
    wanted = [rf"{re.escape(array)}[_.-]0*{re.escape(number)}"] if task else []
    wanted += [re.escape(raw_id)] if raw_id != array or not task else []
    return [re.compile(rf"(?<!\d)0*{each}(?!\d)") for each in wanted]


def unread(file: LogFile, place: ReadPosition | None, *, first: bool, files: int = 1) -> tuple[int, int]:
    """Return the range of bytes that is new, as (from, to); all files of the log share one budget.

    A file that is shorter than what was read of it was truncated or replaced, and is read from its beginning.
    """
    begin = place.offset if place and place.offset <= file.size else 0
    limit = FIRST_LOOK if first else min(AT_MOST, TOGETHER // files)
    return max(begin, file.size - limit), file.size


def read(path: str, begin: int, end: int) -> bytes:
    """Read the bytes from `begin` to `end`; fewer if the file was truncated in the meantime."""
    with open(open_plain(path, follow=True), "rb", buffering=0) as file:
        file.seek(begin)
        return file.read(end - begin) or b""


def checksum(path: str, size: int) -> int:
    """Return the checksum of a file's first bytes; 0 if there are none, or more than SMALL."""
    if not 0 < size <= SMALL:
        return 0
    with contextlib.suppress(FileNotFoundError):
        return crc32(read(path, 0, size))
    return 0


def is_rewritten(file: LogFile, place: ReadPosition | None) -> bool:
    """Return True if a small file no longer begins with what was read of it."""
    known = place is not None and place.checksum != 0 and place.size <= file.size
    return place is not None and known and checksum(file.path, place.size) != place.checksum


def grown_at(
    file: LogFile, place: ReadPosition | None, looked: float | None, now: float, skew: float
) -> float:
    """Return when the file last grew, by our clock.

    Its mtime counts if it lies between our last two looks; otherwise clocks differ or attributes were cached,
    and the time of our own look counts. For a file that we have not seen before there is only its mtime,
    which is corrected by the last known difference of clocks (`skew`, seconds).
    """
    if place and (file.size, file.mtime) == (place.size, place.mtime):
        return place.grown_at
    if looked is None or place is None:
        return min(file.mtime - skew, now)
    return file.mtime if looked <= file.mtime <= now else now


def clock_skew(
    files: list[LogFile], places: Mapping[str, ReadPosition], looked: float | None, now: float
) -> float | None:
    """Return by how many seconds the file server's clock is ahead of ours, from a file that grew.

    None if no file grew since the last look. The true time of writing lies between two looks; 0 is returned
    if the mtime does too.
    """
    for file in files:
        place = places.get(file.key)
        if place and looked is not None and file.size > place.size and file.mtime != place.mtime:
            ahead, behind = file.mtime - now, file.mtime - looked
            return ahead if ahead > 0 else behind if behind < 0 else 0.0
    return None


_LETTER = re.compile(r"%(\d*)([AabJjNnstux%])")
_CHANGING = frozenset("AabJjNnst")
_WORDS = r"s?batch|err(?:or)?s?|jobs?|logs?|out(?:put)?s?|runs?|slurm|std(?:err|out)|tasks?|train(?:ing)?"
"""Words in the file names of jobs that do not tell one run from another."""
_NOWHERE = frozenset({"", "none", "/dev/null"})


def glob_of(pattern: str, job: Job) -> str:
    """Return the glob for `pattern` (absolute, or relative to the job's folder); empty: no log is kept."""
    if pattern.strip() in _NOWHERE:
        return ""
    path = pattern if pattern.startswith("/") else f"{job.work_dir.rstrip('/')}/{pattern}"
    if "\\\\" in path:
        return _literal(path.replace("\\\\", ""))
    plain = _literal if any(found[2] in "AJj" for found in _LETTER.finditer(path)) else _Without(job)
    parts, at = [], 0
    for found in _LETTER.finditer(path):
        parts += [plain(path[at : found.start()]), _replaced(found[2], job)]
        at = found.end()
    return re.sub(r"\*{2,}", "*", "".join([*parts, plain(path[at:])]))


def output_of(pattern: str, job_id: str, raw_id: str) -> str:
    """Return the glob for a job's output as scontrol shows it, with some letters left (`%J`, `%N`, `%4j`)."""
    array, _, task = job_id.partition("_")
    known = {"A": array, "a": task, "j": raw_id, "J": raw_id, "%": "%"}
    parts, at = [], 0
    for found in _LETTER.finditer(pattern):
        text = known.get(found[2]) or "*"
        width = min(digits(found[1] or "0"), 10) if text.isdecimal() else 0
        parts += [escape(pattern[at : found.start()]), text.zfill(width)]
        at = found.end()
    return "".join([*parts, escape(pattern[at:])])


def is_anybodys(glob: str, job: Job) -> bool:
    """Return True if the file's name does not tell the run's logs from those of the user's other jobs."""
    stem, _, ending = glob.rpartition("/")[2].rpartition(".")
    told = stem or ending
    if "*" not in glob or _literal(job.name) in told:
        return False
    words = re.findall(r"[^\W\d_]+", told.replace(job.user, ""))
    return all(re.fullmatch(_WORDS, word, re.IGNORECASE) for word in words)


def _replaced(letter: str, job: Job) -> str:
    if letter in _CHANGING:
        return "*"
    return _literal({"u": job.user, "x": job.name, "%": "%"}[letter])


@dataclass(frozen=True, slots=True)
class _Without:
    """Writer of globs for a name whose letters Slurm has already replaced.

    The job's own ids, with an array task behind them, become `*` wherever they stand alone.
    """

    job: Job

    def __call__(self, text: str) -> str:
        ids = "|".join(re.escape(each) for each in {self.job.raw_id, self.job.array_id} if each)
        array = re.fullmatch(r"\d+_(\d+)", self.job.id)
        task = rf"(?:[_-]0*{array[1]}(?!\d))?" if array else ""
        parts, at = [], 0
        for found in re.finditer(rf"(?<![A-Za-z0-9])0*(?:{ids})(?!\d){task}", text):
            parts += [_literal(text[at : found.start()]), "*"]
            at = found.end()
        return "".join([*parts, _literal(text[at:])])


def _literal(text: str) -> str:
    """Escape text so that both the glob and config.toml (no variables) take it literally."""
    return escape(text).replace("$", "[$]")
