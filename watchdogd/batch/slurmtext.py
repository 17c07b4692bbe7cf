"""The pieces that all of Slurm's text outputs are made of: times, durations, states, placeholders."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, TypeVar

from watchdogd.errors import UnreadableError
from watchdogd.system.number import count, digits, moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Value = TypeVar("Value")
FIELD = "\x1f"
"""ASCII unit separator: between fields, since names may hold spaces, commas, `|` and line breaks."""
RECORD = "\x1e"
"""ASCII record separator: before a record, since names and comments may span lines."""
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Makes squeue and sacct print epoch seconds, and array tasks in full (22.05: tried)."""

_NOTHING = frozenset({"", "N/A", "n/a", "None", "(null)", "Unknown", "NOT_SET", "None assigned", "INVALID"})


log = logging.getLogger(__name__)


def mark() -> str:
    """Makes separators of one question that nobody could know when they named a job: 32 bits in hex."""
    return os.urandom(4).hex()


def marked(said: str, mark: str) -> str:
    """The mark where the answer has it: else there are no records in it, or the tool is none of Slurm's."""
    return mark if mark and mark in said else ""


def kept(read: Callable[[str], Value], records: Iterable[str]) -> list[Value]:
    """What is read of each record; one that makes no sense costs itself alone, and stands in the log.

    UnreadableError where none makes any.
    """
    found, broken = [], []
    for record in records:
        try:
            found.append(read(record))
        except UnreadableError as error:
            broken.append(error)
    if broken and not found:
        raise broken[0]
    for each in broken[:3]:
        log.warning("%s (one of %d that are passed over)", each, len(broken))
    return found


def must_end(tool: str, said: str) -> None:
    """UnreadableError where the last line breaks off: a name that is half there is another name."""
    if said and not said.endswith("\n"):
        line = said[said.rfind("\n") + 1 :]
        raise UnreadableError(f"{tool} printed a line that breaks off: {shown(line)}")


def shown(record: str) -> str:
    """A record, or what should be one, as a message shows it: the beginning, with separators for people."""
    return repr(record.replace(RECORD, "").replace(FIELD, "|")[:200])


def text(field: str) -> str:
    """The field, or empty where Slurm writes one of its words for nothing."""
    return "" if field.strip() in _NOTHING else field


def time(field: str) -> float | None:
    """Seconds since the epoch of `1795825721`, or of `2026-11-28T10:00:00` in local time; else None."""
    if (seconds := count(field)) is not None:
        return float(seconds) or None
    return moment(field)


def state(field: str) -> str:
    """The bare word of `RUNNING`, `CANCELLED by 1000`, `CANCELLED+`, `PENDING,REQUEUED`."""
    return re.split(r"[ +,|*]", field.strip(), maxsplit=1)[0].upper()


def tasks(job_id: str) -> int:
    """How many array tasks `88_[1,4-9:2%1]` stands for; 1 of every other id."""
    inside = re.search(r"_\[([^\]%]*)", job_id)
    if not inside:
        return 1
    return sum(_span(part) for part in inside[1].split(",") if part) or 1


def _span(part: str) -> int:
    match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
    if not match:
        return 1  # `...` of a shortened list: at least one more
    first, last = digits(match[1]), digits(match[2] or match[1])
    return max(last - first, 0) // max(digits(match[3] or "1"), 1) + 1
