"""Output of `mmlsquota`, machine-readable (-Y) and as a table, and of `mmlsattr -L`. Amounts are KiB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import unquote

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.models import BYTES, INODES, Owner, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, read_limit

_TYPES = {"USR": "user", "GRP": "group", "FILESET": "fileset"}
_NUMBERED = {"0": "USR", "1": "GRP", "2": "FILESET"}
_UNITS = {"KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3, "TB": 1024.0**4, "PB": 1024.0**5}
_HEADING = re.compile(r"Disk quotas for (?:user|group|fileset) (\S+)")
_FILESET = re.compile(r"^fileset name:\s*(\S+)", re.MULTILINE)


def read_quotas(text: str | ToolOutput, filesystem: str = "", fileset: str = "") -> list[StorageLimit]:
    """Return all limits, or those of one file system and fileset; amounts in doubt count as used.

    A remote cluster's file system has another name there: if no row has the name asked for and all rows have
    the same other name, that one is meant. Raise UnreadableError, with the first line, if neither format is
    found.
    """
    said = as_output(text)
    rows = list(_machine(said)) if ":HEADER:" in said.text else []
    rows += _table(said)
    if not rows and not said.understood and not said.reading(()).bare:
        raise UnreadableError(f"no answer of mmlsquota: '{first_line(said.text)}'")
    names = {limit.path for limit in rows}
    wanted = filesystem if filesystem in names or len(names) > 1 else ""
    return [
        limit
        for limit in rows
        if wanted in ("", limit.path) and (fileset in ("", limit.fileset) or not limit.fileset)
    ]


def read_fileset(text: str) -> str:
    """Return the fileset that `mmlsattr -L PATH` names, or empty."""
    match = _FILESET.search(text)
    return match[1] if match else ""


def _machine(said: ToolOutput) -> Iterator[StorageLimit]:
    columns: list[str] = []
    header = -1
    for line in said:
        cells = line.split(":")
        if len(cells) > 3 and cells[2] == "HEADER":
            columns = cells
            if header >= 0:
                said.bare(header)
            header = said.at
            said.know()
        elif columns and len(cells) > 3 and cells[0] == columns[0]:
            row = {name: unquote(cell) for name, cell in zip(columns, cells, strict=False) if name}
            header = -1
            with said.row():
                yield from _of_row(row, line)
    if header >= 0:
        said.bare(header)


def _of_row(row: dict[str, str], line: str) -> list[StorageLimit]:
    try:
        kind = _NUMBERED.get(row["quotaType"], row["quotaType"])
        place = row.get("filesetname", "") if kind != "FILESET" else row["name"]
        whose = _owner(kind, row["name"], place)
        blocks = [row[f"block{part}"] for part in ("Usage", "Quota", "Limit", "InDoubt", "Grace")]
        files = [row[f"files{part}"] for part in ("Usage", "Quota", "Limit", "InDoubt", "Grace")]
    except KeyError as error:
        raise UnreadableError(f"mmlsquota says no {error}: '{line}'") from None
    spot = row.get("filesystemName", ""), place
    return [_limit(BYTES, whose, spot, blocks, 1024.0), _limit(INODES, whose, spot, files, 1.0)]


def _owner(kind: str, name: str, fileset: str) -> str:
    inside = f" in fileset {fileset}" if fileset and kind != "FILESET" else ""
    what = _TYPES.get(kind, kind.lower())
    return Owner(what, name, inside) if name else Owner(f"this {what}", inside=inside)


def _table(said: ToolOutput) -> list[StorageLimit]:
    """Read the table for people: block limits before the bar, file limits behind it (maybe cut off)."""
    found: list[StorageLimit] = []
    bare, name, heading, header = 0.0, "", -1, -1
    for line in said:
        words = line.partition("|")[0].split()
        kind = next((word for word in words if word in _TYPES), "")
        if match := _HEADING.match(line.strip()):
            name, heading = match[1], said.at
        elif "type" in words[:-1] and ("in_doubt" in words or "doubt" in words):
            bare, header = _UNITS.get(words[words.index("type") + 1].upper(), 1024.0), said.at
            said.know(*(number for number in (heading, header) if number >= 0))
        elif "Block Limits" in line:
            said.know()
        elif bare and kind:
            header = -1
            with said.row():
                found += _cells(line, kind, name, bare, said)
    if header >= 0:
        said.bare(header)
    return found


def _cells(line: str, kind: str, name: str, bare: float, said: ToolOutput) -> list[StorageLimit]:
    """Read one row; if its file limits are cut off, the line counts as missed but its blocks are returned."""
    left, _, right = line.partition("|")
    words, behind = left.split(), right.split()
    before, cells = words[: words.index(kind)], words[words.index(kind) + 1 :]
    if cells[:2] == ["no", "limits"]:
        return []
    if not before or len(cells) < 5:
        raise UnreadableError(f"a row of mmlsquota cannot be read: '{line.strip()}'")
    spot = before[0], before[1] if len(before) > 1 else ""
    whose = _owner(kind, name or (spot[1] if kind == "FILESET" else ""), spot[1])
    blocks = _limit(BYTES, whose, spot, [*cells[:4], " ".join(cells[4:])], bare)
    if len(behind) < 5:
        said.miss()
        return [blocks]
    return [blocks, _limit(INODES, whose, spot, behind[:5], 1.0)]


def _limit(kind: str, of: str, spot: tuple[str, str], cells: Sequence[str], bare: float) -> StorageLimit:
    used, soft, hard, doubt, grace = cells
    known = read_limit(kind, of, used, hard, soft, bare=bare, path=spot[0], fileset=spot[1])
    doubted = read_limit(kind, of, doubt, "", bare=bare).used
    told = "" if grace in ("none", "expired") else grace
    return replace(known, used=known.used + doubted, grace=told, expired=grace == "expired")
