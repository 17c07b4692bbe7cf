"""Quota reports of `repquota`, `xfs_quota -c report` and `xfs_quota -c quota`.

    *** Report for user quotas on device /dev/sdc1
    Block grace time: 7days; Inode grace time: 7days
                            Block limits                File limits
    User            used    soft    hard  grace    used  soft  hard  grace
    ----------------------------------------------------------------------
    root      --      20       0       0              2     0     0
    carol     +-  204800  150000  300000  6days      40  1000  2000

    Project quota on /data (/dev/vdb)
                                   Blocks
    Project ID       Used       Soft       Hard    Warn/Grace
    ---------- --------------------------------------------------
    #7              81920   52428800   52428800     00 [--------]

    Disk quotas for User carol (1000)
    Filesystem     Blocks      Quota      Limit  Warn/Time      Mounted on
    /dev/vdb        98.5M       100M       100M   00 [------] /data

Blocks without a suffix are KiB. Without -p, repquota leaves the grace column blank if no grace period runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from watchdogd.errors import UnreadableError
from watchdogd.parsers.quota.lfs_quota import limits_of
from watchdogd.parsers.quota.models import BYTES, INODES, Owner, StorageLimit
from watchdogd.parsers.quota.tool_output import ToolOutput, as_output, first_line, read_limit

_REPQUOTA = re.compile(r"\*\*\* Report for (\w+) quotas on device (\S+)")
_XFS = re.compile(r"(User|Group|Project) quota on (\S+) \((\S+)\)")
_XFS_OWN = re.compile(r"Disk quotas for (User|Group|Project) (\S+) \(#?\d+\)")
_FLAGGED = re.compile(r"(\S+)\s+[+-]{2}\s+(\S.*)")
_BOX = re.compile(r"(?<!\S)(\S+)\s+(\S+)\s+(\S+)\s+\d+\s+\[([^\[\]]*)\]")
_EMPTY = frozenset({"-", "none"})


def fits(text: str) -> bool:
    return bool(_REPQUOTA.search(text) or _XFS.search(text) or _XFS_OWN.search(text))


def read(text: str | ToolOutput, *, now: float | None = None) -> list[StorageLimit]:
    """Return the limits of everybody in all reports; `path` is the device (xfs_quota: the mount point).

    A raw grace time (`repquota -p`) before `now` has expired. A row that cannot be understood counts as
    missed. Raise UnreadableError if there is no report.
    """
    said = as_output(text)
    if not fits(said.text):
        raise UnreadableError(f"no report of quotas: '{first_line(said.text)}'")
    found: list[StorageLimit] = []
    head = _Head()
    for line in said:
        if new := _head(line, said.at):
            head.close(said)
            head = new
            said.know()
        elif head.owner:
            found += _line(line, head, said, now)
    head.close(said)
    return found


@dataclass(slots=True)
class _Head:
    """Heading of the report being read: kind of owner, file system, columns.

    `began` is the heading's line until the first row comes, then -1.
    """

    owner: str = ""
    path: str = ""
    own: str = ""
    began: int = -1
    kinds: list[str] = field(default_factory=list)

    def close(self, said: ToolOutput) -> None:
        """Mark the heading as bare if no row followed it."""
        if self.began >= 0:
            said.bare(self.began)


def _head(line: str, at: int) -> _Head | None:
    if match := _REPQUOTA.search(line):
        return _Head(match[1], match[2], began=at)
    if match := _XFS.search(line):
        return _Head(match[1].lower(), match[2], began=at)
    if match := _XFS_OWN.search(line):
        return _Head(match[1].lower(), own=match[2], began=at)
    return None


def _line(line: str, head: _Head, said: ToolOutput, now: float | None) -> list[StorageLimit]:
    """Return the limits in one line of a report, none if it is not a row."""
    flagged = _FLAGGED.fullmatch(line.strip())
    if flagged:
        head.began = -1
        with said.row():
            return _flagged(line, Owner(head.owner, flagged[1]), head.path, flagged[2].split(), now)
    elif not head.kinds and re.search(r"\b(?:Blocks|Inodes|Files)\b", line):
        words = re.findall(r"\b(?:Blocks|Inodes|Files)\b", line)
        head.kinds = [BYTES if word == "Blocks" else INODES for word in words]
        said.know()
    elif head.kinds and "[" in line:
        head.began = -1
        with said.row():
            named = f"{head.own} {_figures(line)}" if head.own else line
            return list(_boxed(named, head.owner, head.path or line.rpartition("]")[2].strip(), head.kinds))
    return []


def _flagged(line: str, whose: str, path: str, words: list[str], now: float | None) -> list[StorageLimit]:
    both = limits_of(words, path, whose, now)
    if both is None:
        raise UnreadableError(f"a line of repquota cannot be read: '{line.strip()}'")
    return list(both)


def _figures(line: str) -> str:
    """Return the figures of a line without the device before them, which may stand on a line of its own."""
    return line if line[:1].isspace() else line.partition(" ")[2]


def _boxed(line: str, owner: str, path: str, kinds: list[str]) -> Iterator[StorageLimit]:
    """Read a row of xfs_quota: for each kind used, soft, hard, warnings, and the grace in brackets."""
    name, _, rest = line.strip().partition(" ")
    boxes = _BOX.findall(rest)
    if len(boxes) != len(kinds):
        raise UnreadableError(f"a line of xfs_quota cannot be read: '{line.strip()}'")
    for kind, (used, soft, hard, grace) in zip(kinds, boxes, strict=True):
        told, whose = grace.strip("- "), Owner(owner, name.lstrip("#"))
        left, over = "" if told in _EMPTY else told, told == "none"
        yield read_limit(kind, whose, used, hard, soft, bare=1024.0, path=path, grace=left, expired=over)
