"""`mmlsquota`, machine-readable (-Y) and as a table, and `mmlsattr -L` as values. Amounts are KiB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit

_TYPES = {"USR": "user", "GRP": "group", "FILESET": "fileset"}
_NUMBERED = {"0": "USR", "1": "GRP", "2": "FILESET"}
_UNITS = {"KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4, "PB": 1024.0**5}
_FILESET = re.compile(r"^fileset name:\s*(\S+)", re.MULTILINE)


def read_quotas(text: str, filesystem: str = "", fileset: str = "") -> list[Limit]:
    """All limits, of one file system and fileset where they are named. What is in doubt counts as used.

    A remote cluster's file system goes by its name there: where nothing bears the name asked for, and all
    bear one other, that one is meant.

    UnreadableError with the offending line where neither form is found.
    """
    rows = list(_machine(text) if ":HEADER:" in text else _table(text))
    if not rows and "HEADER" not in text and "Block Limits" not in text and "doubt" not in text:
        raise UnreadableError(f"no answer of mmlsquota: '{first_line(text)}'")
    names = {limit.path for limit, _ in rows}
    wanted = filesystem if filesystem in names or len(names) > 1 else ""
    return [
        limit for limit, place in rows if wanted in ("", limit.path) and (fileset in ("", place) or not place)
    ]


def read_fileset(text: str) -> str:
    """The fileset of `mmlsattr -L PATH`, or empty."""
    match = _FILESET.search(text)
    return match[1] if match else ""


def _machine(text: str) -> Iterator[tuple[Limit, str]]:
    """Each limit with the fileset it counts in, or empty."""
    columns: list[str] = []
    for line in text.splitlines():
        cells = line.split(":")
        if len(cells) > 3 and cells[2] == "HEADER":
            columns = cells
        elif columns and len(cells) > 3:
            row = {name: unquote(cell) for name, cell in zip(columns, cells, strict=False) if name}
            yield from _of_row(row, line)


def _of_row(row: dict[str, str], line: str) -> Iterator[tuple[Limit, str]]:
    try:
        kind = _NUMBERED.get(row["quotaType"], row["quotaType"])
        place = row.get("filesetname", "") if kind != "FILESET" else row["name"]
        whose = _owner(kind, row["name"], place)
        blocks = [row[f"block{part}"] for part in ("Usage", "Quota", "Limit", "InDoubt", "Grace")]
        files = [row[f"files{part}"] for part in ("Usage", "Quota", "Limit", "InDoubt", "Grace")]
        yield _limit(BYTES, whose, row["filesystemName"], blocks, 1024.0), place
        yield _limit(INODES, whose, row["filesystemName"], files, 1.0), place
    except KeyError as error:
        raise UnreadableError(f"mmlsquota says no {error}: '{line}'") from None


def _owner(kind: str, name: str, fileset: str) -> str:
    inside = f" in fileset {fileset}" if fileset and kind != "FILESET" else ""
    what = _TYPES.get(kind, kind.lower())
    return f"quota of {what} {name}{inside}" if name else f"quota of this {what}{inside}"


def _table(text: str) -> Iterator[tuple[Limit, str]]:
    """The table for people: cells before the bar are blocks, those behind it files (which may be cut off)."""
    bare, name = 1024.0, ""
    for line in text.splitlines():
        left, _, right = line.partition("|")
        words, behind = left.split(), right.split()
        heading = re.match(r"Disk quotas for (?:user|group|fileset) (\S+)", line.strip())
        kind = next((word for word in words if word in _TYPES), "")
        if heading:
            name = heading[1]
        elif "type" in words and ("in_doubt" in words or "doubt" in words):
            bare = _UNITS.get(words[words.index("type") + 1].upper(), 1024.0)
        elif kind and len(words) - words.index(kind) >= 6:
            before, cells = words[: words.index(kind)], words[words.index(kind) + 1 :]
            place = before[1] if len(before) > 1 else ""
            whose = _owner(kind, name or (place if kind == "FILESET" else ""), place)
            yield _limit(BYTES, whose, before[0], [*cells[:4], " ".join(cells[4:])], bare), place
            if len(behind) >= 5:
                yield _limit(INODES, whose, before[0], behind[:5], 1.0), place


def _limit(kind: str, of: str, path: str, cells: Sequence[str], bare: float) -> Limit:
    used, soft, hard, doubt, grace = cells
    base = 1024 if kind == BYTES else 1000
    return Limit(
        kind,
        of,
        used=amount(used, bare=bare, base=base) + amount(doubt, bare=bare, base=base),
        hard=limit(hard, bare=bare, base=base),
        soft=limit(soft, bare=bare, base=base),
        grace="" if grace in ("none", "expired") else grace,
        expired=grace == "expired",
        path=path,
    )
