r"""sbatch's patterns for the names of log files, as a glob that also matches the run's next jobs.

The letters are those of sbatch(1), "filename pattern": %A %a %b %J %j %N %n %s %t change from job to job, %u
and %x do not; `%5j` pads with zeros; `\\` in front switches them all off. squeue shows the pattern as it was
given; scontrol (22.05) half of it replaced already: there the job's own id in the name is taken for one too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdogd.batch.models import Job

_LETTER = re.compile(r"%(\d*)([AabJjNnstux%])")
_CHANGING = frozenset("AabJjNnst")
_WORDS = r"s?batch|err(?:or)?s?|jobs?|logs?|out(?:put)?s?|runs?|slurm|std(?:err|out)|tasks?|train(?:ing)?"
"""What file names of jobs are made of that tell one's from another's no more than the ending does."""
_NOWHERE = frozenset({"", "none", "/dev/null"})


def glob_of(pattern: str, job: Job) -> str:
    """The glob for `pattern` (absolute, or relative to the job's working folder); empty: no log is kept."""
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


def is_anybodys(glob: str, job: Job) -> bool:
    """Whether nothing in the file's name tells the run's logs from those of the user's other jobs."""
    stem, _, ending = glob.rpartition("/")[2].rpartition(".")
    told = stem or ending
    if "*" not in glob or _literal(job.name) in told:
        return False
    words = re.findall(r"[^\W\d_]+", told.replace(job.user, ""))
    return all(re.fullmatch(_WORDS, word, re.IGNORECASE) for word in words)


def _replaced(letter: str, job: Job) -> str:
    """What stands for one pattern letter."""
    if letter in _CHANGING:
        return "*"
    return _literal({"u": job.user, "x": job.name, "%": "%"}[letter])


@dataclass(frozen=True, slots=True)
class _Without:
    """Text of a name whose patterns Slurm has replaced: the job's own ids, and an array's task behind one,
    become `*` wherever they stand alone."""

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
    """Text that a glob takes as it stands, and in which config.toml finds no variable."""
    return escape(text).replace("$", "[$]")
