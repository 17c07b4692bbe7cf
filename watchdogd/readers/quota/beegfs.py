"""`beegfs-ctl --getquota` as values, as a table and with --csv."""

from __future__ import annotations

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit


def read_quotas(text: str, owner: str) -> list[Limit]:
    """The limits of every storage pool. `owner` is `user` or `group`.

    UnreadableError where no row is found.
    """
    found = []
    for line in text.splitlines():
        cells = _cells(line)
        if cells and cells[1].isdigit():
            name, _, size, hard, files, files_hard = cells
            whose = f"quota of {owner} {name}"
            found.append(Limit(BYTES, whose, used=amount(size), hard=limit(hard)))
            found.append(Limit(INODES, whose, used=amount(files, base=1000), hard=limit(files_hard)))
    if not found:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no output")
        raise UnreadableError(f"no answer of beegfs-ctl: '{first}'")
    return found


def _cells(line: str) -> list[str] | None:
    """The six cells: name, id, size, hard, files, hard."""
    cells = line.replace("||", "|").split("|") if "|" in line else line.split(",")
    return [cell.strip() for cell in cells] if len(cells) == 6 else None
