"""Elements of Slurm's text output: times, states, placeholders, node lists."""

from __future__ import annotations

import itertools
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from watchdogd.errors import UnreadableError
from watchdogd.system.number import count, digits, moment

Value = TypeVar("Value")
FIELD = "\x1f"
"""ASCII unit separator, between fields, since names may have spaces, commas, `|` and line breaks."""
RECORD = "\x1e"
"""ASCII record separator, before a record, since names and comments may span lines."""
ENVIRONMENT = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}
"""Variables by which squeue and sacct print epoch seconds, and array tasks in full (tested with 22.05)."""

_NOTHING = frozenset({"", "N/A", "n/a", "None", "(null)", "Unknown", "NOT_SET", "None assigned", "INVALID"})


log = logging.getLogger(__name__)


def mark() -> str:
    """Return a random mark for the separators of one query, which no job name can imitate: 32 bits in hex."""
    return os.urandom(4).hex()


def marked(said: str, mark: str) -> str:
    """Return the mark if the output has it; without, the output is empty or another tool's."""
    return mark if mark and mark in said else ""


def read_records(read: Callable[[str], Value], records: Iterable[str]) -> list[Value]:
    """Return the parsed records; invalid ones are skipped and logged. UnreadableError where all are."""
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
    """Raise UnreadableError where the last line is incomplete: half a name is another name."""
    if said and not said.endswith("\n"):
        line = said[said.rfind("\n") + 1 :]
        raise UnreadableError(f"{tool} printed a line that breaks off: {shown(line)}")


def shown(record: str) -> str:
    """Return the beginning of a record, readable for a message."""
    return repr(record.replace(RECORD, "").replace(FIELD, "|")[:200])


def text(field: str) -> str:
    """Return the field, or empty for Slurm's words for nothing."""
    return "" if field.strip() in _NOTHING else field


def time(field: str) -> float | None:
    """Return seconds since the epoch of `1795825721` or (local time) `2026-11-28T10:00:00`; else None."""
    if (seconds := count(field)) is not None:
        return float(seconds) or None
    return moment(field)


def state(field: str) -> str:
    """Return the first word of `RUNNING`, `CANCELLED by 1000`, `CANCELLED+`, `PENDING,REQUEUED`."""
    return re.split(r"[ +,|*]", field.strip(), maxsplit=1)[0].upper()


def tasks(job_id: str) -> int:
    """Return the number of array tasks in `88_[1,4-9:2%1]`; 1 for any other id."""
    inside = re.search(r"_\[([^\]%]*)", job_id)
    if not inside:
        return 1
    return sum(_span(part) for part in inside[1].split(",") if part) or 1


def _span(part: str) -> int:
    match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
    if not match:
        return 1  # `...` of a shortened list stands for one at least
    first, last = digits(match[1]), digits(match[2] or match[1])
    return max(last - first, 0) // max(digits(match[3] or "1"), 1) + 1


HOST_LIMIT = 20_000
"""Maximum names read from one list; no cluster has jobs with more nodes."""
_LONGEST_LIST = 4 * 1024 * 1024
"""Maximum characters read of a list: 20,000 names of 200."""
_TOKEN = re.compile(r"\[([^\[\]]*+)\]|([^,\[\]]++)|(,)")
_BRACKETS = 8
"""Maximum brackets read in one name; Slurm itself has two dimensions."""
_NAME_LENGTH = 1024
"""Maximum length of an expanded name; real ones have 255 at most."""


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the names of a node list in order, without repeats, HOST_LIMIT at most.

    Padding is kept (`nid[098-100]`); several brackets multiply.
    """
    found: dict[str, None] = {}
    for pieces in _parts(text[:_LONGEST_LIST]):
        found.update(dict.fromkeys(_expanded_names(pieces, HOST_LIMIT - len(found))))
        if len(found) >= HOST_LIMIT:
            break
    return tuple(found)


NamePiece = tuple[str, str]
"""Content of brackets, or a word."""


def _parts(text: str) -> Iterator[list[NamePiece]]:
    """Yield the pieces of each name between commas."""
    pieces: list[NamePiece] = []
    for inside, word, comma in _TOKEN.findall(text):
        if comma:
            yield pieces
            pieces = []
        else:
            pieces.append((inside, word.strip()))
    yield pieces


def _expanded_names(pieces: list[NamePiece], most: int) -> Iterator[str]:
    """Yield up to `most` names of one part, without building more."""
    if sum(bool(inside) for inside, _ in pieces) > _BRACKETS:
        return iter(())
    choices = [
        list(itertools.islice(_expanded_numbers(inside), most)) if inside else [word]
        for inside, word in pieces
    ]
    many = any(len(choice) > 1 for choice in choices)
    if many and sum(max(map(len, choice), default=0) for choice in choices) > _NAME_LENGTH:
        return iter(())
    names = ("".join(combination) for combination in itertools.product(*choices))
    return itertools.islice(filter(None, names), most)


def _expanded_numbers(inside: str) -> Iterator[str]:
    """Yield `1-3,07` as 1, 2, 3, 07."""
    for span in inside.split(","):
        first, dash, last = (each.strip() for each in span.partition("-"))
        begin, end = count(first), count(last)
        if dash and begin is not None and end is not None:
            yield from (str(number).zfill(len(first)) for number in range(begin, end + 1))
        else:
            yield span.strip()
