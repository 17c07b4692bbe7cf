"""Quotas of BeeGFS: `beegfs-ctl --getquota`, and since BeeGFS 8 `beegfs quota list-usage --output ndjson`.

The former prints a table, or the same cells as CSV with --csv.
"""

from __future__ import annotations

import re

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.models import BYTES, INODES, Owner, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, read_limit
from watchdogd.system.number import count
from watchdogd.system.smallfile import parse_json

_HEADER = re.compile(r"user/group\s+\|\||name,id,size,hard,files,hard")
_POOL = re.compile(r"storage pool (.{1,99}?) \(ID: *(\d+)\)", re.IGNORECASE)


def fits(text: str) -> bool:
    """Return True if the text has a table (or CSV) of `beegfs-ctl --getquota`."""
    return bool(_HEADER.search(text))


def read_quotas(text: str | ToolOutput, owner: str) -> list[StorageLimit]:
    """Return the limits in every storage pool; `owner` is `user` or `group`, empty if not known.

    Raise UnreadableError if there is no row.
    """
    said = as_output(text)
    found: list[StorageLimit] = []
    pool, rows = "", False
    for line in said:
        if match := _POOL.search(line):
            pool = "" if match[2] == "1" else f" in pool {match[1]}"
        cells = _cells(line)
        if cells and count(cells[1]) is not None:
            name, _, size, hard, files, files_hard = cells
            whose, rows = Owner(owner, name, pool) if owner else Owner(name, inside=pool), True
            with said.row():
                found += _pair(whose, (size, hard), (files, files_hard))
        elif "||" in line:
            said.know()  # the head of the table
    if not rows:
        raise UnreadableError(f"no answer of beegfs-ctl: '{first_line(said.text)}'")
    return found


def read_usage(text: str | ToolOutput) -> list[StorageLimit]:
    """Return the limits in ndjson; lines that are not objects are the tool's log and are skipped.

    Raise UnreadableError if there is no row.
    """
    said = as_output(text)
    found: list[StorageLimit] = []
    rows = False
    for line in said:
        if line.lstrip().startswith("{"):
            rows = True
            with said.row():
                found += _of_object(line)
    if not rows:
        raise UnreadableError(f"no answer of beegfs quota list-usage: '{first_line(said.text)}'")
    return found


def _of_object(line: str) -> list[StorageLimit]:
    """Read `{"name": "carol", "type": "user", "pool": "storage_pool_default", "space": "1GiB/2GiB", ...}`."""
    try:
        row = parse_json(line)
        pool = str(row.get("pool") or "")
        inside = "" if "default" in pool.lower() or not pool else f" in pool {pool}"
        whose = Owner(str(row["type"]), str(row["name"]), inside)
        (size, _, hard), (files, _, files_hard) = (str(row[key]).partition("/") for key in ("space", "inode"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UnreadableError(f"a line of beegfs quota cannot be read: '{line.strip()[:200]}'") from None
    return _pair(whose, (size, hard), (files, files_hard))


def _pair(whose: str, space: tuple[str, str], files: tuple[str, str]) -> list[StorageLimit]:
    return [read_limit(BYTES, whose, *space), read_limit(INODES, whose, *files)]


def _cells(line: str) -> list[str] | None:
    """Return the six cells: name, id, size, hard, files, hard."""
    cells = line.replace("||", "|").split("|") if "|" in line else line.split(",")
    return [cell.strip() for cell in cells] if len(cells) == 6 else None
