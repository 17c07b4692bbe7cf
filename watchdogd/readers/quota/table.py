"""The table of quota(1) and of `lfs quota`, which share their form.

    Disk quotas for usr alice (uid 1234):
         Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace
         /scratch   [1048576] 2097152 4194304       - [1000]   5000   10000       -

Quotas of a pool follow a line `Pool: ark.flash`. Lines of single storage targets (`lfs quota -v`) are left
out: their limits are slices that Lustre grants as they are needed.

Read with wrapped lines (a long file system alone on its line), several reports in one, missing grace columns,
`*` (over the limit) and `[]` (inaccurate). Blocks without a suffix are KiB; `k` in a file count is 1000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWNER = re.compile(
    r"Disk quotas for (usr|user|grp|group|prj|project) (.+?)(?: \([ugp]id (\d+)\))?:\s*(none)?"
)
_WORDS = {"usr": "user", "grp": "group", "prj": "project"}
_NUMBER = re.compile(r"\[?[\d.,]+[KMGTPE]?\]?\*?", re.IGNORECASE)
_TARGET = re.compile(r".*-(?:MDT|OST)[0-9a-f]{4}(?:_UUID)?|.*_UUID")
_NOTE = re.compile(
    r"\(.*\)|[ugp]id \S+ is using default .*|Total allocated .*|Some errors happened .*|quotactl .* failed.*"
    r"|.*\|\|.*"
)
"""Lines that tools print between the rows; with bars, those of another tool."""
_KIB = 1024.0
_OVER = frozenset({"none", "expired"})


@dataclass(frozen=True, slots=True)
class Row:
    """One file system's line in a report: whose it is, which file system, its two limits."""

    owner: str
    filesystem: str
    limits: tuple[Limit, Limit]


def fits(text: str) -> bool:
    """Whether such a report is there."""
    return any(_OWNER.match(line.strip()) for line in text.splitlines())


def read_rows(text: str, *, now: float | None = None) -> list[Row]:
    """All rows of all reports. `now` tells a raw grace time (`quota -p`) that ran out.

    UnreadableError with the offending line where a row cannot be understood, or there is no report at all.
    """
    owner, path, pool, rows, reports = "", "", "", [], 0
    for line in text.splitlines():
        match = _OWNER.match(line.strip())
        words = line.split()
        if match:
            reports += 1
            owner, path, pool = f"{_WORDS.get(match[1], match[1])} {match[2]}", "", ""
        elif words[:1] == ["Pool:"] and len(words) > 1:
            pool = f" in pool {words[1].rpartition('.')[2]}"
        elif not owner or not words or words[0] == "Filesystem" or _NOTE.fullmatch(line.strip()):
            continue
        elif len(words) == 1 and not path:
            path = words[0]
        elif row := _row(words, path, owner + pool, now):
            rows += [] if _TARGET.fullmatch(row.filesystem) else [row]
            path = ""
        elif line[0] in " \t/" and len(words) > 2:
            raise UnreadableError(f"a quota line cannot be read: '{line.strip()}'")
    if not reports:
        raise UnreadableError(f"no quota report: '{first_line(text)}'")
    return rows


def limits_of(words: list[str], path: str, whose: str, now: float | None) -> tuple[Limit, Limit] | None:
    """The two limits of a row's cells: used, soft, hard, grace of blocks, then of files; None of others."""
    cells = _cells(words)
    if cells is None:
        return None
    blocks, files = cells[:4], cells[4:]
    return (
        _limit(BYTES, whose, path, blocks, _KIB, 1024, now),
        _limit(INODES, whose, path, files, 1.0, 1000, now),
    )


def _row(words: list[str], path: str, owner: str, now: float | None) -> Row | None:
    if not path:
        name = max(len(words) - 8, 1)  # a file system may have blanks in its name
        path, words = " ".join(words[:name]), words[name:]
    limits = limits_of(words, path, f"quota of {owner}", now)
    return None if limits is None else Row(owner, path, limits)


def _cells(words: list[str]) -> list[str] | None:
    """The eight cells; graces that are blank (quota(1) without -p) put in as `-`."""
    if len(words) == 8:
        cells = list(words)
    elif len(words) == 7:
        graced = not _NUMBER.fullmatch(words[3])
        cells = [*words, "-"] if graced else [*words[:3], "-", *words[3:]]
    elif len(words) == 6:
        cells = [*words[:3], "-", *words[3:], "-"]
    else:
        return None
    numbers = cells[:3] + cells[4:7]
    return cells if all(_NUMBER.fullmatch(cell) or cell == "-" for cell in numbers) else None


def _limit(
    kind: str,
    of: str,
    path: str,
    cells: Sequence[str],
    bare: float,
    base: int,
    now: float | None,
) -> Limit:
    used, soft, hard, grace = cells
    return Limit(
        kind,
        of,
        used=amount(used, bare=bare, base=base) if used != "-" else 0.0,
        hard=limit(hard, bare=bare, base=base),
        soft=limit(soft, bare=bare, base=base),
        grace=_grace(grace, now),
        expired=_expired(grace, now),
        path=path,
    )


def _expired(grace: str, now: float | None) -> bool:
    """`none` is what both tools print of a grace period that ran out; `-p` prints when it does."""
    if grace.isdigit():
        return now is not None and 0 < int(grace) <= now
    return grace in _OVER


def _grace(grace: str, now: float | None) -> str:
    if not grace.isdigit():
        return "" if grace in ("-", *_OVER) else grace
    left = int(grace) - (now or 0.0)
    return f"{left / 86400:.1f} days" if now is not None and 0 < left < 10 * 365 * 86400 else ""
