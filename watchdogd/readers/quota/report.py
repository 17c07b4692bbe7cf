"""Reports on quotas: `repquota`, `xfs_quota -c report` and `xfs_quota -c quota`, as limits.

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

Blocks without a suffix are KiB. repquota leaves graces blank where none runs (without -p).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from watchdogd.errors import UnreadableError
from watchdogd.readers.quota.firstline import first_line
from watchdogd.readers.quota.limit import BYTES, INODES, Limit
from watchdogd.readers.quota.size import amount, limit
from watchdogd.readers.quota.table import limits_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_REPQUOTA = re.compile(r"\*\*\* Report for (\w+) quotas on device (\S+)")
_XFS = re.compile(r"(User|Group|Project) quota on (\S+) \((\S+)\)")
_XFS_OWN = re.compile(r"Disk quotas for (User|Group|Project) (\S+) \(#?\d+\)")
_FLAGGED = re.compile(r"(\S+)\s+[+-]{2}\s+(\S.*)")
_BOX = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+\d+\s+\[([^\]]*)\]")
_EMPTY = frozenset({"-", "none"})


def fits(text: str) -> bool:
    """Whether it is one of these reports."""
    return bool(_REPQUOTA.search(text) or _XFS.search(text) or _XFS_OWN.search(text))


def read(text: str, *, now: float | None = None) -> list[Limit]:
    """The limits of everybody in all reports; `path` is the device, of xfs_quota the mount point.

    `now` tells a raw grace time (`repquota -p`) that ran out. UnreadableError with the offending line.
    """
    if not fits(text):
        raise UnreadableError(f"no report of quotas: '{first_line(text)}'")
    found: list[Limit] = []
    owner = path = own = ""
    kinds: list[str] = []
    for line in text.splitlines():
        if match := _REPQUOTA.search(line):
            owner, path, kinds = match[1], match[2], []
        elif match := _XFS.search(line):
            owner, path, own, kinds = match[1].lower(), match[2], "", []
        elif match := _XFS_OWN.search(line):
            owner, path, own, kinds = match[1].lower(), "", match[2], []
        elif owner and (flagged := _FLAGGED.fullmatch(line.strip())):
            found += _flagged(line, f"quota of {owner} {flagged[1]}", path, flagged[2].split(), now)
        elif owner and not kinds and re.search(r"\b(?:Blocks|Inodes|Files)\b", line):
            words = re.findall(r"Blocks|Inodes|Files\b", line)
            kinds = [BYTES if word == "Blocks" else INODES for word in words]
        elif kinds and "[" in line:
            named = f"{own} {_figures(line)}" if own else line
            found += _boxed(named, owner, path or line.rpartition("]")[2].strip(), kinds)
    return found


def _flagged(line: str, whose: str, path: str, words: list[str], now: float | None) -> tuple[Limit, ...]:
    both = limits_of(words, path, whose, now)
    if both is None:
        raise UnreadableError(f"a line of repquota cannot be read: '{line.strip()}'")
    return both


def _figures(line: str) -> str:
    """The line without the device before its figures, which may stand on a line of its own."""
    return line if line[:1].isspace() else line.partition(" ")[2]


def _boxed(line: str, owner: str, path: str, kinds: list[str]) -> Iterator[Limit]:
    """xfs_quota's row: for each kind used, soft, hard, warnings and the grace in brackets."""
    name, _, rest = line.strip().partition(" ")
    boxes = _BOX.findall(rest)
    if len(boxes) != len(kinds):
        raise UnreadableError(f"a line of xfs_quota cannot be read: '{line.strip()}'")
    for kind, (used, soft, hard, grace) in zip(kinds, boxes, strict=True):
        bare, base = (1024.0, 1024) if kind == BYTES else (1.0, 1000)
        told = grace.strip("- ")
        yield Limit(
            kind,
            f"quota of {owner} {name.lstrip('#')}",
            used=amount(used, bare=bare, base=base),
            hard=limit(hard, bare=bare, base=base),
            soft=limit(soft, bare=bare, base=base),
            grace="" if told in _EMPTY else told,
            expired=told == "none",
            path=path,
        )
